package import ApusModel
import ApusWire

/// The newest broadcast of a channel that stores it, in the family `channels`.
///
/// Key: 0x01 (1), then as in `ChannelRecord`. Value, numbers big-endian: version (1), order of acceptance (8), id (16),
/// accepted in Unix milliseconds (8), kept until Unix seconds (8), priority (1), payload.
package struct BroadcastRecord: Sendable, Hashable {
  package var order: UInt64
  package var id: NotificationID
  package var acceptedMilliseconds: Int64
  package var expirationSeconds: Int64
  package var priority: Priority
  package var payload: [UInt8]

  package static let version: UInt8 = 1

  private static let fixedByteCount = 42

  package init(
    order: UInt64, id: NotificationID, acceptedMilliseconds: Int64, expirationSeconds: Int64,
    priority: Priority, payload: [UInt8]
  ) {
    self.order = order
    self.id = id
    self.acceptedMilliseconds = acceptedMilliseconds
    self.expirationSeconds = expirationSeconds
    self.priority = priority
    self.payload = payload
  }

  package func encoded() -> [UInt8] {
    var output: [UInt8] = [Self.version]
    output.reserveCapacity(Self.fixedByteCount + payload.count)
    output.append(bigEndian: order)
    output.append(bigEndian: id.high)
    output.append(bigEndian: id.low)
    output.append(bigEndian: UInt64(bitPattern: acceptedMilliseconds))
    output.append(bigEndian: UInt64(bitPattern: expirationSeconds))
    output.append(priority.rawValue)
    output += payload
    return output
  }

  /// How a value begins: its order and its id. Needs 25 bytes of it.
  static func head(
    _ bytes: Span<UInt8>
  ) throws(RecordError) -> (order: UInt64, id: NotificationID) {
    var cursor = RecordCursor()
    return try head(bytes, &cursor)
  }

  private static func head(
    _ bytes: Span<UInt8>, _ cursor: inout RecordCursor
  ) throws(RecordError) -> (order: UInt64, id: NotificationID) {
    let version: UInt8 = try cursor.integer("version", in: bytes)
    guard version == Self.version else { throw .unknownVersion(version) }
    let order: UInt64 = try cursor.integer("order", in: bytes)
    let id = NotificationID(
      high: try cursor.integer("id", in: bytes), low: try cursor.integer("id", in: bytes))
    return (order, id)
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    (order, id) = try Self.head(bytes, &cursor)
    acceptedMilliseconds = try cursor.integer("accepted", in: bytes)
    expirationSeconds = try cursor.integer("kept until", in: bytes)
    guard acceptedMilliseconds >= 0, expirationSeconds > 0 else {
      throw .malformed(field: "accepted")
    }
    let value: UInt8 = try cursor.integer("priority", in: bytes)
    guard let priority = Priority(rawValue: value) else { throw .malformed(field: "priority") }
    self.priority = priority
    let left = bytes.count - cursor.position
    guard 1...Limits.broadcastPayloadBytes ~= left else { throw .malformed(field: "payload") }
    payload = bytes.extracting(cursor.position...).copied()
  }
}
