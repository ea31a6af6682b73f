import ApusCore
import ApusModel
import ApusStore

/// What the workers of a service find when they start.
struct LedgerOpening {
  private let store: any DurableStore
  private let counters: [(worker: UInt16, counters: TopicCounters)]
  private let rejections: [(worker: UInt16, reason: Reason, number: UInt64)]
  /// Traces of notifications that ended with an earlier run.
  private let superseded: [(worker: UInt16, facts: NotificationFacts)]
  /// What the journals have of an earlier run, beyond the store.
  private let journaled: [JournaledLines]
  /// What an earlier run had only in memory when it crashed, as far as its lines say.
  private let unended: UnendedNotifications
  private let workerCount: Int
  /// Workers and acceptors, which follow on them.
  private let totalCount: Int
  /// Whether the counters are the first.
  private let isCounted: Bool
  private let hasRelay: Bool

  /// - Parameters:
  ///   - hasRelay: Whether a relay writes lines as well.
  ///   - recordsUnended: False for a canary of the simulation.
  /// - Throws: What keeps the store from being read.
  init(
    _ store: any DurableStore, workers: Int, acceptors: Int = 0, journals: LedgerJournals,
    hasRelay: Bool = false, recordsUnended: Bool = true
  ) throws(StoreError) {
    self.store = store
    self.hasRelay = hasRelay
    workerCount = workers
    totalCount = workers + acceptors
    rejections = try store.readRejections()
    superseded = try store.readSuperseded()
    let traced = Set(superseded.map(\.facts.order))
    journaled = try JournaledLines.read(journals, store, superseded: traced)
    let kept = try store.readCounters().filter { $0.worker != LedgerKey.relay }
    unended = try UnendedNotifications(
      recordsUnended ? journaled : [], store, superseded: traced,
      searchesLedger: recordsUnended && kept.contains { $0.counters.unstoredCount > 0 })
    isCounted = kept.isEmpty
    counters = kept.isEmpty ? try Self.counted(store) : kept
  }

  /// The counters for a store of a version that kept none: everything that waits was accepted once.
  private static func counted(
    _ store: any DurableStore
  ) throws(StoreError) -> [(worker: UInt16, counters: TopicCounters)] {
    var found = DeliveryCounters()
    let all: [UInt8] = []
    try store.scan(.mailbox, prefix: all.span) { key, value in
      if let place = try? MailboxKey(decoding: key),
        let stored = try? StoredNotification(decoding: value)
      {
        found.count(.received, stored.fields.facts(at: place))
      }
      return true
    }
    return found.snapshot().map { (0, $0) }
  }

  /// Whether worker `index` takes over what `worker` has written.
  private func isSuccessor(_ index: Int, of worker: UInt16) -> Bool {
    LedgerKey.successor(of: worker, among: workerCount) == UInt16(index)
  }

  /// Lines of an earlier run that are not in the store yet.
  var journaledLines: [LedgerRecord] { journaled.flatMap(\.lines) }

  /// What the crash of an earlier run ended, of what worker `index` takes up.
  func superseded(for index: Int) -> [NotificationFacts] {
    guard index < workerCount else { return [] }
    return superseded.filter { isSuccessor(index, of: $0.worker) }.map(\.facts)
  }

  /// What worker `index` takes over: its own state, and that of workers that no longer exist.
  ///
  /// - Parameter milliseconds: Unix time of the start, when what an earlier run had in memory ends.
  func ledger(
    for index: Int, _ configuration: ServerConfiguration, milliseconds: Int64,
    counters target: inout DeliveryCounters
  ) throws(StoreError) -> WorkerLedger {
    guard index < workerCount else { return acceptorLedger(index) }
    let bounds = configuration.ledgerBounds(writerCount: workerCount + (hasRelay ? 1 : 0))
    let start = try LedgerStart.read(store, worker: UInt16(index), of: workerCount)
    let own = journaled.first { Int($0.worker) == index && configuration.ledger != .off }
    var ledger = WorkerLedger(
      writer: LedgerWriter(
        worker: UInt16(index), mode: configuration.ledger, bounds: bounds, continuing: start,
        journal: try own?.goOn(store)))
    for row in counters where isSuccessor(index, of: row.worker) {
      target.restore(row.counters)
      if isCounted || Int(row.worker) != index { target.markAllChanged() }
      guard Int(row.worker) != index else { continue }
      ledger.staleKeys.append(
        CountersRecord.key(
          worker: row.worker, topic: row.counters.topic, environment: row.counters.environment))
    }
    let mine = journaled.filter { isSuccessor(index, of: $0.worker) }
    ledger.finishedJournals = mine.filter { $0.worker != own?.worker }
    let lines = mine.flatMap(\.lines)
    for line in lines { target.count(line.event.state, line.event.facts) }
    target.endUnstored()
    ledger.writer.recover(lines + ends(for: index, milliseconds: milliseconds))
    for row in superseded where isSuccessor(index, of: row.worker) {
      ledger.staleKeys.append(SupersededRecord.key(worker: row.worker, order: row.facts.order))
    }
    restoreRejections(of: index, to: &ledger)
    for row in rejections where Int(row.worker) >= totalCount {
      guard isSuccessor(index, of: row.worker) else { continue }
      ledger.rejections.add(row.number, to: row.reason)
      ledger.staleKeys.append(RejectionRecord.key(worker: row.worker, row.reason))
    }
    return ledger
  }

  /// Lines for what an earlier run had only in memory. The counters have all of it, with or without a line.
  private func ends(for index: Int, milliseconds: Int64) -> [LedgerRecord] {
    unended.found.lazy.filter { isSuccessor(index, of: $0.worker) }.map {
      LedgerRecord(
        milliseconds: milliseconds,
        event: LedgerEvent(
          state: .discardedNotStored, causeCode: LedgerCause.onlyInMemory.rawValue,
          facts: $0.facts))
    }
  }

  /// An acceptor refuses requests, and knows of no notification.
  private func acceptorLedger(_ index: Int) -> WorkerLedger {
    var ledger = WorkerLedger(
      writer: LedgerWriter(
        worker: UInt16(index), mode: .off, bounds: LedgerBounds(milliseconds: 0, bytes: 0),
        continuing: LedgerStart()))
    restoreRejections(of: index, to: &ledger)
    return ledger
  }

  private func restoreRejections(of index: Int, to ledger: inout WorkerLedger) {
    for row in rejections where Int(row.worker) == index {
      ledger.rejections.restore(row.number, of: row.reason)
    }
  }
}

extension ServerConfiguration {
  /// The bounds for each of so many writers.
  func ledgerBounds(writerCount: Int) -> LedgerBounds {
    // A store in memory has room for little, and nobody to read it from outside.
    let megabytes =
      isEphemeral ? min(ledgerMegabytes, Limits.ledgerMegabytesInMemory) : ledgerMegabytes
    return LedgerBounds(
      milliseconds: Int64(ledgerDays) * 86_400_000, bytes: megabytes * 1024 * 1024 / writerCount,
      waitingBytes: ledgerWaitingBytes)
  }
}
