package import ApusModel

/// The number of requests that one worker rejected for one reason, in `meta`.
///
/// Key: "rejections/" (11), worker (2), the reason as on the wire. Value: version (1), number (8).
package enum RejectionRecord {
  static let version: UInt8 = 1
  private static let name: StaticString = "rejections/"

  /// The common prefix of all keys.
  package static var prefix: [UInt8] { name.bytes }

  package static func key(worker: UInt16, _ reason: Reason) -> [UInt8] {
    var bytes = prefix
    bytes.append(bigEndian: worker)
    bytes.append(reason.text)
    return bytes
  }

  package static func encode(_ number: UInt64) -> [UInt8] {
    var bytes = [version]
    bytes.append(bigEndian: number)
    return bytes
  }

  package static func decode(
    key: Span<UInt8>, value: Span<UInt8>
  ) throws(RecordError) -> (worker: UInt16, reason: Reason, number: UInt64) {
    var cursor = RecordCursor()
    _ = try cursor.run(name.utf8CodeUnitCount, "name", in: key)
    let worker: UInt16 = try cursor.integer("worker", in: key)
    guard let reason = Reason(text: key.extracting(cursor.position...)) else {
      throw .malformed(field: "reason")
    }
    cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: value)
    guard version == Self.version else { throw .unknownVersion(version) }
    let number: UInt64 = try cursor.integer("number", in: value)
    try cursor.end(in: value)
    return (worker, reason, number)
  }
}

extension StoreReader {
  /// Reads all of them.
  package func readRejections() throws(StoreError) -> [(
    worker: UInt16, reason: Reason, number: UInt64
  )] {
    try metaRecords("rejections", prefix: RejectionRecord.prefix) {
      (key, value) throws(RecordError) in
      try RejectionRecord.decode(key: key, value: value)
    }
  }
}
