package import ApusModel

/// How much of one app's notifications is in the spool, in the family `relay`: written with each group that changes it.
///
/// Key: 0x04 (1), app (4), environment (1). Value, numbers big-endian: version (1), notifications (8), bytes of their
/// rows (8), 1 while most device tokens are taken for bad, else 0 (1). Version 1 has no last byte.
package struct SpoolTotalsRecord: Sendable, Hashable {
  package var app: AppID
  package var environment: Environment
  /// 0 or later, like the next.
  package var count: Int64
  package var byteCount: Int64
  /// Whether `ConfigurationAlarm` is raised.
  package var isInDoubt: Bool

  package static let version: UInt8 = 2

  package init(
    app: AppID, environment: Environment, count: Int64, byteCount: Int64, isInDoubt: Bool
  ) {
    self.app = app
    self.environment = environment
    self.count = count
    self.byteCount = byteCount
    self.isInDoubt = isInDoubt
  }

  /// The common prefix of all keys.
  package static var prefix: InlineArray<1, UInt8> {
    InlineArray(repeating: RelayRecord.totalsKind)
  }

  package var key: InlineArray<6, UInt8> {
    var bytes = InlineArray<6, UInt8>(repeating: RelayRecord.totalsKind)
    bytes.write(bigEndian: app.rawValue, at: 1)
    bytes[5] = environment.rawValue
    return bytes
  }

  package func encoded() -> InlineArray<18, UInt8> {
    var bytes = InlineArray<18, UInt8>(repeating: Self.version)
    bytes.write(bigEndian: count, at: 1)
    bytes.write(bigEndian: byteCount, at: 9)
    bytes[17] = isInDoubt ? 1 : 0
    return bytes
  }

  package init(key: Span<UInt8>, value: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: value)
    guard 1...Self.version ~= version else { throw .unknownVersion(version) }
    count = try cursor.integer("notifications", in: value)
    byteCount = try cursor.integer("bytes", in: value)
    guard count >= 0 else { throw .malformed(field: "notifications") }
    guard byteCount >= 0 else { throw .malformed(field: "bytes") }
    let doubt: UInt8 = version == 1 ? 0 : try cursor.integer("doubt", in: value)
    guard doubt <= 1 else { throw .malformed(field: "doubt") }
    isInDoubt = doubt == 1
    try cursor.end(in: value)
    cursor = RecordCursor()
    let kind: UInt8 = try cursor.integer("kind", in: key)
    guard kind == RelayRecord.totalsKind else { throw .malformed(field: "kind") }
    app = AppID(try cursor.integer("app", in: key))
    guard let environment = Environment(rawValue: try cursor.integer("environment", in: key))
    else { throw .malformed(field: "environment") }
    self.environment = environment
    try cursor.end(in: key)
  }
}
