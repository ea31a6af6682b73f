package import ApusModel

extension LedgerQuery {
  /// The hashes that a segment's filter must contain for the segment to be read.
  var hashes: [UInt64] {
    var hashes: [UInt64] = []
    if let id { hashes.append(LedgerFilter.hash(.id, id)) }
    if let uniqueID { hashes.append(LedgerFilter.hash(.uniqueID, uniqueID)) }
    if let tokenPrefix { hashes.append(LedgerFilter.hash(.token, tokenPrefix)) }
    if let device { hashes.append(LedgerFilter.hash(.device, device.rawValue)) }
    return hashes
  }

  func mayMatch(_ segment: LedgerSegment) -> Bool {
    // No line is younger than the key of its chunk.
    if let sinceMilliseconds, segment.last.milliseconds < sinceMilliseconds { return false }
    if let untilMilliseconds, segment.earliestMilliseconds >= untilMilliseconds { return false }
    return true
  }
}

/// A reader's position in the ledger, for each worker.
package struct LedgerPosition: Sendable {
  var chunks: [UInt16: LedgerKey] = [:]

  package init() {}

  /// For a client that continues: `WORKER-MILLISECONDS-SEQUENCE` of each worker, separated by dots.
  package var text: String {
    chunks.values.sorted().map { "\($0.worker)-\($0.milliseconds)-\($0.sequence)" }
      .joined(separator: ".")
  }

  /// Reads `text`; nil for anything else.
  package init?(text: String) {
    for part in text.split(separator: ".") {
      let numbers = part.split(separator: "-", omittingEmptySubsequences: false)
      guard numbers.count == 3, let worker = UInt16(numbers[0]),
        let milliseconds = Int64(numbers[1]), let sequence = UInt32(numbers[2]),
        chunks[worker] == nil
      else { return nil }
      chunks[worker] = LedgerKey(worker: worker, milliseconds: milliseconds, sequence: sequence)
    }
  }
}

/// Statistics about reading the ledger, for tests.
package struct LedgerReading: Sendable, Hashable {
  /// Segments skipped because of their time or their filter.
  package var skippedSegments = 0
  package var readChunks = 0
  /// Unreadable rows.
  package var damagedRows = 0
}

extension StoreReader {
  /// Calls `body` with each matching line, in the order of writing per worker, and advances `position`.
  ///
  /// `position` is where to begin: after what an earlier call read.
  @discardableResult
  package func readLedger(
    _ query: LedgerQuery, from position: inout LedgerPosition, _ body: (LedgerRecord) -> Void
  ) throws(StoreError) -> LedgerReading {
    var reading = LedgerReading()
    let hashes = query.hashes
    for worker in try ledgerWorkers() {
      var start = position.chunks[worker]?.following
      for segment in try ledgerSegments(of: worker) {
        if let start, segment.last < start { continue }
        let isWanted = query.mayMatch(segment)
        if isWanted, try mayContain(segment, hashes) {
          try readChunks(
            of: worker, from: start ?? segment.first, to: segment.last, query, &position, &reading,
            body)
        } else {
          reading.skippedSegments += 1
        }
        position.chunks[worker] = segment.last
        start = segment.last.following
      }
      try readChunks(of: worker, from: start, to: nil, query, &position, &reading, body)
    }
    return reading
  }

  private func mayContain(
    _ segment: LedgerSegment, _ hashes: [UInt64]
  ) throws(StoreError) -> Bool {
    guard !hashes.isEmpty else { return true }
    let key = segment.last.encoded(.filter)
    guard let filter = try get(.ledger, key: key.span) else { return true }
    return hashes.allSatisfy { LedgerFilter.mayContain(filter.span, $0) }
  }

  private func readChunks(
    of worker: UInt16, from start: LedgerKey?, to end: LedgerKey?, _ query: LedgerQuery,
    _ position: inout LedgerPosition, _ reading: inout LedgerReading,
    _ body: (LedgerRecord) -> Void
  ) throws(StoreError) {
    let prefix = LedgerKey.prefix(.chunk, worker: worker)
    let first = start?.encoded(.chunk) ?? prefix
    var last = position.chunks[worker]
    var count = reading
    try scan(.ledger, prefix: prefix.span, from: first.span) { key, value in
      guard let place = try? LedgerKey(decoding: key) else {
        count.damagedRows += 1
        return true
      }
      if let end, end < place { return false }
      last = place
      count.readChunks += 1
      do throws(RecordError) {
        try LedgerChunk.forEach(in: value) { if query.matches($0) { body($0) } }
      } catch {
        count.damagedRows += 1
      }
      return true
    }
    position.chunks[worker] = last
    reading = count
  }

  /// The numbers of the workers with lines in the ledger.
  func ledgerWorkers() throws(StoreError) -> [UInt16] {
    var workers: [UInt16] = []
    let prefix = [LedgerKey.Kind.chunk.rawValue]
    var start: [UInt8]? = prefix
    while let from = start {
      var found: UInt16?
      try scan(.ledger, prefix: prefix.span, from: from.span) { key, _ in
        found = (try? LedgerKey(decoding: key))?.worker
        return false
      }
      guard let worker = found else { break }
      workers.append(worker)
      start = worker == .max ? nil : LedgerKey.prefix(.chunk, worker: worker + 1)
    }
    return workers
  }

  /// The lines of the last chunk that the worker wrote, as far as they are readable; none without a chunk.
  func lastLedgerChunk(of worker: UInt16) throws(StoreError) -> [LedgerRecord] {
    let prefix = LedgerKey.prefix(.chunk, worker: worker)
    let start = try ledgerSegments(of: worker).last?.last.encoded(.chunk) ?? prefix
    var chunk: [UInt8] = []
    try scan(.ledger, prefix: prefix.span, from: start.span) { _, value in
      chunk = value.copied()
      return true
    }
    var lines: [LedgerRecord] = []
    // Lines before a fault are read.
    try? LedgerChunk.forEach(in: chunk.span) { lines.append($0) }
    return lines
  }

  /// A worker's segments, oldest first.
  func ledgerSegments(of worker: UInt16) throws(StoreError) -> [LedgerSegment] {
    var segments: [LedgerSegment] = []
    let prefix = LedgerKey.prefix(.segment, worker: worker)
    try scan(.ledger, prefix: prefix.span) { key, value in
      if let place = try? LedgerKey(decoding: key),
        let segment = try? LedgerSegment(decoding: value, at: place)
      {
        segments.append(segment)
      }
      return true
    }
    return segments
  }

  /// The counters of all workers as last written, with the worker that wrote them.
  package func readCounters() throws(StoreError) -> [(worker: UInt16, counters: TopicCounters)] {
    try metaRecords("counters", prefix: CountersRecord.prefix) { (key, value) throws(RecordError) in
      try CountersRecord.decode(key: key, value: value)
    }
  }
}
