internal import ApusModel

// Separate from `PayloadScan` on purpose: this one decodes where the scan only validates, and each tests the other.

extension JSONValue {
  /// Reads a text of RFC 8259 nested at most to `Limits.payloadDepth`. A lone surrogate in an escape becomes U+FFFD.
  package init(parsing bytes: Span<UInt8>) throws(JSONFault) {
    var reader = JSONReader()
    reader.skipWhitespace(bytes)
    guard reader.offset < bytes.count else { throw .empty }
    self = try reader.value(bytes, depth: 0)
    reader.skipWhitespace(bytes)
    guard reader.offset == bytes.count else { throw .trailingBytes(offset: reader.offset) }
  }
}

private struct JSONReader {
  var offset = 0

  mutating func skipWhitespace(_ bytes: Span<UInt8>) {
    while offset < bytes.count, [0x20, 0x09, 0x0a, 0x0d].contains(bytes[offset]) { offset += 1 }
  }

  private func peek(_ bytes: Span<UInt8>) throws(JSONFault) -> UInt8 {
    guard offset < bytes.count else { throw .truncated }
    return bytes[offset]
  }

  private mutating func take(_ byte: UInt8, _ bytes: Span<UInt8>) throws(JSONFault) {
    guard try peek(bytes) == byte else { throw .badToken(offset: offset) }
    offset += 1
  }

  /// Consumes the byte if it is next after white space.
  private mutating func takes(_ byte: UInt8, _ bytes: Span<UInt8>) throws(JSONFault) -> Bool {
    skipWhitespace(bytes)
    guard try peek(bytes) == byte else { return false }
    offset += 1
    return true
  }

  mutating func value(_ bytes: Span<UInt8>, depth: Int) throws(JSONFault) -> JSONValue {
    skipWhitespace(bytes)
    switch try peek(bytes) {
    case 0x7b, 0x5b:
      guard depth < Limits.payloadDepth else { throw .tooDeep(offset: offset) }
      return try peek(bytes) == 0x7b
        ? .object(object(bytes, depth: depth + 1)) : .array(array(bytes, depth: depth + 1))
    case 0x22: return .string(try string(bytes))
    case 0x6e: return try word("null", .null, bytes)
    case 0x74: return try word("true", .bool(true), bytes)
    case 0x66: return try word("false", .bool(false), bytes)
    default: return try number(bytes)
    }
  }

  private mutating func object(
    _ bytes: Span<UInt8>, depth: Int
  ) throws(JSONFault) -> JSONObject {
    try take(0x7b, bytes)
    var object = JSONObject()
    if try takes(0x7d, bytes) { return object }
    repeat {
      skipWhitespace(bytes)
      let key = try string(bytes)
      guard try takes(0x3a, bytes) else { throw .badToken(offset: offset) }
      object.members.append(JSONObject.Member(key: key, value: try value(bytes, depth: depth)))
    } while try takes(0x2c, bytes)
    try take(0x7d, bytes)
    return object
  }

  private mutating func array(
    _ bytes: Span<UInt8>, depth: Int
  ) throws(JSONFault) -> [JSONValue] {
    try take(0x5b, bytes)
    var elements: [JSONValue] = []
    if try takes(0x5d, bytes) { return elements }
    repeat {
      elements.append(try value(bytes, depth: depth))
    } while try takes(0x2c, bytes)
    try take(0x5d, bytes)
    return elements
  }

  private mutating func word(
    _ text: StaticString, _ value: JSONValue, _ bytes: Span<UInt8>
  ) throws(JSONFault) -> JSONValue {
    for byte in text.bytes { try take(byte, bytes) }
    return value
  }

  private mutating func number(_ bytes: Span<UInt8>) throws(JSONFault) -> JSONValue {
    let start = offset
    var isWhole = true
    func next(_ offset: Int) -> UInt8 { offset < bytes.count ? bytes[offset] : 0 }
    if next(offset) == 0x2d { offset += 1 }
    if next(offset) == 0x30 { offset += 1 } else { try digits(bytes) }
    if next(offset) == 0x2e {
      isWhole = false
      offset += 1
      try digits(bytes)
    }
    if next(offset) | 0x20 == 0x65 {
      isWhole = false
      offset += 1
      if next(offset) == 0x2b || next(offset) == 0x2d { offset += 1 }
      try digits(bytes)
    }
    let text = bytes.extracting(start..<offset)
    if isWhole, let integer = DecimalInteger.parse(text) { return .integer(integer) }
    return .number(Double(text.text) ?? .nan)
  }

  private mutating func digits(_ bytes: Span<UInt8>) throws(JSONFault) {
    guard (0x30...0x39).contains(try peek(bytes)) else { throw .badToken(offset: offset) }
    while offset < bytes.count, (0x30...0x39).contains(bytes[offset]) { offset += 1 }
  }

  private mutating func string(_ bytes: Span<UInt8>) throws(JSONFault) -> String {
    let start = offset
    try take(0x22, bytes)
    var text: [UInt8] = []
    while true {
      let byte = try peek(bytes)
      offset += 1
      switch byte {
      case 0x22:
        try checkUTF8(bytes, start + 1..<offset - 1)
        return String(decoding: text, as: UTF8.self)
      case 0x5c: try escape(bytes, &text)
      case 0..<0x20: throw .badToken(offset: offset - 1)
      default: text.append(byte)
      }
    }
  }

  private func checkUTF8(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(JSONFault) {
    do throws(UTF8.ValidationError) {
      _ = try UTF8Span(validating: bytes.extracting(range))
    } catch {
      throw .badUTF8(offset: range.lowerBound + error.byteOffsets.lowerBound)
    }
  }

  private mutating func escape(_ bytes: Span<UInt8>, _ text: inout [UInt8]) throws(JSONFault) {
    let byte = try peek(bytes)
    offset += 1
    switch byte {
    case 0x22, 0x5c, 0x2f: text.append(byte)
    case 0x62: text.append(0x08)
    case 0x66: text.append(0x0c)
    case 0x6e: text.append(0x0a)
    case 0x72: text.append(0x0d)
    case 0x74: text.append(0x09)
    case 0x75:
      var scalar = try unit(bytes)
      if scalar & 0xfc00 == 0xd800, let low = lowSurrogate(bytes) {
        scalar = 0x10000 + (scalar & 0x3ff) &<< 10 + low & 0x3ff
      }
      text.append(contentsOf: String(Unicode.Scalar(scalar) ?? "\u{fffd}").utf8)
    default: throw .badToken(offset: offset - 1)
    }
  }

  /// The four digits of an escape.
  private mutating func unit(_ bytes: Span<UInt8>) throws(JSONFault) -> UInt32 {
    var unit: UInt32 = 0
    for _ in 0..<4 {
      guard let digit = hexValue(try peek(bytes)) else { throw .badToken(offset: offset) }
      unit = unit &<< 4 | UInt32(digit)
      offset += 1
    }
    return unit
  }

  /// Consumes the escape of a low surrogate if it is next.
  private mutating func lowSurrogate(_ bytes: Span<UInt8>) -> UInt32? {
    var ahead = self
    do throws(JSONFault) {
      try ahead.take(0x5c, bytes)
      try ahead.take(0x75, bytes)
      let low = try ahead.unit(bytes)
      guard low & 0xfc00 == 0xdc00 else { return nil }
      self = ahead
      return low
    } catch {
      // What follows is read, and validated, as the text after a lone surrogate.
      return nil
    }
  }
}
