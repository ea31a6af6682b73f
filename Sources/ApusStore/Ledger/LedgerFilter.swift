package import ApusModel

/// Excludes notifications from a segment: a Bloom filter (B. H. Bloom, 1970) over their ids, unique ids, tokens and
/// devices.
///
/// 10 bits and 7 probes per entry: about one query in 120 is a false positive.
package enum LedgerFilter {
  static let version: UInt8 = 1
  private static let bitsPerEntry = 10
  private static let probes: UInt32 = 7

  /// The type of an entry, mixed into its hash.
  package enum Kind: UInt64 {
    case id = 0x9ae1_6a3b_2f90_404f
    case uniqueID = 0xc3a5_c85c_97cb_3127
    case token = 0xb492_b66f_be98_f273
    case device = 0x9ddf_ea08_eb38_2d69
  }

  package static func hash(_ kind: Kind, _ high: UInt64, _ low: UInt64 = 0) -> UInt64 {
    mix(mix(high ^ kind.rawValue) ^ low)
  }

  package static func hash(_ kind: Kind, _ id: NotificationID) -> UInt64 {
    hash(kind, id.high, id.low)
  }

  /// The finaliser of MurmurHash3: each bit of the input affects each bit of the output.
  private static func mix(_ value: UInt64) -> UInt64 {
    var mixed = value
    mixed = (mixed ^ mixed &>> 33) &* 0xff51_afd7_ed55_8ccd
    mixed = (mixed ^ mixed &>> 33) &* 0xc4ce_b9fe_1a85_ec53
    return mixed ^ mixed &>> 33
  }

  /// The value of the filter's row: a version byte, then the bits.
  static func build(_ hashes: [UInt64]) -> [UInt8] {
    let byteCount = max(8, (hashes.count * bitsPerEntry + 7) / 8)
    var bytes = [UInt8](repeating: 0, count: 1 + byteCount)
    bytes[0] = version
    for hash in hashes {
      for probe in 0..<probes {
        let bit = place(hash, probe, of: byteCount * 8)
        bytes[1 + bit >> 3] |= 1 << UInt8(bit & 7)
      }
    }
    return bytes
  }

  /// Whether the segment may contain the hashed entry. An unreadable filter excludes nothing.
  package static func mayContain(_ filter: Span<UInt8>, _ hash: UInt64) -> Bool {
    guard filter.count > 8, filter[0] == version else { return true }
    let bits = (filter.count - 1) * 8
    for probe in 0..<probes {
      let bit = place(hash, probe, of: bits)
      if filter[1 + bit >> 3] & 1 << UInt8(bit & 7) == 0 { return false }
    }
    return true
  }

  /// Double hashing, mapped to the bits by a multiplication.
  private static func place(_ hash: UInt64, _ probe: UInt32, of bits: Int) -> Int {
    let step = UInt32(truncatingIfNeeded: hash &>> 32) | 1
    let value = UInt32(truncatingIfNeeded: hash) &+ probe &* step
    return Int((UInt64(value) &* UInt64(bits)) &>> 32)
  }
}
