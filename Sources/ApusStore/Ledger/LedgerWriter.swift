package import ApusModel

extension LedgerMode {
  /// Whether the ledger records the notification.
  func follows(_ id: NotificationID) -> Bool {
    switch self {
    case .off: false
    case .all: true
    case .oneIn(let number):
      number <= 1 || LedgerFilter.hash(.id, id) &>> 17 % UInt64(number) == 0
    }
  }
}

/// The bounds of the ledger.
package struct LedgerBounds: Sendable, Hashable {
  package var milliseconds: Int64
  package var bytes: Int
  /// Bytes of lines that wait while the store fails, gathering or from failed groups; further ones are dropped and
  /// counted.
  package var waitingBytes: Int

  package static let defaultWaitingBytes = 4 * 1024 * 1024

  package init(
    milliseconds: Int64, bytes: Int, waitingBytes: Int = LedgerBounds.defaultWaitingBytes
  ) {
    self.milliseconds = milliseconds
    self.bytes = bytes
    self.waitingBytes = waitingBytes
  }
}

/// Writes the lines of one worker to the store, and removes the oldest.
///
/// Lines gather in memory and are written with the next group, as one row. Runs of rows become segments, with a filter
/// each. Rows of a failed group are written with the next one, with the same keys.
package struct LedgerWriter: Sendable {
  private let mode: LedgerMode
  private let bounds: LedgerBounds
  /// The gathering lines.
  private var chunk = LedgerChunkWriter()
  private var earliestMilliseconds = Int64.max
  private var latestMilliseconds = Int64.min
  private var open = OpenSegment()
  /// Oldest first.
  private var segments: [LedgerSegment]
  private var oldest = 0
  private var keptBytes: Int
  private var last: LedgerKey
  /// Rows that must be written with the next group: tails of an earlier run, and rows of a failed group.
  private var retries: [Row]
  private var retriedBytes = 0
  private var sealed: [Row] = []
  /// The row of `sealed` whose lines are true only if the group is written.
  private var conditionalRow: Int?
  /// Lines dropped while the store failed.
  private var droppedLines = 0
  /// Has the lines that the store does not have yet; nil if they are only in memory.
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

  /// Bytes of lines beyond which a group is due for them: 5,000 notifications, so that its sync is a small part of
  /// their cost.
  private static let chunkBytes = 256 * 1024
  /// Lines of a segment. A look-up by id reads the filters, and the segments that pass theirs; a row and an index entry
  /// for each line would be many more writes.
  private static let segmentLines = 4096
  private static let segmentMilliseconds: Int64 = 3_600_000
  /// The most segments that one group removes.
  private static let removalsPerGroup = 64

  /// - Parameters:
  ///   - worker: The number with which the lines are written.
  ///   - start: The result of `LedgerStart.read`.
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

  /// Bytes of the stored rows, without the gathering lines.
  package var byteCount: Int { keptBytes + open.bytes }

  /// Lines dropped since the last call.
  package mutating func takeDroppedLines() -> Int {
    defer { droppedLines = 0 }
    return droppedLines
  }

  // MARK: Gathering

  package mutating func record(_ events: [LedgerEvent], milliseconds: Int64) {
    let first = chunk.byteCount
    for event in events where mode.follows(event.facts.id) {
      guard chunk.byteCount + retriedBytes < bounds.waitingBytes else {
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

  /// Adds lines that the journal of an earlier run has and the store does not. They are written with the next group,
  /// in a chunk of their own: that journal keeps them until then.
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

  /// Whether lines did not fit into the journal since the last call.
  package func takeJournalOverflow() -> Bool { journal?.takeOverflow() ?? false }

  private mutating func hash(_ facts: NotificationFacts) {
    open.hashes.append(LedgerFilter.hash(.id, facts.id))
    open.hashes.append(LedgerFilter.hash(.uniqueID, facts.uniqueID))
    open.hashes.append(LedgerFilter.hash(.token, facts.tokenPrefix))
    open.hashes.append(LedgerFilter.hash(.device, facts.device.rawValue))
  }

  /// Whether lines wait to be written.
  package var hasLines: Bool { !chunk.isEmpty || !retries.isEmpty }

  /// Whether enough lines wait for a group.
  package var isFull: Bool { chunk.byteCount >= Self.chunkBytes }

  /// Whether a segment must be closed, or the oldest removed.
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

  /// Adds all gathered lines to a group, and `groupEvents`, which take effect with it: if it is not written, they did
  /// not happen.
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

  /// The group was written, or failed. After a failure everything in it is written again, as far as there is room; the
  /// events that depended on the group are removed.
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
