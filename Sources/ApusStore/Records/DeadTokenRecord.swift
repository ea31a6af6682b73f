package import ApusModel

/// A token that upstream declared dead, in the family `relay`.
///
/// Key: 0x02 (1), app (4), environment (1), digest (16). Value, numbers big-endian: version (1), dead since Unix
/// milliseconds (8), noted at Unix seconds (8).
package struct DeadTokenRecord: Sendable, Hashable {
  package var token: RelayedToken
  /// 0 or later.
  package var sinceMilliseconds: Int64
  /// 0 or later.
  package var notedSeconds: Int64

  package static let version: UInt8 = 1

  package init(token: RelayedToken, sinceMilliseconds: Int64, notedSeconds: Int64) {
    self.token = token
    self.sinceMilliseconds = sinceMilliseconds
    self.notedSeconds = notedSeconds
  }

  /// The common prefix of all keys.
  package static var prefix: InlineArray<1, UInt8> {
    InlineArray(repeating: RelayRecord.deadTokenKind)
  }

  package static func key(of token: RelayedToken) -> InlineArray<22, UInt8> {
    var bytes = InlineArray<22, UInt8>(repeating: RelayRecord.deadTokenKind)
    bytes.write(bigEndian: token.app.rawValue, at: 1)
    bytes[5] = token.environment.rawValue
    bytes.write(bigEndian: token.digest.high, at: 6)
    bytes.write(bigEndian: token.digest.low, at: 14)
    return bytes
  }

  package func encoded() -> InlineArray<17, UInt8> {
    var bytes = InlineArray<17, UInt8>(repeating: Self.version)
    bytes.write(bigEndian: sinceMilliseconds, at: 1)
    bytes.write(bigEndian: notedSeconds, at: 9)
    return bytes
  }

  package init(key: Span<UInt8>, value: Span<UInt8>) throws(RecordError) {
    // The version first: another version may have other keys.
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: value)
    guard version == Self.version else { throw .unknownVersion(version) }
    sinceMilliseconds = try cursor.integer("since", in: value)
    notedSeconds = try cursor.integer("noted", in: value)
    guard sinceMilliseconds >= 0 else { throw .malformed(field: "since") }
    guard notedSeconds >= 0 else { throw .malformed(field: "noted") }
    try cursor.end(in: value)
    cursor = RecordCursor()
    let kind: UInt8 = try cursor.integer("kind", in: key)
    guard kind == RelayRecord.deadTokenKind else { throw .malformed(field: "kind") }
    let app = AppID(try cursor.integer("app", in: key))
    guard let environment = Environment(rawValue: try cursor.integer("environment", in: key))
    else { throw .malformed(field: "environment") }
    let digest = RelayDigest(
      high: try cursor.integer("digest", in: key), low: try cursor.integer("digest", in: key))
    token = RelayedToken(app: app, environment: environment, digest: digest)
    try cursor.end(in: key)
  }
}
