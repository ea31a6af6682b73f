package import ApusModel

/// One worker's counters of one topic, in `meta`.
///
/// Key: "counters/" (9), worker (2), app (4), environment and suffix (1). Value: version (1), pending (8), then for
/// each number that is not 0: state (1), push type (1, 0xff for none), priority (1), the number (8). The state 0xff
/// stands for those of the pending ones that the store does not have. Without any the version is 1: an earlier release
/// reads what a regular stop leaves. Its own records never have any, because it counted such notifications neither as
/// accepted nor as pending.
package enum CountersRecord {
  /// With notifications that the store does not have, and without.
  private static let versions: (unstored: UInt8, stored: UInt8) = (2, 1)
  private static let noPushType: UInt8 = 0xff
  private static let unstored: UInt8 = 0xff
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
    output.append(counters.unstoredCount > 0 ? versions.unstored : versions.stored)
    output.append(bigEndian: counters.pending)
    for state in DeliveryState.allCases {
      let first = Int(state.rawValue) * TopicCounters.stateStride
      encode(counters.cells[first..<first + TopicCounters.stateStride], state.rawValue, &output)
    }
    encode(counters.unstored[...], unstored, &output)
  }

  /// Numbers by push type and priority.
  private static func encode(
    _ numbers: ArraySlice<UInt64>, _ state: UInt8, _ output: inout [UInt8]
  ) {
    for code in 0..<TopicCounters.pushTypeCount {
      let type = code == 0 ? nil : PushType(rawValue: UInt8(code - 1))
      for priority in Priority.allCases {
        let offset = TopicCounters.offset(pushType: type, priority: priority)
        let number = numbers[numbers.startIndex + offset]
        guard number != 0 else { continue }
        output.append(state)
        output.append(type?.rawValue ?? noPushType)
        output.append(priority.rawValue)
        output.append(bigEndian: number)
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
    guard version == versions.stored || version == versions.unstored else {
      throw .unknownVersion(version)
    }
    counters.pending = try cursor.integer("pending", in: value)
    while cursor.position < value.count { try readNumber(&cursor, value, into: &counters) }
    return (worker, counters)
  }

  private static func readNumber(
    _ cursor: inout RecordCursor, _ value: Span<UInt8>, into counters: inout TopicCounters
  ) throws(RecordError) {
    let stateCode: UInt8 = try cursor.integer("state", in: value)
    let typeCode: UInt8 = try cursor.integer("push type", in: value)
    let priorityCode: UInt8 = try cursor.integer("priority", in: value)
    let number: UInt64 = try cursor.integer("number", in: value)
    guard let priority = Priority(rawValue: priorityCode) else {
      throw .malformed(field: "priority")
    }
    let type = PushType(rawValue: typeCode)
    guard type != nil || typeCode == noPushType else { throw .malformed(field: "push type") }
    if stateCode == unstored {
      counters.unstored[TopicCounters.offset(pushType: type, priority: priority)] &+= number
      return
    }
    guard let state = DeliveryState(rawValue: stateCode) else { throw .malformed(field: "state") }
    counters.cells[TopicCounters.cell(state, pushType: type, priority: priority)] &+= number
  }
}
