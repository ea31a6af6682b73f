/// A JSON value. Objects keep the order of their members, so that what is printed can be compared as text.
package indirect enum JSONValue: Sendable {
  case null
  case boolean(Bool)
  case integer(Int64)
  /// A number that is no `Int64`, as it was written.
  case number(String)
  case string(String)
  case array([JSONValue])
  case object([(String, JSONValue)])
  /// JSON text that is passed on as it is.
  case verbatim(String)

  /// The members that are there: an absent one is left out, not null.
  package static func members(_ members: [(String, JSONValue?)]) -> JSONValue {
    .object(members.compactMap { name, value in value.map { (name, $0) } })
  }

  package static func strings(_ texts: [String]) -> JSONValue {
    .array(texts.map(JSONValue.string))
  }

  /// The value on one line, without spaces.
  package var text: String {
    var text = ""
    write(to: &text)
    return text
  }

  private func write(to text: inout String) {
    switch self {
    case .null: text += "null"
    case .boolean(let truth): text += truth ? "true" : "false"
    case .integer(let number): text += String(number)
    case .number(let digits): text += digits
    case .string(let string): Self.quote(string, into: &text)
    case .verbatim(let json): text += json
    case .array(let elements):
      text += "["
      for (index, element) in elements.enumerated() {
        if index > 0 { text += "," }
        element.write(to: &text)
      }
      text += "]"
    case .object(let members):
      text += "{"
      for (index, member) in members.enumerated() {
        if index > 0 { text += "," }
        Self.quote(member.0, into: &text)
        text += ":"
        member.1.write(to: &text)
      }
      text += "}"
    }
  }

  /// RFC 8259, section 7. Everything that could end a line or steer a terminal is escaped too: DEL, the C1 controls,
  /// and U+2028 and U+2029, which JavaScript takes for line ends.
  private static func quote(_ string: String, into text: inout String) {
    text += "\""
    for scalar in string.unicodeScalars {
      switch scalar.value {
      case 0x22: text += "\\\""
      case 0x5c: text += "\\\\"
      case 0x0a: text += "\\n"
      case 0x0d: text += "\\r"
      case 0x09: text += "\\t"
      case 0..<0x20, 0x7f..<0xa0, 0x2028, 0x2029:
        let digits = String(scalar.value, radix: 16)
        text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: text.unicodeScalars.append(scalar)
      }
    }
    text += "\""
  }
}

extension JSONValue {
  /// The first member of that name; nil for anything but an object.
  package subscript(name: String) -> JSONValue? {
    guard case .object(let members) = self else { return nil }
    return members.first { $0.0 == name }?.1
  }

  package var string: String? {
    guard case .string(let string) = self else { return nil }
    return string
  }

  /// The text of a string or a number.
  package var scalarText: String? {
    switch self {
    case .string(let text), .number(let text): text
    case .integer(let number): String(number)
    default: nil
    }
  }
}
