package import ApusModel

/// A line as it stands in a chunk.
///
/// 74 bytes, numbers big-endian: Unix milliseconds (8), order of acceptance (8), notification id (16), unique id (16),
/// device (8), app (4), environment and suffix (1), the token's first eight bytes, state (1), cause (1), push type (1,
/// 0xff for none), priority (1), provider interface (1).
extension LedgerRecord {
  package static let byteCount = 74
  private static let noPushType: UInt8 = 0xff

  /// Appends the line to a chunk.
  package func encode(to output: inout [UInt8]) {
    let facts = event.facts
    output.append(bigEndian: milliseconds)
    output.append(bigEndian: facts.order)
    output.append(bigEndian: facts.id.high)
    output.append(bigEndian: facts.id.low)
    output.append(bigEndian: facts.uniqueID.high)
    output.append(bigEndian: facts.uniqueID.low)
    output.append(bigEndian: facts.device.rawValue)
    output.append(bigEndian: facts.topic.app.rawValue)
    output.append(TopicFlags.encode(facts.topic.suffix, facts.environment))
    output.append(bigEndian: facts.tokenPrefix)
    output.append(event.state.rawValue)
    output.append(event.causeCode)
    output.append(facts.pushType?.rawValue ?? Self.noPushType)
    output.append(facts.priority.rawValue)
    output.append(facts.interface.rawValue)
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let milliseconds: Int64 = try cursor.integer("time", in: bytes)
    let order: UInt64 = try cursor.integer("order", in: bytes)
    let id = NotificationID(
      high: try cursor.integer("notification id", in: bytes),
      low: try cursor.integer("notification id", in: bytes))
    let uniqueID = NotificationID(
      high: try cursor.integer("unique id", in: bytes),
      low: try cursor.integer("unique id", in: bytes))
    let device = DeviceID(try cursor.integer("device", in: bytes))
    let app = AppID(try cursor.integer("app", in: bytes))
    let flags = try TopicFlags.decode(cursor.integer("flags", in: bytes))
    let tokenPrefix: UInt64 = try cursor.integer("token", in: bytes)
    let stateCode: UInt8 = try cursor.integer("state", in: bytes)
    let causeCode: UInt8 = try cursor.integer("cause", in: bytes)
    let typeCode: UInt8 = try cursor.integer("push type", in: bytes)
    let priorityCode: UInt8 = try cursor.integer("priority", in: bytes)
    let interfaceCode: UInt8 = try cursor.integer("interface", in: bytes)
    try cursor.end(in: bytes)
    guard let state = DeliveryState(rawValue: stateCode) else { throw .malformed(field: "state") }
    guard let priority = Priority(rawValue: priorityCode) else {
      throw .malformed(field: "priority")
    }
    guard let interface = ProviderInterface(rawValue: interfaceCode) else {
      throw .malformed(field: "interface")
    }
    let type = PushType(rawValue: typeCode)
    guard type != nil || typeCode == Self.noPushType else { throw .malformed(field: "push type") }
    let facts = NotificationFacts(
      order: order, id: id, uniqueID: uniqueID, device: device,
      topic: TopicKey(app: app, suffix: flags.suffix), environment: flags.environment,
      tokenPrefix: tokenPrefix, pushType: type, priority: priority, interface: interface)
    self.init(
      milliseconds: milliseconds,
      event: LedgerEvent(state: state, causeCode: causeCode, facts: facts))
  }
}

/// Lines that were written together: the value of one row. A version byte, then the lines.
package enum LedgerChunk {
  static let version: UInt8 = 1

  package static func forEach(
    in value: Span<UInt8>, _ body: (LedgerRecord) -> Void
  ) throws(RecordError) {
    guard !value.isEmpty else { throw .truncated(field: "version") }
    guard value[0] == version else { throw .unknownVersion(value[0]) }
    var position = 1
    while position < value.count {
      let end = position + LedgerRecord.byteCount
      guard end <= value.count else { throw .truncated(field: "line") }
      body(try LedgerRecord(decoding: value.extracting(position..<end)))
      position = end
    }
  }
}
