import ApusModel

// The common part of a ledger line and the trace of a superseded notification.

extension RecordCursor {
  /// Reads notification id (16), unique id (16), device (8) and the token's first eight bytes; `readKind` reads the
  /// rest.
  mutating func identity(
    order: UInt64, in value: Span<UInt8>
  ) throws(RecordError) -> NotificationFacts {
    let id = NotificationID(
      high: try integer("notification id", in: value),
      low: try integer("notification id", in: value))
    let uniqueID = NotificationID(
      high: try integer("unique id", in: value), low: try integer("unique id", in: value))
    let device = DeviceID(try integer("device", in: value))
    let tokenPrefix: UInt64 = try integer("token", in: value)
    return NotificationFacts(
      order: order, id: id, uniqueID: uniqueID, device: device, topic: TopicKey(app: .base),
      environment: .production, tokenPrefix: tokenPrefix, pushType: nil, priority: .immediate,
      interface: .http2)
  }

  /// Reads app (4), environment and suffix (1), push type (1, 0xff for none), priority (1) and provider interface (1).
  mutating func readKind(
    of facts: inout NotificationFacts, in value: Span<UInt8>
  ) throws(RecordError) {
    let app = AppID(try integer("app", in: value))
    let flags = try TopicFlags.decode(integer("flags", in: value))
    let typeCode: UInt8 = try integer("push type", in: value)
    let priorityCode: UInt8 = try integer("priority", in: value)
    let interfaceCode: UInt8 = try integer("interface", in: value)
    guard let priority = Priority(rawValue: priorityCode) else {
      throw .malformed(field: "priority")
    }
    guard let interface = ProviderInterface(rawValue: interfaceCode) else {
      throw .malformed(field: "interface")
    }
    let type = PushType(rawValue: typeCode)
    guard type != nil || typeCode == LedgerChunk.noPushType else {
      throw .malformed(field: "push type")
    }
    facts.topic = TopicKey(app: app, suffix: flags.suffix)
    facts.environment = flags.environment
    facts.pushType = type
    facts.priority = priority
    facts.interface = interface
  }
}
