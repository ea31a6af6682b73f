package import ApusModel

/// Notifications that a crash ended: the ledger or a journal has their acceptance and nobody has their end, and they
/// are not in the store.
///
/// They were only in the memory of the process. Most have expiration 0 and were on their way to their device; the
/// others had not been answered yet.
package struct UnendedNotifications: Sendable {
  /// With the worker that accepted each, in the order of acceptance.
  package private(set) var found: [(worker: UInt16, facts: NotificationFacts)] = []

  /// Lines of the ledger that a search reads: some tenths of a second. Older notifications are only counted.
  package static let lineLimit = 200_000

  /// - Parameters:
  ///   - journaled: What the journals have beyond the store.
  ///   - superseded: The orders of notifications of which the store has a trace.
  ///   - searchesLedger: Whether to read the end of the ledger as well: something was in memory when it was last
  ///     written.
  package init(
    _ journaled: [JournaledLines], _ store: some StoreReader, superseded: Set<UInt64>,
    searchesLedger: Bool, lineLimit: Int = Self.lineLimit
  ) throws(StoreError) {
    var search = UnendedSearch()
    for journal in journaled {
      for line in journal.lines { search.read(line, of: journal.worker, isJournaled: true) }
    }
    if searchesLedger { try search.readEnd(of: store, lineLimit: lineLimit) }
    let candidates = search.candidates.filter { !superseded.contains($0.facts.order) }
    let pending = try store.pendingOrders(among: candidates.lazy.map(\.facts))
    found = candidates.filter { !pending.contains($0.facts.order) }
  }
}

private struct UnendedSearch {
  private struct Acceptance {
    var worker: UInt16
    /// Of the line; the end of time for one in a journal, which also has the end if there was one.
    var milliseconds: Int64
    var facts: NotificationFacts
  }

  /// By order of acceptance.
  private var accepted: [UInt64: Acceptance] = [:]
  private var ended: Set<UInt64> = []
  private var lineCount = 0
  /// The ledger was read for all times after this one: an end of what was accepted later is known.
  private var knownSince = Int64.min

  /// In the order of acceptance.
  var candidates: [(worker: UInt16, facts: NotificationFacts)] {
    accepted.values.lazy
      .filter { $0.milliseconds > knownSince && !ended.contains($0.facts.order) }
      .map { ($0.worker, $0.facts) }
      .sorted { $0.1.order < $1.1.order }
  }

  mutating func read(_ line: LedgerRecord, of worker: UInt16, isJournaled: Bool = false) {
    if !isJournaled { lineCount += 1 }
    let facts = line.event.facts
    if line.event.state == .received {
      accepted[facts.order] = Acceptance(
        worker: worker, milliseconds: isJournaled ? .max : line.milliseconds, facts: facts)
    } else if line.event.state.isTerminal {
      ended.insert(facts.order)
    }
  }

  /// Reads the ledger of all workers back to one moment: another worker may have the end of a notification that waited
  /// for a later run. What the relay accepted is never in memory alone.
  mutating func readEnd(of store: some StoreReader, lineLimit: Int) throws(StoreError) {
    var segments: [LedgerSegment] = []
    for worker in try store.ledgerWorkers() where worker != LedgerKey.relay {
      let own = try store.ledgerSegments(of: worker)
      segments += own
      try readChunks(of: store, worker, from: own.last?.last.following, to: nil)
    }
    segments.sort { $0.last.milliseconds < $1.last.milliseconds }
    while lineCount < lineLimit, let newest = segments.popLast() {
      try readChunks(of: store, newest.last.worker, from: newest.first, to: newest.last)
    }
    // No line is younger than the key of its chunk.
    if let unread = segments.last { knownSince = unread.last.milliseconds }
  }

  private mutating func readChunks(
    of store: some StoreReader, _ worker: UInt16, from first: LedgerKey?, to last: LedgerKey?
  ) throws(StoreError) {
    let prefix = LedgerKey.prefix(.chunk, worker: worker)
    let start = first?.encoded(.chunk) ?? prefix
    var search = self
    try store.scan(.ledger, prefix: prefix.span, from: start.span) { key, value in
      guard let place = try? LedgerKey(decoding: key) else { return true }
      if let last, last < place { return false }
      // Lines before a fault are read.
      try? LedgerChunk.forEach(in: value) { search.read($0, of: worker) }
      return true
    }
    self = search
  }
}
