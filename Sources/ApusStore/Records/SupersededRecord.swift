package import ApusModel

/// The trace of an accepted notification that only a session has, because a newer one has its slot, in `meta`.
///
/// Key: "superseded/" (11), worker (2), order of acceptance (8). Value: version (1), notification id (16), unique id
/// (16), device (8), the token's first eight bytes, app (4), environment and suffix (1), push type (1, 0xff for none),
/// priority (1), provider interface (1).
package enum SupersededRecord {
  static let version: UInt8 = 1
  private static let name: StaticString = "superseded/"

  /// The common prefix of all keys.
  package static var prefix: [UInt8] { name.bytes }

  package static func key(worker: UInt16, order: UInt64) -> [UInt8] {
    var bytes = prefix
    bytes.append(bigEndian: worker)
    bytes.append(bigEndian: order)
    return bytes
  }

  /// Overwrites `output` with the value, reusing its memory.
  package static func encode(_ facts: NotificationFacts, into output: inout [UInt8]) {
    output.removeAll(keepingCapacity: true)
    output.append(version)
    output.append(bigEndian: facts.id.high)
    output.append(bigEndian: facts.id.low)
    output.append(bigEndian: facts.uniqueID.high)
    output.append(bigEndian: facts.uniqueID.low)
    output.append(bigEndian: facts.device.rawValue)
    output.append(bigEndian: facts.tokenPrefix)
    output.append(bigEndian: facts.topic.app.rawValue)
    output.append(TopicFlags.encode(facts.topic.suffix, facts.environment))
    output.append(facts.pushType?.rawValue ?? LedgerChunk.noPushType)
    output.append(facts.priority.rawValue)
    output.append(facts.interface.rawValue)
  }

  package static func decode(
    key: Span<UInt8>, value: Span<UInt8>
  ) throws(RecordError) -> (worker: UInt16, facts: NotificationFacts) {
    var cursor = RecordCursor()
    _ = try cursor.run(name.utf8CodeUnitCount, "name", in: key)
    let worker: UInt16 = try cursor.integer("worker", in: key)
    let order: UInt64 = try cursor.integer("order", in: key)
    try cursor.end(in: key)
    cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: value)
    guard version == Self.version else { throw .unknownVersion(version) }
    var facts = try cursor.identity(order: order, in: value)
    try cursor.readKind(of: &facts, in: value)
    try cursor.end(in: value)
    return (worker, facts)
  }
}

extension StoreReader {
  /// Reads all traces, with the worker that wrote each.
  package func readSuperseded() throws(StoreError) -> [(worker: UInt16, facts: NotificationFacts)] {
    try metaRecords("superseded", prefix: SupersededRecord.prefix) {
      (key, value) throws(RecordError) in
      try SupersededRecord.decode(key: key, value: value)
    }
  }
}
