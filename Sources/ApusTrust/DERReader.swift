/// Why bytes are not valid DER, and at which byte.
package enum DERFault: Error, Sendable, Hashable {
  /// The bytes end before the element does.
  case truncated(at: Int)
  /// An element of another type.
  case tag(expected: UInt8, found: UInt8, at: Int)
  /// An indefinite length, or one that is not in its shortest form. X.690, section 10.1.
  case lengthForm(at: Int)
  /// Bytes after the last element.
  case trailing(at: Int)
  /// Content that its type or its place does not allow.
  case value(at: Int)
}

/// Reads consecutive DER elements, strictly: only definite lengths in their shortest form, no trailing bytes.
///
/// X.690, sections 8.1 and 10.1. Supports lengths of up to 16 MiB (three length bytes), far more than occurs here.
struct DERReader: ~Escapable {
  let bytes: Span<UInt8>
  private(set) var position: Int
  let end: Int

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>) {
    self.bytes = bytes
    position = 0
    end = bytes.count
  }

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>, within range: Range<Int>) {
    self.bytes = bytes
    position = range.lowerBound
    end = range.upperBound
  }

  var isAtEnd: Bool { position == end }

  /// The type of the next element; nil at the end.
  var nextTag: UInt8? { isAtEnd ? nil : bytes[position] }

  /// Reads an element of type `tag`; returns the range of its content.
  mutating func element(_ tag: UInt8) throws(DERFault) -> Range<Int> {
    let start = position
    let found = try byte()
    guard found == tag else { throw .tag(expected: tag, found: found, at: start) }
    let count = try length()
    guard count <= end - position else { throw .truncated(at: position) }
    let content = position..<position + count
    position = content.upperBound
    return content
  }

  /// Reads an element of type `tag`; returns its range, with type and length.
  mutating func whole(_ tag: UInt8) throws(DERFault) -> Range<Int> {
    let start = position
    return start..<(try element(tag)).upperBound
  }

  /// Reads an element of type `tag`; returns a reader of the elements that it contains.
  @_lifetime(copy self)
  mutating func inside(_ tag: UInt8) throws(DERFault) -> DERReader {
    DERReader(bytes, within: try element(tag))
  }

  mutating func boolean() throws(DERFault) -> Bool {
    let content = try element(DER.Tag.boolean)
    guard content.count == 1 else { throw .value(at: content.lowerBound) }
    // DER allows only 0xff for true, and certificates in use have other values.
    return bytes[content.lowerBound] != 0
  }

  /// Reads an element of any type; returns the type and the range of its content.
  mutating func anyElement() throws(DERFault) -> (tag: UInt8, content: Range<Int>) {
    guard position < end else { throw .truncated(at: position) }
    let tag = bytes[position]
    return (tag, try element(tag))
  }

  func expectEnd() throws(DERFault) {
    guard isAtEnd else { throw .trailing(at: position) }
  }

  private mutating func byte() throws(DERFault) -> UInt8 {
    guard position < end else { throw .truncated(at: position) }
    defer { position += 1 }
    return bytes[position]
  }

  private mutating func length() throws(DERFault) -> Int {
    let start = position
    let first = try byte()
    if first < 0x80 { return Int(first) }
    let count = Int(first & 0x7f)
    guard count >= 1, count <= 3 else { throw .lengthForm(at: start) }
    var value = 0
    for _ in 0..<count { value = value << 8 | Int(try byte()) }
    // The shortest form: no leading zero byte, and the short form below 128.
    let least = count == 1 ? 0x80 : 1 << (8 * (count - 1))
    guard value >= least else { throw .lengthForm(at: start) }
    return value
  }
}
