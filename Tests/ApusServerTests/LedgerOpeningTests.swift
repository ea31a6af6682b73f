import ApusCore
import ApusModel
import ApusStore
import Testing

@testable import ApusServer

/// What a worker takes up after its process was killed.
@Suite("The start after a crash")
struct LedgerOpeningTests {
  private let store = MemoryStore(mode: .manual)
  private let memory = JournalMemory(byteCount: 64 * 1024)
  private var configuration = ServerConfiguration(dataDirectory: "(none)", listeners: [])
  private static let now: Int64 = 1_700_000_000_000

  /// A worker's counters and ledger.
  private struct Run {
    var counters = DeliveryCounters()
    var ledger: WorkerLedger

    mutating func note(_ number: UInt64, _ states: DeliveryState...) {
      for state in states {
        let event = LedgerEvent(state: state, causeCode: 0, facts: facts(number))
        counters.count(state, event.facts)
        ledger.writer.record([event], milliseconds: now)
      }
    }

    private func facts(_ number: UInt64) -> NotificationFacts {
      NotificationFacts(
        order: number, id: NotificationID(high: number, low: 1),
        uniqueID: NotificationID(high: number, low: 2), device: DeviceID(number),
        topic: TopicKey(app: AppID(1)), environment: .production, tokenPrefix: number,
        pushType: .alert, priority: .immediate, interface: .http2)
    }
  }

  /// A start, later by so many milliseconds.
  private func start(_ milliseconds: Int64 = 0, journals: LedgerJournals? = nil) throws -> Run {
    let opening = try LedgerOpening(
      store, workers: 1, journals: journals ?? LedgerJournals([memory]))
    var counters = DeliveryCounters()
    let ledger = try opening.ledger(
      for: 0, configuration, milliseconds: Self.now + milliseconds, counters: &counters)
    return Run(counters: counters, ledger: ledger)
  }

  /// Writes a group with the counters and the lines.
  private func commit(_ run: inout Run) {
    var group = store.makeGroup()
    var value: [UInt8] = []
    run.counters.takeChanged { counters in
      CountersRecord.encode(counters, into: &value)
      let key = CountersRecord.key(
        worker: 0, topic: counters.topic, environment: counters.environment)
      group.put(.meta, key: key.span, value: value.span)
    }
    run.ledger.writer.seal(into: &group, milliseconds: Self.now)
    store.commit(group) { _ in }
    store.runCommits()
    run.ledger.writer.committed(succeeded: true)
  }

  /// A run that was killed: 1 was on its way to a device when the last group was written; later 2 was accepted, 3 and
  /// 4 were delivered.
  private func leaveCrashedRun() throws {
    var run = try start()
    run.note(1, .received, .sent)
    run.note(3, .received, .sent)
    commit(&run)
    run.note(2, .received, .sent)
    run.note(3, .delivered)
    run.note(4, .received, .sent, .delivered)
  }

  private func ends() throws -> [UInt64: [LedgerRecord]] {
    var ends: [UInt64: [LedgerRecord]] = [:]
    var position = LedgerPosition()
    try store.readLedger(LedgerQuery(), from: &position) { line in
      if line.event.state.isTerminal { ends[line.event.facts.order, default: []].append(line) }
    }
    return ends
  }

  @Test("What was only in memory has an end, in the ledger and in the counters, and only one")
  func ended() throws {
    try leaveCrashedRun()
    // Killed once more before anything was written.
    _ = try start(1000)
    for milliseconds in [2000, 3000] as [Int64] {
      var run = try start(milliseconds)
      let row = try #require(run.counters.snapshot().first)
      #expect(row.accepted == 4 && row.pending == 0 && row.isBalanced)
      #expect(row[.delivered] == 2 && row[.discardedNotStored] == 2)
      commit(&run)
    }
    let ends = try ends()
    #expect(ends.mapValues(\.count) == [1: 1, 2: 1, 3: 1, 4: 1])
    for order in [1, 2] as [UInt64] {
      let line = try #require(ends[order]?.first)
      #expect(line.event.state == .discardedNotStored)
      #expect(line.event.causeCode == LedgerCause.onlyInMemory.rawValue)
      #expect(line.milliseconds == Self.now + 2000)
    }
  }

  @Test("Where the journal was lost, what the counters had in memory is recorded and counted")
  func lostJournal() throws {
    try leaveCrashedRun()
    var run = try start(1000, journals: LedgerJournals([JournalMemory(byteCount: 64 * 1024)]))
    let row = try #require(run.counters.snapshot().first)
    #expect(row.accepted == 2 && row[.discardedNotStored] == 2 && row.isBalanced)
    commit(&run)
    #expect(try ends().mapValues(\.count) == [1: 1, 3: 1])
  }

  @Test("Without a ledger it is only counted")
  func off() throws {
    var test = self
    test.configuration.ledger = .off
    try test.leaveCrashedRun()
    let row = try #require(try test.start(1000).counters.snapshot().first)
    #expect(row.accepted == 2 && row[.discardedNotStored] == 2 && row.isBalanced)
    #expect(try ends().isEmpty)
  }
}
