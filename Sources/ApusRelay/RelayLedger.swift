import ApusCore
import ApusModel
import ApusServer
import ApusStore

/// The relay's lines of the ledger, and its counters. Both are written with the rows that they are about, so that a
/// crash finds them in agreement: what is accepted and has not ended is in the spool.
struct RelayLedger {
  private var writer: LedgerWriter
  private var counters = DeliveryCounters()
  private var events: [LedgerEvent] = []
  private let isFollowing: Bool
  /// Memory for a value.
  private var value: [UInt8] = []

  /// Continues what an earlier run wrote.
  init(_ store: any DurableStore, _ mode: LedgerMode, _ bounds: LedgerBounds) throws(StoreError) {
    writer = LedgerWriter(
      worker: LedgerKey.relay, mode: mode, bounds: bounds,
      continuing: try LedgerStart.read(store, worker: LedgerKey.relay, of: 1))
    isFollowing = mode != .off
    for row in try store.readCounters() where row.worker == LedgerKey.relay {
      counters.restore(row.counters)
    }
  }

  var topicCounters: [TopicCounters] { counters.snapshot() }

  /// Records that a notification has reached a state.
  mutating func record(_ state: DeliveryState, causeCode: UInt8 = 0, _ facts: NotificationFacts) {
    counters.count(state, facts)
    if state == .received { counters.countStored(facts, 1) }
    if state.isTerminal { counters.countStored(facts, -1) }
    guard isFollowing else { return }
    events.append(LedgerEvent(state: state, causeCode: causeCode, facts: facts))
  }

  /// Takes over what the turn brought; the result is not in the ledger yet.
  mutating func gather(nowMilliseconds now: Int64) -> [LedgerEvent] {
    guard !events.isEmpty else { return [] }
    defer { events.removeAll(keepingCapacity: true) }
    writer.record(events, milliseconds: now)
    return events
  }

  // MARK: Writing

  /// Whether lines wait to be written.
  var hasLines: Bool { writer.hasLines }

  /// Whether old lines are to be removed, or an index of recent ones is due.
  func needsUpkeep(nowMilliseconds now: Int64) -> Bool { writer.needsUpkeep(milliseconds: now) }

  /// Lines lost since the last call because the store fails.
  mutating func takeLostLines() -> Int { writer.takeDroppedLines() }

  mutating func seal(into group: inout WriteGroup, nowMilliseconds now: Int64) {
    var value: [UInt8] = []
    swap(&value, &self.value)
    defer { swap(&value, &self.value) }
    counters.takeChanged { counters in
      CountersRecord.encode(counters, into: &value)
      let key = CountersRecord.key(
        worker: LedgerKey.relay, topic: counters.topic, environment: counters.environment)
      group.put(.meta, key: key.span, value: value.span)
    }
    writer.seal(into: &group, milliseconds: now)
  }

  /// The group was written, or not.
  mutating func committed(succeeded: Bool) {
    writer.committed(succeeded: succeeded)
    if !succeeded { counters.markAllChanged() }
  }
}
