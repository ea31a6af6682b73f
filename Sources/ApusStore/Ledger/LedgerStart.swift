import ApusModel

/// The part of the ledger that a worker continues when it starts.
package struct LedgerStart: Sendable {
  var segments: [LedgerSegment] = []
  /// The last chunk written with the worker's own number.
  var last: LedgerKey?
  /// Segments and filters for chunks that an earlier run left without them.
  var rows: [LedgerWriter.Row] = []

  package init() {}

  /// Reads the ledger for `worker` of `count` workers, or for the relay: its own chunks, and those of workers that no
  /// longer exist.
  package static func read(
    _ store: some StoreReader, worker: UInt16, of count: Int
  ) throws(StoreError) -> LedgerStart {
    var start = LedgerStart()
    for other in try store.ledgerWorkers()
    where LedgerKey.successor(of: other, among: count) == worker {
      let segments = try store.ledgerSegments(of: other)
      start.segments += segments
      let tail = try start.readTail(store, of: other, behind: segments.last?.last)
      if other == worker { start.last = tail?.last ?? segments.last?.last }
    }
    return start
  }

  /// Makes a segment of the chunks that belong to none.
  private mutating func readTail(
    _ store: some StoreReader, of worker: UInt16, behind last: LedgerKey?
  ) throws(StoreError) -> LedgerSegment? {
    var segment: LedgerSegment?
    var hashes: Set<UInt64> = []
    let prefix = LedgerKey.prefix(.chunk, worker: worker)
    let start = last?.following.encoded(.chunk) ?? prefix
    try store.scan(.ledger, prefix: prefix.span, from: start.span) { key, value in
      guard let place = try? LedgerKey(decoding: key) else { return true }
      var found =
        segment
        ?? LedgerSegment(
          first: place, last: place, earliestMilliseconds: .max, bytes: 0, lines: 0)
      found.last = place
      found.bytes += key.count + value.count
      try? LedgerChunk.forEach(in: value) { record in
        let facts = record.event.facts
        found.lines += 1
        found.earliestMilliseconds = min(found.earliestMilliseconds, record.milliseconds)
        hashes.insert(LedgerFilter.hash(.id, facts.id))
        hashes.insert(LedgerFilter.hash(.uniqueID, facts.uniqueID))
        hashes.insert(LedgerFilter.hash(.token, facts.tokenPrefix))
        hashes.insert(LedgerFilter.hash(.device, facts.device.rawValue))
      }
      segment = found
      return true
    }
    guard var segment else { return nil }
    let filter = LedgerFilter.build(Array(hashes))
    segment.bytes += filter.count
    segments.append(segment)
    rows.append(.put(key: segment.last.encoded(.segment), value: segment.encoded()))
    rows.append(.put(key: segment.last.encoded(.filter), value: filter))
    return segment
  }
}
