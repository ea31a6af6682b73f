import ApusModel

/// Encodes the fields of one response into a HEADERS frame (RFC 7541, section 6.2).
///
/// Nothing is entered into the peer's table: of the values that responses repeat, the static table has the status, and
/// ids never repeat. So the encoder needs no memory, and responses have the same bytes on every connection except for
/// the id.
@safe struct AnswerHeaders: ~Copyable {
  /// Appendix A: the index of `:status: 200`, and of others; 8 is also used for the name.
  private static let statuses: [(status: UInt16, index: UInt8)] = [
    (200, 8), (204, 9), (206, 10), (304, 11), (400, 12), (404, 13), (500, 14),
  ]
  private static let statusName: UInt8 = 8
  private static let contentTypeName = 31
  private static let retryAfterName = 53
  private static let jsonContentType: StaticString = "application/json"
  /// Bytes of a status, the content type, and a table size update.
  private static let fixedBytes = 32
  /// Overhead of a field: a representation, and two lengths of up to five bytes.
  private static let fieldBytes = 11

  private var base: UnsafeMutablePointer<UInt8>
  private(set) var count = 0

  init(at base: UnsafeMutablePointer<UInt8>) { unsafe self.base = base }

  /// The most bytes of a block with this many ids, whose values have this many bytes together.
  static func room(ids: Int, valueBytes: Int) -> Int {
    fixedBytes + ids * (fieldBytes + longestName) + valueBytes
  }

  private static let longestName = 16

  /// Section 4.2: acknowledges that the peer made its table smaller. Size 0 is always small enough.
  mutating func announceNoTable() { put(0x20) }

  mutating func add(status: UInt16) {
    if status == 200 { return put(0x80 | Self.statusName) }
    for known in Self.statuses where known.status == status { return put(0x80 | known.index) }
    put(Self.statusName)
    put(3)
    put(0x30 + UInt8(truncatingIfNeeded: status / 100 % 10))
    put(0x30 + UInt8(truncatingIfNeeded: status / 10 % 10))
    put(0x30 + UInt8(truncatingIfNeeded: status % 10))
  }

  mutating func addJSONContentType() {
    put(first: 0, prefixBits: 4, Self.contentTypeName)
    put(first: 0, prefixBits: 7, Self.jsonContentType.utf8CodeUnitCount)
    put(Self.jsonContentType)
  }

  mutating func add(retryAfterSeconds: Int) {
    let digits = Array(String(retryAfterSeconds).utf8)
    put(first: 0, prefixBits: 4, Self.retryAfterName)
    put(first: 0, prefixBits: 7, digits.count)
    put(digits.span)
  }

  /// Adds an id, never indexed (section 6.2.3), so that intermediaries do not store it either.
  mutating func add(_ name: HeaderName, id value: Span<UInt8>) {
    let name = name.text
    put(0x10)
    put(first: 0, prefixBits: 7, name.utf8CodeUnitCount)
    put(name)
    put(first: 0, prefixBits: 7, value.count)
    put(value)
  }

  private mutating func put(_ byte: UInt8) {
    unsafe base[count] = byte
    count &+= 1
  }

  /// Section 5.1.
  private mutating func put(first: UInt8, prefixBits: Int, _ number: Int) {
    let most = (1 &<< prefixBits) &- 1
    guard number >= most else { return put(first | UInt8(truncatingIfNeeded: number)) }
    put(first | UInt8(truncatingIfNeeded: most))
    var rest = number &- most
    while rest >= 128 {
      put(UInt8(truncatingIfNeeded: rest & 127 | 128))
      rest &>>= 7
    }
    put(UInt8(truncatingIfNeeded: rest))
  }

  private mutating func put(_ text: StaticString) {
    unsafe put(
      Span(
        _unsafeElements: UnsafeBufferPointer(
          start: text.utf8Start, count: text.utf8CodeUnitCount)))
  }

  private mutating func put(_ bytes: Span<UInt8>) {
    unsafe FrameOutput.put(bytes, at: base + count)
    count &+= bytes.count
  }
}
