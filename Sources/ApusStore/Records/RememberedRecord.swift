package import ApusModel

/// Keys and values of notifications whose resends are expected, in the family `relay`.
///
/// Key: 0x03 (1), sender (16), number of the sequence (8), index (4). Value, numbers big-endian: version (1), digest
/// (16), expires at Unix seconds (8), id of the original (16). The refused notification before a sequence has index 0
/// and, instead of an id, zeros.
package enum RememberedRecord {
  package static let version: UInt8 = 1

  /// The common prefix of all keys.
  package static var prefix: InlineArray<1, UInt8> {
    InlineArray(repeating: RelayRecord.rememberedKind)
  }

  package static func key(of place: RememberedNotification.Place) -> InlineArray<29, UInt8> {
    var bytes = InlineArray<29, UInt8>(repeating: RelayRecord.rememberedKind)
    bytes.write(bigEndian: place.sender.high, at: 1)
    bytes.write(bigEndian: place.sender.low, at: 9)
    bytes.write(bigEndian: place.sequence, at: 17)
    bytes.write(bigEndian: place.index, at: 25)
    return bytes
  }

  /// The keys of a whole sequence, for `WriteGroup.deleteRange`: from the first up to, but not including, the second,
  /// which no row has.
  package static func keys(
    sender: RelayDigest, sequence: UInt64
  ) -> (first: InlineArray<29, UInt8>, end: InlineArray<29, UInt8>) {
    (
      key(of: .init(sender: sender, sequence: sequence, index: 0)),
      key(of: .init(sender: sender, sequence: sequence, index: .max))
    )
  }

  package static func value(of row: RememberedNotification) -> InlineArray<41, UInt8> {
    var bytes = InlineArray<41, UInt8>(repeating: version)
    bytes.write(bigEndian: row.digest.high, at: 1)
    bytes.write(bigEndian: row.digest.low, at: 9)
    bytes.write(bigEndian: row.expiresSeconds, at: 17)
    bytes.write(bigEndian: row.original?.high ?? 0, at: 25)
    bytes.write(bigEndian: row.original?.low ?? 0, at: 33)
    return bytes
  }

  package static func decode(
    key: Span<UInt8>, value: Span<UInt8>
  ) throws(RecordError) -> RememberedNotification {
    // The version first: another version may have other keys.
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: value)
    guard version == Self.version else { throw .unknownVersion(version) }
    let digest = RelayDigest(
      high: try cursor.integer("digest", in: value), low: try cursor.integer("digest", in: value))
    let expires: Int64 = try cursor.integer("expires", in: value)
    guard expires >= 0 else { throw .malformed(field: "expires") }
    let id = NotificationID(
      high: try cursor.integer("original", in: value),
      low: try cursor.integer("original", in: value))
    try cursor.end(in: value)
    let place = try place(key)
    let isRefused = id.high | id.low == 0
    guard isRefused == (place.index == 0) else { throw .malformed(field: "original") }
    return RememberedNotification(
      place: place, digest: digest, original: isRefused ? nil : id, expiresSeconds: expires)
  }

  private static func place(
    _ key: Span<UInt8>
  ) throws(RecordError) -> RememberedNotification.Place {
    var cursor = RecordCursor()
    let kind: UInt8 = try cursor.integer("kind", in: key)
    guard kind == RelayRecord.rememberedKind else { throw .malformed(field: "kind") }
    let place = RememberedNotification.Place(
      sender: RelayDigest(
        high: try cursor.integer("sender", in: key), low: try cursor.integer("sender", in: key)),
      sequence: try cursor.integer("sequence", in: key),
      index: try cursor.integer("index", in: key))
    guard place.index < .max else { throw .malformed(field: "index") }
    try cursor.end(in: key)
    return place
  }
}
