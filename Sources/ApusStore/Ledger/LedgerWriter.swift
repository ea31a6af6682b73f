package import ApusModel

extension LedgerMode {
  /// Whether the ledger is to have the notification.
  func follows(_ id: NotificationID) -> Bool {
    switch self {
    case .off: false
    case .all: true
    case .oneIn(let number):
      number <= 1 || LedgerFilter.hash(.id, id) &>> 17 % UInt64(number) == 0
    }
  }
}

/// How much of the ledger is kept.
package struct LedgerBounds: Sendable, Hashable {
  package var milliseconds: Int64
  package var bytes: Int

  package init(milliseconds: Int64, bytes: Int) {
    self.milliseconds = milliseconds
    self.bytes = bytes
  }
}

/// The lines of one worker on their way into the store, and the oldest on their way out.
///
/// Lines gather in memory and go with the next group, as one row. Runs of rows become segments, with a filter each.
/// What a failed group had is written with the next one, under the same keys.
package struct LedgerWriter: Sendable {
  private let mode: LedgerMode
  private let bounds: LedgerBounds
  /// The lines that gather.
  private var chunk = LedgerChunkWriter()
  private var earliestMilliseconds = Int64.max
  private var latestMilliseconds = Int64.min
  private var open = OpenSegment()
  /// Oldest first.
  private var segments: [LedgerSegment]
  private var oldest = 0
  private var keptBytes: Int
  private var last: LedgerKey
  /// Rows that must be written with the next group: tails of an earlier run, and what a failed group had.
  private var retries: [Row]
  private var retriedBytes = 0
  private var sealed: [Row] = []
  /// The row of `sealed` with lines that are true only if the group is written.
  private var conditionalRow: Int?
  /// Lines that found no room while the store failed.
  private var droppedLines = 0
  /// Has the lines that the store does not have yet; nil where they are in memory alone.
  private let journal: LedgerJournal?

  private struct OpenSegment: Sendable {
    var first: LedgerKey?
    var earliestMilliseconds = Int64.max
    var bytes = 0
    var lines = 0
    var hashes: [UInt64] = []
  }

  enum Row: Sendable {
    case put(key: [UInt8], value: [UInt8])
    case delete(key: [UInt8])
    case deleteRange(from: [UInt8], to: [UInt8])
  }

  /// Bytes of lines beyond which a group is due for them: 5,000 notifications, so that its sync is a small part of what
  /// they cost.
  private static let chunkBytes = 256 * 1024
  /// Bytes of lines that wait while the store fails, gathering or written in vain; more are dropped and counted.
  private static let waitingBytes = 4 * 1024 * 1024
  private static let segmentLines = 4096
  private static let segmentMilliseconds: Int64 = 3_600_000
  /// Segments that one group removes at most.
  private static let removalsPerGroup = 64

  /// - Parameters:
  ///   - worker: the number under which the lines are written.
  ///   - start: what `restore` found.
  package init(
    worker: UInt16, mode: LedgerMode, bounds: LedgerBounds, continuing start: LedgerStart,
    journal: LedgerJournal? = nil
  ) {
    self.mode = mode
    self.journal = journal
    self.bounds = bounds
    segments = start.segments.sorted { $0.last.milliseconds < $1.last.milliseconds }
    keptBytes = segments.reduce(0) { $0 + $1.bytes }
    last = start.last ?? LedgerKey(worker: worker, milliseconds: 0, sequence: 0)
    retries = start.rows
  }

  package var isOn: Bool { mode != .off }

  /// Bytes of the rows that are kept, without those that gather.
  package var byteCount: Int { keptBytes + open.bytes }

  /// Lines that were dropped since the last call.
  package mutating func takeDroppedLines() -> Int {
    defer { droppedLines = 0 }
    return droppedLines
  }

  // MARK: Gathering

  package mutating func record(_ events: [LedgerEvent], milliseconds: Int64) {
    let first = chunk.byteCount
    for event in events where mode.follows(event.facts.id) {
      guard chunk.byteCount + retriedBytes < Self.waitingBytes else {
        droppedLines += 1
        continue
      }
      if chunk.append(event, milliseconds: milliseconds) { hash(event.facts) }
    }
    guard !chunk.isEmpty else { return }
    if let journal, chunk.byteCount > first { chunk.copy(from: first, to: journal) }
    earliestMilliseconds = min(earliestMilliseconds, milliseconds)
    latestMilliseconds = max(latestMilliseconds, milliseconds)
  }

  /// Takes up lines that the journal of an earlier run has and the store does not. They go with the next group, in a
  /// chunk of their own: that journal keeps them until then.
  package mutating func recover(_ lines: [LedgerRecord]) {
    precondition(chunk.isEmpty, "lines of this run gather already")
    for line in lines where mode.follows(line.event.facts.id) {
      if chunk.append(line.event, milliseconds: line.milliseconds) { hash(line.event.facts) }
      earliestMilliseconds = min(earliestMilliseconds, line.milliseconds)
      latestMilliseconds = max(latestMilliseconds, line.milliseconds)
    }
    guard !chunk.isEmpty else { return }
    closeChunk(latestMilliseconds)
    retriedBytes += sealed.reduce(0) { $0 + $1.byteCount }
    retries += sealed
    sealed = []
  }

  /// Whether lines found no room in the journal since the last call.
  package func takeJournalOverflow() -> Bool { journal?.takeOverflow() ?? false }

  private mutating func hash(_ facts: NotificationFacts) {
    open.hashes.append(LedgerFilter.hash(.id, facts.id))
    open.hashes.append(LedgerFilter.hash(.uniqueID, facts.uniqueID))
    open.hashes.append(LedgerFilter.hash(.token, facts.tokenPrefix))
    open.hashes.append(LedgerFilter.hash(.device, facts.device.rawValue))
  }

  /// Whether lines wait to be written.
  package var hasLines: Bool { !chunk.isEmpty || !retries.isEmpty }

  /// Whether so many lines wait that a group is due for them.
  package var isFull: Bool { chunk.byteCount >= Self.chunkBytes }

  /// Whether a segment is to be closed, or one is too old or too much.
  package func needsUpkeep(milliseconds: Int64) -> Bool {
    isSegmentDue(milliseconds) || isRemovalDue(milliseconds)
  }

  private func isSegmentDue(_ milliseconds: Int64) -> Bool {
    open.lines >= Self.segmentLines
      || open.lines > 0 && milliseconds - open.earliestMilliseconds >= Self.segmentMilliseconds
  }

  private func isRemovalDue(_ milliseconds: Int64) -> Bool {
    guard oldest < segments.count else { return false }
    return milliseconds - segments[oldest].last.milliseconds > bounds.milliseconds
      || byteCount > bounds.bytes
  }

  // MARK: Writing

  /// Adds everything that gathered to a group, and `groupEvents`, which happen with it. If it is not written, these
  /// have not happened.
  package mutating func seal(
    into group: inout WriteGroup, milliseconds: Int64, groupEvents: [LedgerEvent] = []
  ) {
    sealed = retries
    retries = []
    retriedBytes = 0
    if !chunk.isEmpty { closeChunk(milliseconds) }
    sealConditional(groupEvents, milliseconds)
    if isSegmentDue(milliseconds) { closeSegment() }
    var removals = 0
    while removals < Self.removalsPerGroup, isRemovalDue(milliseconds) {
      removeOldest()
      removals += 1
    }
    for row in sealed { row.write(into: &group) }
    journal?.seal(into: &group)
  }

  private mutating func sealConditional(_ events: [LedgerEvent], _ milliseconds: Int64) {
    for event in events where mode.follows(event.facts.id) {
      if chunk.append(event, milliseconds: milliseconds) { hash(event.facts) }
    }
    guard !chunk.isEmpty else { return }
    earliestMilliseconds = min(earliestMilliseconds, milliseconds)
    latestMilliseconds = max(latestMilliseconds, milliseconds)
    conditionalRow = sealed.count
    closeChunk(milliseconds)
  }

  private mutating func closeChunk(_ milliseconds: Int64) {
    last = last.following
    let time = max(milliseconds, latestMilliseconds)
    if time > last.milliseconds { last.milliseconds = time }
    if open.first == nil { open.first = last }
    open.earliestMilliseconds = min(open.earliestMilliseconds, earliestMilliseconds)
    open.bytes += chunk.byteCount + LedgerKey.byteCount
    open.lines += chunk.lines
    sealed.append(.put(key: last.encoded(.chunk), value: chunk.take()))
    earliestMilliseconds = .max
    latestMilliseconds = .min
  }

  private mutating func closeSegment() {
    guard let first = open.first else { return }
    let filter = LedgerFilter.build(open.hashes)
    let segment = LedgerSegment(
      first: first, last: last, earliestMilliseconds: open.earliestMilliseconds,
      bytes: open.bytes + filter.count, lines: open.lines)
    sealed.append(.put(key: last.encoded(.segment), value: segment.encoded()))
    sealed.append(.put(key: last.encoded(.filter), value: filter))
    segments.append(segment)
    keptBytes += segment.bytes
    open.first = nil
    open.earliestMilliseconds = .max
    open.bytes = 0
    open.lines = 0
    open.hashes.removeAll(keepingCapacity: true)
  }

  private mutating func removeOldest() {
    let segment = segments[oldest]
    sealed.append(
      .deleteRange(
        from: segment.first.encoded(.chunk), to: segment.last.following.encoded(.chunk)))
    sealed.append(.delete(key: segment.last.encoded(.segment)))
    sealed.append(.delete(key: segment.last.encoded(.filter)))
    keptBytes -= segment.bytes
    oldest += 1
    if oldest >= 256 || oldest == segments.count {
      segments.removeFirst(oldest)
      oldest = 0
    }
  }

  /// The group was written, or could not be. Then everything in it is written again, as far as there is room; what
  /// was to happen with the group is removed.
  package mutating func committed(succeeded: Bool) {
    defer { conditionalRow = nil }
    if succeeded {
      journal?.release()
    } else {
      retries = sealed
      if let conditionalRow, case .put(let key, _) = sealed[conditionalRow] {
        retries[conditionalRow] = .delete(key: key)
      }
      retriedBytes = retries.reduce(0) { $0 + $1.byteCount }
    }
    sealed = []
  }
}

extension LedgerWriter.Row {
  func write(into group: inout WriteGroup) {
    switch self {
    case .put(let key, let value): group.put(.ledger, key: key.span, value: value.span)
    case .delete(let key): group.delete(.ledger, key: key.span)
    case .deleteRange(let start, let end):
      group.deleteRange(.ledger, from: start.span, to: end.span)
    }
  }

  var byteCount: Int {
    switch self {
    case .put(let key, let value): key.count + value.count
    case .delete(let key): key.count
    case .deleteRange(let start, let end): start.count + end.count
    }
  }
}
