package import ApusModel

/// A notification stored in `mailbox`: the fields by value, the collapse id and the payload as ranges of the value
/// that was read.
///
/// Layout, numbers big-endian: version (1), acceptance order (8), expiration (8), accepted (8), message id (4),
/// notification id (16), unique id (16, absent in version 1), device token (32), priority (1), push type (1), flags
/// (1), collapse id (1 for the length, then the bytes), payload (2 for the length, then the bytes).
package struct StoredNotification: Sendable, Hashable {
  package var fields: Fields
  /// The range of the collapse id in the value. Empty if there is none.
  package var collapseID: Range<Int>
  /// The range of the payload in the value.
  package var payload: Range<Int>

  package static let version: UInt8 = 2
  /// Without the unique id: written by the first version of the program, still readable.
  private static let versionWithoutUniqueID: UInt8 = 1
  /// Bytes before the collapse id's length.
  package static let fixedByteCount = 96
  /// Means that no push type was given.
  private static let noPushType: UInt8 = 0xff

  package struct Fields: Sendable, Hashable {
    /// The position in the order of acceptance; see `AcceptanceOrder`.
    package var acceptanceOrder: UInt64
    /// Seconds since 1970 after which the notification is not delivered.
    package var expirationSeconds: Int64
    /// Milliseconds since 1970 at which it was accepted.
    package var acceptedMilliseconds: Int64
    /// The number by which the device acknowledges it.
    package var messageID: UInt32
    package var id: NotificationID
    /// Zero in records of version 1.
    package var uniqueID: NotificationID
    package var token: DeviceToken
    package var priority: Priority
    /// Nil if the provider named none.
    package var pushType: PushType?
    /// ``isBackground``, ``isBinary`` and ``mayBeRepeated``; other bits are zero.
    package var flags: UInt8

    /// In `flags`: the notification only wakes its app.
    package static let isBackground: UInt8 = 1
    /// In `flags`: it came through the binary interface.
    package static let isBinary: UInt8 = 2
    /// In `flags`: the device may have it already under another message id.
    package static let mayBeRepeated: UInt8 = 4

    package init(
      acceptanceOrder: UInt64, expirationSeconds: Int64, acceptedMilliseconds: Int64,
      messageID: UInt32, id: NotificationID, uniqueID: NotificationID, token: DeviceToken,
      priority: Priority, pushType: PushType?, flags: UInt8
    ) {
      self.acceptanceOrder = acceptanceOrder
      self.expirationSeconds = expirationSeconds
      self.acceptedMilliseconds = acceptedMilliseconds
      self.messageID = messageID
      self.id = id
      self.uniqueID = uniqueID
      self.token = token
      self.priority = priority
      self.pushType = pushType
      self.flags = flags
    }
  }

  /// Overwrites `output` with a record, reusing its memory. `collapseID` has at most 255 bytes and `payload` at most
  /// 65,535: admission allows far less (`Limits`).
  package static func encode(
    _ fields: Fields, collapseID: Span<UInt8>, payload: Span<UInt8>, into output: inout [UInt8]
  ) {
    output.removeAll(keepingCapacity: true)
    // In one append: an array checks for uniqueness and capacity at each one.
    output.append(addingCapacity: byteCount(collapseID, payload)) { record in
      append(fields, collapseID, payload, to: &record)
    }
  }

  /// Bytes of a record.
  static func byteCount(_ collapseID: Span<UInt8>, _ payload: Span<UInt8>) -> Int {
    precondition(collapseID.count <= 0xff && payload.count <= 0xffff, "too long for a record")
    return fixedByteCount + 3 + collapseID.count + payload.count
  }

  /// Appends a record, for which there must be room.
  static func append(
    _ fields: Fields, _ collapseID: Span<UInt8>, _ payload: Span<UInt8>,
    to record: inout OutputSpan<UInt8>
  ) {
    append(fields, to: &record)
    record.append(UInt8(collapseID.count))
    record.append(copying: collapseID)
    record.append(bigEndian: UInt16(payload.count))
    record.append(copying: payload)
  }

  private static func append(_ fields: Fields, to record: inout OutputSpan<UInt8>) {
    record.append(version)
    record.append(bigEndian: fields.acceptanceOrder)
    record.append(bigEndian: fields.expirationSeconds)
    record.append(bigEndian: fields.acceptedMilliseconds)
    record.append(bigEndian: fields.messageID)
    record.append(bigEndian: fields.id.high)
    record.append(bigEndian: fields.id.low)
    record.append(bigEndian: fields.uniqueID.high)
    record.append(bigEndian: fields.uniqueID.low)
    record.append(bigEndian: fields.token.words.0)
    record.append(bigEndian: fields.token.words.1)
    record.append(bigEndian: fields.token.words.2)
    record.append(bigEndian: fields.token.words.3)
    record.append(fields.priority.rawValue)
    record.append(fields.pushType?.rawValue ?? noPushType)
    record.append(fields.flags)
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: bytes)
    guard version == Self.version || version == Self.versionWithoutUniqueID else {
      throw .unknownVersion(version)
    }
    fields = Fields(
      acceptanceOrder: try cursor.integer("acceptance order", in: bytes),
      expirationSeconds: try cursor.integer("expiration", in: bytes),
      acceptedMilliseconds: try cursor.integer("accepted", in: bytes),
      messageID: try cursor.integer("message id", in: bytes),
      id: NotificationID(
        high: try cursor.integer("notification id", in: bytes),
        low: try cursor.integer("notification id", in: bytes)),
      uniqueID: version == Self.version
        ? NotificationID(
          high: try cursor.integer("unique id", in: bytes),
          low: try cursor.integer("unique id", in: bytes))
        : NotificationID(high: 0, low: 0),
      token: DeviceToken(
        words: (
          try cursor.integer("token", in: bytes), try cursor.integer("token", in: bytes),
          try cursor.integer("token", in: bytes), try cursor.integer("token", in: bytes)
        )),
      priority: try Self.priority(cursor.integer("priority", in: bytes)),
      pushType: try Self.pushType(cursor.integer("push type", in: bytes)),
      flags: try cursor.integer("flags", in: bytes))
    let collapseLength: UInt8 = try cursor.integer("collapse id", in: bytes)
    collapseID = try cursor.run(Int(collapseLength), "collapse id", in: bytes)
    let payloadLength: UInt16 = try cursor.integer("payload", in: bytes)
    payload = try cursor.run(Int(payloadLength), "payload", in: bytes)
    try cursor.end(in: bytes)
  }

  private static func priority(_ value: UInt8) throws(RecordError) -> Priority {
    guard let priority = Priority(rawValue: value) else { throw .malformed(field: "priority") }
    return priority
  }

  private static func pushType(_ code: UInt8) throws(RecordError) -> PushType? {
    if code == noPushType { return nil }
    guard let type = PushType(rawValue: code) else { throw .malformed(field: "push type") }
    return type
  }

  /// Whether the notification in a value has expired, without reading the rest. False if the value is not a
  /// notification.
  static func isExpired(_ value: Span<UInt8>, nowSeconds: Int64) -> Bool {
    var cursor = RecordCursor()
    guard let version: UInt8 = try? cursor.integer("version", in: value), version <= Self.version,
      (try? cursor.integer("acceptance order", in: value) as UInt64) != nil,
      let expiration: Int64 = try? cursor.integer("expiration", in: value)
    else { return false }
    return expiration <= nowSeconds
  }
}
