package import ApusModel

/// One worker's counters of one topic, in `meta`.
///
/// Key: "counters/" (9), worker (2), app (4), environment and suffix (1). Value: version (1), pending (8), then for
/// each number that is not 0: state (1), push type (1, 0xff for none), priority (1), the number (8).
package enum CountersRecord {
  static let version: UInt8 = 1
  private static let noPushType: UInt8 = 0xff
  private static let name: StaticString = "counters/"

  /// The common prefix of all keys.
  package static var prefix: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(name)
    return bytes
  }

  package static func key(
    worker: UInt16, topic: TopicKey, environment: Environment
  ) -> [UInt8] {
    var bytes = prefix
    bytes.append(bigEndian: worker)
    bytes.append(bigEndian: topic.app.rawValue)
    bytes.append(TopicFlags.encode(topic.suffix, environment))
    return bytes
  }

  /// Overwrites `output` with the value, reusing its memory.
  package static func encode(_ counters: TopicCounters, into output: inout [UInt8]) {
    output.removeAll(keepingCapacity: true)
    output.append(version)
    output.append(bigEndian: counters.pending)
    for state in DeliveryState.allCases {
      for code in 0..<TopicCounters.pushTypeCount {
        let type = code == 0 ? nil : PushType(rawValue: UInt8(code - 1))
        for priority in Priority.allCases {
          let number = counters[state, type, priority]
          guard number != 0 else { continue }
          output.append(state.rawValue)
          output.append(type?.rawValue ?? noPushType)
          output.append(priority.rawValue)
          output.append(bigEndian: number)
        }
      }
    }
  }

  package static func decode(
    key: Span<UInt8>, value: Span<UInt8>
  ) throws(RecordError) -> (worker: UInt16, counters: TopicCounters) {
    var cursor = RecordCursor()
    _ = try cursor.run(name.utf8CodeUnitCount, "name", in: key)
    let worker: UInt16 = try cursor.integer("worker", in: key)
    let app = AppID(try cursor.integer("app", in: key))
    let flags = try TopicFlags.decode(cursor.integer("flags", in: key))
    try cursor.end(in: key)
    var counters = TopicCounters(
      topic: TopicKey(app: app, suffix: flags.suffix), environment: flags.environment)
    cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: value)
    guard version == Self.version else { throw .unknownVersion(version) }
    counters.pending = try cursor.integer("pending", in: value)
    while cursor.position < value.count {
      let stateCode: UInt8 = try cursor.integer("state", in: value)
      let typeCode: UInt8 = try cursor.integer("push type", in: value)
      let priorityCode: UInt8 = try cursor.integer("priority", in: value)
      let number: UInt64 = try cursor.integer("number", in: value)
      guard let state = DeliveryState(rawValue: stateCode) else {
        throw .malformed(field: "state")
      }
      guard let priority = Priority(rawValue: priorityCode) else {
        throw .malformed(field: "priority")
      }
      let type = PushType(rawValue: typeCode)
      guard type != nil || typeCode == noPushType else { throw .malformed(field: "push type") }
      counters.cells[TopicCounters.cell(state, pushType: type, priority: priority)] &+= number
    }
    return (worker, counters)
  }
}
