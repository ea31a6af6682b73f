internal import ApusModel

/// The tokens of JSON (RFC 8259, sections 2, 6 and 7): each function reads one that begins at `offset` and advances
/// past it.
struct JSONLexer {
  var offset = 0

  /// Skips white space and returns the next byte; 0 at the end, as no token begins with 0.
  @inline(always)
  mutating func next(_ bytes: Span<UInt8>) -> UInt8 {
    let byte = Self.byte(bytes, at: offset)
    if byte > 0x20 { return byte }
    offset = Self.afterWhitespace(bytes, from: offset)
    return Self.byte(bytes, at: offset)
  }

  /// The byte at `offset`, or 0 at the end. One comparison checks both bounds of the span.
  @inline(always)
  private static func byte(_ bytes: Span<UInt8>, at offset: Int) -> UInt8 {
    UInt(bitPattern: offset) < UInt(bitPattern: bytes.count) ? bytes[offset] : 0
  }

  /// Out of line, because most payloads contain no white space: machines write them.
  @inline(never)
  private static func afterWhitespace(_ bytes: Span<UInt8>, from start: Int) -> Int {
    var offset = start
    while offset < bytes.count {
      switch bytes[offset] {
      case 0x20, 0x0a, 0x0d, 0x09: offset += 1
      default: return offset
      }
    }
    return offset
  }

  /// The fault for an unexpected byte at `offset`.
  func fault(_ bytes: Span<UInt8>) -> JSONFault {
    offset < bytes.count ? .badToken(offset: offset) : .truncated
  }

  /// Reads a string with its quotation marks. Returns whether it contains escapes.
  @inline(always)
  mutating func string(_ bytes: Span<UInt8>) throws(JSONFault) -> Bool {
    var index = offset &+ 1
    var escaped = false
    while true {
      index = Self.skipPlain(bytes, from: index)
      let byte = Self.byte(bytes, at: index)
      if byte == 0x22 {
        offset = index &+ 1
        return escaped
      }
      if byte == 0x5c {
        escaped = true
        index = try Self.escape(bytes, at: index)
      } else {
        guard byte >= 0x80 else {
          throw index < bytes.count ? .badToken(offset: index) : .truncated
        }
        index = try Self.multibyte(bytes, at: index)
      }
    }
  }

  /// The offset of the first byte from `start` on that is not a plain character of a string: a quotation mark, a
  /// reverse solidus, a control character or part of a multibyte sequence.
  @inline(always)
  private static func skipPlain(_ bytes: Span<UInt8>, from start: Int) -> Int {
    var index = start
    // First eight bytes at once: enough for most keys, and with a shorter latency than a vector, on which everything
    // after it would depend. Then a vector at a time.
    if bytes.count &- index >= 8 {
      let first = marks(bytes.bigEndianUInt64(at: index).byteSwapped)
      if first != 0 { return index &+ first.trailingZeroBitCount &>> 3 }
      index &+= 8
    }
    while bytes.count &- index >= 16 {
      let marked = marks(bytes.sixteenBytes(at: index))
      if marked.hasLane { return index &+ marked.firstLane }
      index &+= 16
    }
    while index < bytes.count, bytes[index] &- 0x20 < 0x60, bytes[index] != 0x22,
      bytes[index] != 0x5c
    {
      index += 1
    }
    return index
  }

  /// Marks those of sixteen bytes that are not plain characters. As signed numbers, bytes of multibyte sequences are
  /// negative, and so below the first plain character too.
  @inline(always)
  private static func marks(_ bytes: SIMD16<Int8>) -> SIMDMask<SIMD16<Int8>> {
    (bytes .< SIMD16(repeating: 0x20)) .| (bytes .== SIMD16(repeating: 0x22))
      .| (bytes .== SIMD16(repeating: 0x5c))
  }

  /// Marks those of eight bytes, the first the least significant, that are not plain characters, in their top bits.
  ///
  /// A subtraction borrows from the next byte only if the byte itself is marked, so the first mark is exact; marks
  /// above it may not be.
  @inline(always)
  private static func marks(_ word: UInt64) -> UInt64 {
    let lows: UInt64 = 0x0101_0101_0101_0101
    let control = word &- (lows &* 0x20)
    let quotation = (word ^ (lows &* 0x22)) &- lows
    let solidus = (word ^ (lows &* 0x5c)) &- lows
    return (word | control | quotation | solidus) & (lows &* 0x80)
  }

