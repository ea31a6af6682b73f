/// The formatting of `loc-key` with `loc-args`. Source: Generating a remote notification.
///
/// | specifier | result |
/// |---|---|
/// | `%@` | the next argument in order |
/// | `%1$@` | the argument with that number, from 1; does not advance the order |
/// | `%%` | one percent sign |
///
/// Everything else is left unchanged. Apple's pages do not define missing arguments or strings; here a missing argument
/// is empty, and a missing string is shown as its key.
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

  /// The specifier after a percent sign, and its end; nil if it is none.
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
