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

  private var writer: HeaderWriter
  var count: Int { writer.count }

  /// - Parameter room: See ``room(ids:valueBytes:)``.
  init(at base: UnsafeMutablePointer<UInt8>, room: Int) {
    unsafe writer = HeaderWriter(at: base, room: room)
  }

  /// The most bytes of a block with this many ids, whose values have this many bytes together.
  static func room(ids: Int, valueBytes: Int) -> Int {
    fixedBytes + ids * (fieldBytes + longestName) + valueBytes
  }

  private static let longestName = 16

  /// Section 4.2: acknowledges that the peer made its table smaller. Size 0 is always small enough.
  mutating func announceNoTable() { writer.put(0x20) }

  mutating func add(status: UInt16) {
    if status == 200 { return writer.put(0x80 | Self.statusName) }
    for known in Self.statuses where known.status == status {
      return writer.put(0x80 | known.index)
    }
    writer.put(Self.statusName)
    writer.put(3)
    writer.put(0x30 + UInt8(truncatingIfNeeded: status / 100 % 10))
    writer.put(0x30 + UInt8(truncatingIfNeeded: status / 10 % 10))
    writer.put(0x30 + UInt8(truncatingIfNeeded: status % 10))
  }

  mutating func addJSONContentType() {
    writer.put(Self.contentTypeName, prefixBits: 4, 0)
    writer.putString(Self.jsonContentType)
  }

  mutating func add(retryAfterSeconds: Int) {
    writer.put(Self.retryAfterName, prefixBits: 4, 0)
    writer.putString(Array(String(retryAfterSeconds).utf8).span)
  }

  /// Adds an id, never indexed (section 6.2.3), so that intermediaries do not store it either.
  mutating func add(_ name: HeaderName, id value: Span<UInt8>) {
    writer.put(0x10)
    writer.putString(name.text)
    writer.putString(value)
  }
}