  /// The offset after the escape at `start`.
  private static func escape(_ bytes: Span<UInt8>, at start: Int) throws(JSONFault) -> Int {
    guard start + 1 < bytes.count else { throw .truncated }
    switch bytes[start + 1] {
    case 0x22, 0x5c, 0x2f, 0x62, 0x66, 0x6e, 0x72, 0x74: return start + 2
    case 0x75:
      for index in start + 2..<start + 6 {
        guard index < bytes.count else { throw .truncated }
        guard hexValue(bytes[index]) != nil else { throw .badToken(offset: index) }
      }
      return start + 6
    default: throw .badToken(offset: start + 1)
    }
  }

  /// The offset after the sequence of two to four bytes at `start`: the table of RFC 3629, section 4.
  private static func multibyte(_ bytes: Span<UInt8>, at start: Int) throws(JSONFault) -> Int {
    let length: Int
    var second: ClosedRange<UInt8> = 0x80...0xbf
    switch bytes[start] {
    case 0xc2...0xdf: length = 2
    case 0xe0: (length, second) = (3, 0xa0...0xbf)
    case 0xed: (length, second) = (3, 0x80...0x9f)
    case 0xe1...0xef: length = 3
    case 0xf0: (length, second) = (4, 0x90...0xbf)
    case 0xf4: (length, second) = (4, 0x80...0x8f)
    case 0xf1...0xf3: length = 4
    default: throw .badUTF8(offset: start)
    }
    for index in start + 1..<start + length {
      guard index < bytes.count else { throw .truncated }
      let expected = index == start + 1 ? second : 0x80...0xbf
      guard expected.contains(bytes[index]) else { throw .badUTF8(offset: start) }
    }
    return start + length
  }

  /// Reads `null`, `true` or `false`.
  @inline(always)
  mutating func word(_ bytes: Span<UInt8>, _ text: StaticString) throws(JSONFault) {
    let length = text.utf8CodeUnitCount
    if offset + length <= bytes.count, bytes.extracting(offset..<offset + length).equals(text) {
      offset += length
      return
    }
    throw Self.wordFault(bytes.extracting(offset...), text, at: offset)
  }

  private static func wordFault(
    _ rest: Span<UInt8>, _ text: StaticString, at offset: Int
  ) -> JSONFault {
    let expected = text.bytes
    for (index, byte) in expected.enumerated() {
      guard index < rest.count else { return .truncated }
      if rest[index] != byte { return .badToken(offset: offset + index) }
    }
    return .truncated
  }

  @inline(always)
  mutating func number(_ bytes: Span<UInt8>) throws(JSONFault) {
    if bytes[offset] == 0x2d { offset += 1 }
    guard offset < bytes.count else { throw .truncated }
    if bytes[offset] == 0x30 { offset += 1 } else { try digits(bytes) }
    if offset < bytes.count, bytes[offset] == 0x2e {
      offset += 1
      try digits(bytes)
    }
    guard offset < bytes.count, bytes[offset] | 0x20 == 0x65 else { return }
    offset += 1
    guard offset < bytes.count else { throw .truncated }
    if bytes[offset] == 0x2b || bytes[offset] == 0x2d { offset += 1 }
    try digits(bytes)
  }

  /// Reads one or more digits.
  @inline(always)
  private mutating func digits(_ bytes: Span<UInt8>) throws(JSONFault) {
    guard offset < bytes.count else { throw .truncated }
    guard bytes[offset] &- 0x30 < 10 else { throw .badToken(offset: offset) }
    repeat { offset += 1 } while offset < bytes.count && bytes[offset] &- 0x30 < 10
  }

  /// Whether the content of a string, with valid escapes, equals `name` (ASCII) once decoded.
  static func escaped(_ text: Span<UInt8>, is name: StaticString) -> Bool {
    var index = 0
    for expected in name.bytes {
      guard index < text.count else { return false }
      guard text[index] == 0x5c else {
        guard text[index] == expected else { return false }
        index += 1
        continue
      }
      // Of the short escapes only the solidus could occur in a name, and no name here contains one.
      guard text[index + 1] == 0x75 else { return false }
      var unit: UInt16 = 0
      for digit in index + 2..<index + 6 { unit = unit &<< 4 | UInt16(hexValue(text[digit]) ?? 0) }
      guard unit == UInt16(expected) else { return false }
      index += 6
    }
    return index == text.count
  }
}
