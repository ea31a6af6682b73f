// The family `relay` has four kinds of row, distinguished by the first byte of the key: `RelayedRecord`,
// `DeadTokenRecord`, `RememberedRecord` and `SpoolTotalsRecord`. Numbers are big-endian.

/// The rows of the family `relay`.
package enum RelayRecord {
  static let relayedKind: UInt8 = 0x01
  static let deadTokenKind: UInt8 = 0x02
  static let rememberedKind: UInt8 = 0x03
  static let totalsKind: UInt8 = 0x04

  /// Decodes a row of any kind.
  package static func examine(key: Span<UInt8>, value: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let kind: UInt8 = try cursor.integer("kind", in: key)
    switch kind {
    case relayedKind:
      _ = try RelayedRecord(decoding: value)
      _ = try RelayedRecord.Key(decoding: key)
    case deadTokenKind: _ = try DeadTokenRecord(key: key, value: value)
    case rememberedKind: _ = try RememberedRecord.decode(key: key, value: value)
    case totalsKind: _ = try SpoolTotalsRecord(key: key, value: value)
    default: throw .malformed(field: "kind")
    }
  }

  /// Deletes all rows but those of dead tokens.
  static func deleteSpool(in group: inout WriteGroup) {
    for (first, end) in [(relayedKind, deadTokenKind), (rememberedKind, totalsKind + 1)] {
      group.deleteRange(.relay, from: [first].span, to: [end].span)
    }
  }
}
