/// The keys of the ledger: kind (1), worker (2), Unix milliseconds (8), sequence (4).
///
/// A worker's chunks are adjacent, in the order of writing. The time is that of the writing and never decreases,
/// whatever the clock does: no line in a chunk is younger than its key.
package struct LedgerKey: Sendable, Hashable, Comparable {
  package enum Kind: UInt8 {
    /// Lines: `LedgerChunk`.
    case chunk = 0
    /// A run of chunks, with the key of the last of them: `LedgerSegment`.
    case segment = 1
    /// The ids, tokens and devices that the run may contain: `LedgerFilter`.
    case filter = 2
  }

  package var worker: UInt16
  package var milliseconds: Int64
  package var sequence: UInt32

  package static let byteCount = 15
  /// Stands for the relay, which writes lines and counters of its own.
  package static let relay: UInt16 = .max

  /// The worker that takes over what `worker` has written, if there are `count` now; the relay follows on itself.
  package static func successor(of worker: UInt16, among count: Int) -> UInt16 {
    worker == relay ? relay : UInt16(Int(worker) % count)
  }

  package init(worker: UInt16, milliseconds: Int64, sequence: UInt32) {
    self.worker = worker
    self.milliseconds = milliseconds
    self.sequence = sequence
  }

  package static func prefix(_ kind: Kind, worker: UInt16) -> [UInt8] {
    var bytes = [kind.rawValue]
    bytes.append(bigEndian: worker)
    return bytes
  }

  package func encoded(_ kind: Kind) -> [UInt8] {
    var bytes = Self.prefix(kind, worker: worker)
    bytes.append(bigEndian: milliseconds)
    bytes.append(bigEndian: sequence)
    return bytes
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let _: UInt8 = try cursor.integer("kind", in: bytes)
    worker = try cursor.integer("worker", in: bytes)
    milliseconds = try cursor.integer("time", in: bytes)
    sequence = try cursor.integer("sequence", in: bytes)
    try cursor.end(in: bytes)
  }

  /// The key directly after this one.
  package var following: LedgerKey {
    var next = self
    next.sequence &+= 1
    if next.sequence == 0 { next.milliseconds += 1 }
    return next
  }

  package static func < (left: LedgerKey, right: LedgerKey) -> Bool {
    (left.worker, left.milliseconds, left.sequence)
      < (right.worker, right.milliseconds, right.sequence)
  }
}

/// A run of one worker's chunks, which is searched, and finally removed, as a whole.
///
/// Value: version (1), first chunk's time (8) and sequence (4), time of the oldest line (8), bytes (8), lines (4).
package struct LedgerSegment: Sendable, Hashable {
  package var first: LedgerKey
  package var last: LedgerKey
  package var earliestMilliseconds: Int64
  /// Bytes of the rows.
  package var bytes: Int
  package var lines: Int

  static let version: UInt8 = 1

  package init(
    first: LedgerKey, last: LedgerKey, earliestMilliseconds: Int64, bytes: Int, lines: Int
  ) {
    self.first = first
    self.last = last
    self.earliestMilliseconds = earliestMilliseconds
    self.bytes = bytes
    self.lines = lines
  }

  package func encoded() -> [UInt8] {
    var output = [Self.version]
    output.append(bigEndian: first.milliseconds)
    output.append(bigEndian: first.sequence)
    output.append(bigEndian: earliestMilliseconds)
    output.append(bigEndian: Int64(bytes))
    output.append(bigEndian: UInt32(lines))
    return output
  }

  package init(decoding value: Span<UInt8>, at last: LedgerKey) throws(RecordError) {
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: value)
    guard version == Self.version else { throw .unknownVersion(version) }
    self.last = last
    first = LedgerKey(
      worker: last.worker, milliseconds: try cursor.integer("time", in: value),
      sequence: try cursor.integer("sequence", in: value))
    earliestMilliseconds = try cursor.integer("oldest", in: value)
    let bytes: Int64 = try cursor.integer("bytes", in: value)
    let lines: UInt32 = try cursor.integer("lines", in: value)
    try cursor.end(in: value)
    guard bytes >= 0 else { throw .malformed(field: "bytes") }
    self.bytes = Int(bytes)
    self.lines = Int(lines)
  }
}
