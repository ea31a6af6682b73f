import ApusModel

/// Why a text is not a single JSON object, and at which byte.
package enum FlatObjectFault: Error, Sendable, Hashable {
  case notUTF8
  case syntax(at: Int)
  /// Containers nested deeper than `FlatObject.depthLimit`.
  case tooDeep(at: Int)
  /// More members than `FlatObject.memberLimit`.
  case tooManyMembers
}

/// A JSON object of which only strings and numbers at the top level are used: the header or the claims of a provider
/// token.
///
/// The whole text is checked against RFC 8259; nested values are checked and skipped.
///
/// Not ApusWire's `JSONValue`, because this text comes from a peer that is not authenticated yet. `JSONValue` reads a
/// lone surrogate as U+FFFD where this rejects it, which would make different names equal; it keeps numbers as
/// `Double`, whose rounding could move `iat` to the next second, and reads -0 as 0, where `NumericDate` needs the
/// spelling; and it does not limit members, and limits depth as for payloads.
struct FlatObject: Hashable {
  enum Value: Hashable {
    case string(String)
    /// As spelled.
    case number(String)
    /// `true`, `false`, `null`, an array or an object.
    case other
  }

  struct Member: Hashable {
    let name: String
    let value: Value
  }

  static let depthLimit = 16
  static let memberLimit = 64

  let members: [Member]

  /// The values of `name`; more than one if the object repeats it.
  func values(of name: String) -> [Value] {
    members.filter { $0.name == name }.map(\.value)
  }

  static func parse(_ bytes: Span<UInt8>) throws(FlatObjectFault) -> FlatObject {
    // Validated once for the whole text, so strings need no further check.
    guard (try? UTF8Span(validating: bytes)) != nil else { throw .notUTF8 }
    var reader = FlatObjectReader(bytes)
    return FlatObject(members: try reader.document())
  }
}

/// Parses UTF-8 text in one pass.
private struct FlatObjectReader: ~Escapable {
  private let bytes: Span<UInt8>
  private var position = 0

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>) { self.bytes = bytes }

  mutating func document() throws(FlatObjectFault) -> [FlatObject.Member] {
    var members: [FlatObject.Member] = []
    skipSpace()
    try expect(UInt8(ascii: "{"))
    skipSpace()
    if !take(UInt8(ascii: "}")) {
      repeat {
        guard members.count < FlatObject.memberLimit else { throw .tooManyMembers }
        skipSpace()
        let name = try string()
        skipSpace()
        try expect(UInt8(ascii: ":"))
        skipSpace()
        members.append(FlatObject.Member(name: name, value: try value()))
        skipSpace()
      } while take(UInt8(ascii: ","))
      try expect(UInt8(ascii: "}"))
    }
    skipSpace()
    guard position == bytes.count else { throw .syntax(at: position) }
    return members
  }

  private mutating func value() throws(FlatObjectFault) -> FlatObject.Value {
    switch peek() ?? 0 {
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try number())
    default:
      try skipValue(depth: 1)
      return .other
    }
  }

  private mutating func skipValue(depth: Int) throws(FlatObjectFault) {
    switch peek() ?? 0 {
    case UInt8(ascii: "\""): _ = try string()
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): _ = try number()
    case UInt8(ascii: "t"): try literal("true")
    case UInt8(ascii: "f"): try literal("false")
    case UInt8(ascii: "n"): try literal("null")
    case UInt8(ascii: "["): try skipContainer(depth: depth, named: false, end: UInt8(ascii: "]"))
    case UInt8(ascii: "{"): try skipContainer(depth: depth, named: true, end: UInt8(ascii: "}"))
    default: throw .syntax(at: position)
    }
  }

  private mutating func skipContainer(
    depth: Int, named: Bool, end: UInt8
  ) throws(FlatObjectFault) {
    guard depth < FlatObject.depthLimit else { throw .tooDeep(at: position) }
    position += 1
    skipSpace()
    if take(end) { return }
    repeat {
      skipSpace()
      if named {
        _ = try string()
        skipSpace()
        try expect(UInt8(ascii: ":"))
        skipSpace()
      }
      try skipValue(depth: depth + 1)
      skipSpace()
    } while take(UInt8(ascii: ","))
    try expect(end)
  }

  private mutating func string() throws(FlatObjectFault) -> String {
    let start = position
    try expect(UInt8(ascii: "\""))
    var content: [UInt8] = []
    while let byte = peek() {
      switch byte {
      case UInt8(ascii: "\""):
        position += 1
        return String(decoding: content, as: UTF8.self)
      case UInt8(ascii: "\\"): try content.append(contentsOf: escape().utf8)
      case 0..<0x20: throw .syntax(at: position)
      default:
        content.append(byte)
        position += 1
      }
    }
    throw .syntax(at: start)
  }

  private mutating func escape() throws(FlatObjectFault) -> Character {
    let start = position
    position += 1
    guard let kind = peek() else { throw .syntax(at: start) }
    position += 1
    switch kind {
    case UInt8(ascii: "\""): return "\""
    case UInt8(ascii: "\\"): return "\\"
    case UInt8(ascii: "/"): return "/"
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{c}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"): return Character(try unicodeEscape(from: start))
    default: throw .syntax(at: start)
    }
  }

  /// The digits after `\u`, and a second such escape after the first half of a surrogate pair.
  private mutating func unicodeEscape(
    from start: Int
  ) throws(FlatObjectFault) -> Unicode.Scalar {
    var code = try hexDigits()
    if (0xd800..<0xdc00).contains(code) {
      try expect(UInt8(ascii: "\\"))
      try expect(UInt8(ascii: "u"))
      let low = try hexDigits()
      guard (0xdc00..<0xe000).contains(low) else { throw .syntax(at: start) }
      code = 0x10000 + (code - 0xd800) << 10 + (low - 0xdc00)
    }
    guard let scalar = Unicode.Scalar(code) else { throw .syntax(at: start) }
    return scalar
  }

  private mutating func hexDigits() throws(FlatObjectFault) -> UInt32 {
    var code: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = peek(), let digit = hexValue(byte) else { throw .syntax(at: position) }
      code = code << 4 | UInt32(digit)
      position += 1
    }
    return code
  }

  /// RFC 8259, section 6: no leading zeros, no bare point.
  private mutating func number() throws(FlatObjectFault) -> String {
    let start = position
    _ = take(UInt8(ascii: "-"))
    if !take(UInt8(ascii: "0")) { try digits() }
    if take(UInt8(ascii: ".")) { try digits() }
    if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
      _ = take(UInt8(ascii: "+")) || take(UInt8(ascii: "-"))
      try digits()
    }
    return bytes.extracting(start..<position).text
  }

  private mutating func digits() throws(FlatObjectFault) {
    let start = position
    while let byte = peek(), byte &- 0x30 < 10 { position += 1 }
    guard position > start else { throw .syntax(at: position) }
  }

  private mutating func literal(_ text: StaticString) throws(FlatObjectFault) {
    let end = position + text.utf8CodeUnitCount
    guard end <= bytes.count, bytes.extracting(position..<end).equals(text) else {
      throw .syntax(at: position)
    }
    position = end
  }

  private func peek() -> UInt8? { position < bytes.count ? bytes[position] : nil }

  private mutating func take(_ byte: UInt8) -> Bool {
    guard peek() == byte else { return false }
    position += 1
    return true
  }

  private mutating func expect(_ byte: UInt8) throws(FlatObjectFault) {
    guard take(byte) else { throw .syntax(at: position) }
  }

  private mutating func skipSpace() {
    while let byte = peek(), byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d {
      position += 1
    }
  }
}
