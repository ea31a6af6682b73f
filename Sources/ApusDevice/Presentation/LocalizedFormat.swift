/// The formatting of `loc-key` with `loc-args`: "Generating a remote notification".
///
/// | specifier | what it becomes |
/// |---|---|
/// | `%@` | the next argument in order |
/// | `%1$@` | the argument of that number, counted from 1; it does not move the order |
/// | `%%` | one percent sign |
///
/// Anything else stays as it is. Apple's pages do not say what becomes of an argument that is missing; here it is
/// empty, and a string that is missing is shown as its key.
enum LocalizedFormat {
  static func text(
    key: String, arguments: [String], strings: [String: String]
  ) -> String {
    guard let format = strings[key] else { return key }
    return self.format(format, arguments)
  }

  static func format(_ format: String, _ arguments: [String]) -> String {
    let input = Array(format.unicodeScalars)
    var output = String.UnicodeScalarView()
    var ordinal = 0
    var index = 0
    while index < input.count {
      guard input[index] == "%", let specifier = specifier(input, at: index + 1) else {
        output.append(input[index])
        index += 1
        continue
      }
      switch specifier.kind {
      case .percent: output.append("%")
      case .next:
        output.append(contentsOf: argument(ordinal, of: arguments))
        ordinal += 1
      case .number(let number): output.append(contentsOf: argument(number - 1, of: arguments))
      }
      index = specifier.end
    }
    return String(output)
  }

  private enum Kind {
    case percent
    case next
    case number(Int)
  }

  /// What stands behind a percent sign, and where it ends; nil for no specifier.
  private static func specifier(
    _ input: [Unicode.Scalar], at start: Int
  ) -> (kind: Kind, end: Int)? {
    guard start < input.count else { return nil }
    if input[start] == "%" { return (.percent, start + 1) }
    if input[start] == "@" { return (.next, start + 1) }
    var end = start
    var number = 0
    // No payload has a thousand arguments.
    while end < input.count, end < start + 3, "0"..."9" ~= input[end] {
      number = number * 10 + Int(input[end].value - 0x30)
      end += 1
    }
    guard number > 0, end + 1 < input.count, input[end] == "$", input[end + 1] == "@" else {
      return nil
    }
    return (.number(number), end + 2)
  }

  private static func argument(
    _ index: Int, of arguments: [String]
  ) -> String.UnicodeScalarView {
    arguments.indices.contains(index) ? arguments[index].unicodeScalars : "".unicodeScalars
  }
}
