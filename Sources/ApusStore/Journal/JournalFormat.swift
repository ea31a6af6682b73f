import ApusModel

/// The file format of a ledger journal. All numbers are big-endian.
///
/// A header of 64 bytes: "apusjrnl" (8), version (4), worker (2), zero (2), bytes of the ring (8), start (8), and zero
/// (32). The ring follows, with consecutive records. A *position* counts all bytes ever written to it and never
/// decreases; a record at position `p` is at `p` modulo the ring's bytes after the header. `start` is the position of
/// the oldest record that may be needed.
///
/// A record begins at a multiple of 8 and does not cross the ring's end:
///
/// - checksum (8): ``checksum(_:kind:position:)``, so that torn records and those of an earlier round are invalid
/// - kind (1): ``Kind``
/// - zero (3)
/// - bytes of the payload (4)
/// - payload: lines as in a `LedgerChunk`; arbitrary bytes follow up to a multiple of 8
///
/// If fewer than 16 bytes are left at the ring's end, the next record begins the next round.
enum JournalFormat {
  static let magic: StaticString = "apusjrnl"
  static let version: UInt32 = 1
  static let headerByteCount = 64
  static let startOffset = 24
  static let recordHeaderByteCount = 16

  enum Kind: UInt8 {
    /// The rest of this round is empty; without payload.
    case skip = 1
    /// Lines that begin a chunk.
    case chunk = 2
    /// Lines that continue the chunk of the previous record.
    case lines = 3
  }

  /// Bytes of a payload, padded to whole words.
  static func padded(_ count: Int) -> Int { (count + 7) & ~7 }

  /// The header of a journal whose first record will be at `start`.
  static func header(worker: UInt16, ringBytes: Int, start: UInt64) -> [UInt8] {
    var bytes = magic.bytes
    bytes.append(bigEndian: version)
    bytes.append(bigEndian: worker)
    bytes.append(bigEndian: UInt16(0))
    bytes.append(bigEndian: UInt64(ringBytes))
    bytes.append(bigEndian: start)
    bytes.append(contentsOf: repeatElement(0, count: headerByteCount - bytes.count))
    return bytes
  }

  static func recordHeader(
    _ kind: Kind, _ payload: Span<UInt8>, position: UInt64
  ) -> (checksum: UInt64, word: UInt64) {
    (
      checksum(payload, kind: kind.rawValue, position: position),
      UInt64(kind.rawValue) << 56 | UInt64(payload.count)
    )
  }

  /// Over the record's position and content, 8 bytes at a time, zero-padded: each word is combined by exclusive or,
  /// and the result multiplied by the golden ratio's fraction and folded.
  static func checksum(_ payload: Span<UInt8>, kind: UInt8, position: UInt64) -> UInt64 {
    var sum = mix(position)
    sum = mix(sum ^ (UInt64(kind) << 56 | UInt64(payload.count)))
    var index = 0
    while index + 8 <= payload.count {
      // In bounds: see above.
      let word = unsafe payload.bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
      sum = mix(sum ^ UInt64(bigEndian: word))
      index += 8
    }
    guard index < payload.count else { return sum }
    var last: UInt64 = 0
    for offset in 0..<8 {
      last = last << 8 | (index + offset < payload.count ? UInt64(payload[index + offset]) : 0)
    }
    return mix(sum ^ last)
  }

  @inline(__always)
  private static func mix(_ word: UInt64) -> UInt64 {
    let product = (word ^ 0x5851_f42d_4c95_7f2d) &* 0x9e37_79b9_7f4a_7c15
    return product ^ product >> 32
  }
}
