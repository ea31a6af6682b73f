package import ApusModel

/// An unused device in compact form: its record, and its stored notifications.
///
/// Never on disk. Layout, numbers big-endian: the record's length (2; 0 if the record is kept elsewhere) and the
/// record (`DeviceRecord`), then, if the stored notifications are known, for each of them: order (8), notification id
/// (16), unique id (16), the token's first eight bytes, app (4), environment and suffix (1), push type (1, 0xff for
/// none), priority (1), provider interface (1). If they are unknown, the byte 0.
package struct FoldedDevice: Sendable, Hashable {
  /// Nil if it is kept elsewhere.
  package var record: DeviceRecord?
  /// Nil if unknown.
  package var stored: [NotificationFacts]?

  private static let noPushType: UInt8 = 0xff

  package init(record: DeviceRecord?, stored: [NotificationFacts]?) {
    self.record = record
    self.stored = stored
  }

  /// Overwrites `output` with the bytes, reusing its memory. `scratch` is memory for the record.
  package func encode(into output: inout [UInt8], scratch: inout [UInt8]) {
    scratch.removeAll(keepingCapacity: true)
    record?.encode(into: &scratch)
    output.removeAll(keepingCapacity: true)
    output.append(bigEndian: UInt16(scratch.count))
    let bytes = scratch
    output.append(bytes.span)
    guard let stored else { return output.append(0) }
    for facts in stored {
      output.append(bigEndian: facts.order)
      output.append(bigEndian: facts.id.high)
      output.append(bigEndian: facts.id.low)
      output.append(bigEndian: facts.uniqueID.high)
      output.append(bigEndian: facts.uniqueID.low)
      output.append(bigEndian: facts.tokenPrefix)
      output.append(bigEndian: facts.topic.app.rawValue)
      output.append(TopicFlags.encode(facts.topic.suffix, facts.environment))
      output.append(facts.pushType?.rawValue ?? Self.noPushType)
      output.append(facts.priority.rawValue)
      output.append(facts.interface.rawValue)
    }
  }

  package init(decoding bytes: Span<UInt8>, device: DeviceID) throws(RecordError) {
    var cursor = RecordCursor()
    let length: UInt16 = try cursor.integer("record", in: bytes)
    let place = try cursor.run(Int(length), "record", in: bytes)
    record = length == 0 ? nil : try DeviceRecord(decoding: bytes.extracting(place))
    guard bytes.count - cursor.position != 1 else { return }
    var found: [NotificationFacts] = []
    while cursor.position < bytes.count {
      found.append(try Self.facts(at: &cursor, in: bytes, of: device))
    }
    stored = found
  }

  private static func facts(
    at cursor: inout RecordCursor, in bytes: Span<UInt8>, of device: DeviceID
  ) throws(RecordError) -> NotificationFacts {
    let order: UInt64 = try cursor.integer("order", in: bytes)
    let id = NotificationID(
      high: try cursor.integer("notification id", in: bytes),
      low: try cursor.integer("notification id", in: bytes))
    let uniqueID = NotificationID(
      high: try cursor.integer("unique id", in: bytes),
      low: try cursor.integer("unique id", in: bytes))
    let tokenPrefix: UInt64 = try cursor.integer("token", in: bytes)
    let app = AppID(try cursor.integer("app", in: bytes))
    let flags = try TopicFlags.decode(cursor.integer("flags", in: bytes))
    let typeCode: UInt8 = try cursor.integer("push type", in: bytes)
    let priorityCode: UInt8 = try cursor.integer("priority", in: bytes)
    let interfaceCode: UInt8 = try cursor.integer("interface", in: bytes)
    guard let priority = Priority(rawValue: priorityCode) else {
      throw .malformed(field: "priority")
    }
    guard let interface = ProviderInterface(rawValue: interfaceCode) else {
      throw .malformed(field: "interface")
    }
    return NotificationFacts(
      order: order, id: id, uniqueID: uniqueID, device: device,
      topic: TopicKey(app: app, suffix: flags.suffix), environment: flags.environment,
      tokenPrefix: tokenPrefix, pushType: PushType(rawValue: typeCode), priority: priority,
      interface: interface)
  }
}
