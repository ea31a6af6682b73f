package import ApusModel

/// One field of a frame. Its readers throw `badField` if the length is not the one that the field must have.
package struct CourierField: ~Escapable {
  package let command: UInt8
  package let id: UInt8
  /// The offset of the value within the frame's fields.
  package let offset: Int
  package let value: Span<UInt8>

  @_lifetime(copy value)
  init(command: UInt8, id: UInt8, offset: Int, value: Span<UInt8>) {
    self.command = command
    self.id = id
    self.offset = offset
    self.value = value
  }

  /// The range of the value within the frame's fields.
  package var range: Range<Int> { offset..<offset + value.count }

  /// The fault for this field's length.
  package var fault: CourierFault {
    .badField(command: command, id: id, length: value.count)
  }

  package func u8() throws(CourierFault) -> UInt8 {
    guard value.count == 1 else { throw fault }
    return value[0]
  }

  package func u16() throws(CourierFault) -> UInt16 {
    guard value.count == 2 else { throw fault }
    return value.bigEndianUInt16(at: 0)
  }

  package func u32() throws(CourierFault) -> UInt32 {
    guard value.count == 4 else { throw fault }
    return value.bigEndianUInt32(at: 0)
  }

  package func u64() throws(CourierFault) -> UInt64 {
    guard value.count == 8 else { throw fault }
    return value.bigEndianUInt64(at: 0)
  }

  /// A number of unspecified width: one, two or four bytes.
  package func number() throws(CourierFault) -> UInt32 {
    switch value.count {
    case 1: return UInt32(value[0])
    case 2: return UInt32(value.bigEndianUInt16(at: 0))
    default: return try u32()
    }
  }

  package func notificationID() throws(CourierFault) -> NotificationID {
    guard value.count == 16 else { throw fault }
    return NotificationID(
      high: value.bigEndianUInt64(at: 0), low: value.bigEndianUInt64(at: 8))
  }

  package func token() throws(CourierFault) -> DeviceToken {
    guard let token = DeviceToken(bytes: value) else { throw fault }
    return token
  }

  package func topic() throws(CourierFault) -> TopicHash {
    guard let topic = TopicHash(value) else { throw fault }
    return topic
  }
}

/// The fields of a frame in order. Each command decides which ids exist and which may repeat; if a field with a single
/// value repeats, the last one counts.
package struct CourierFields: ~Escapable {
  private let command: UInt8
  private var reader: ByteReader

  @_lifetime(copy bytes)
  package init(_ command: CourierCommand, _ bytes: Span<UInt8>) {
    self.command = command.rawValue
    reader = ByteReader(bytes)
  }

  /// The next field; nil at the end. A truncated field is a fault.
  @_lifetime(copy self)
  package mutating func next() throws(CourierFault) -> CourierField? {
    guard reader.remaining > 0 else { return nil }
    let start = reader.offset
    guard let id = reader.u8(), let length = reader.u16(), let value = reader.take(Int(length))
    else { throw .truncatedField(command: command, offset: start) }
    return CourierField(command: command, id: id, offset: start + 3, value: value)
  }
}
