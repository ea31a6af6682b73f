import ApusModel
import Testing

@testable import ApusStore

/// What a killed process had only in memory, from the lines that it left.
@Suite("Notifications that a crash ended")
struct UnendedNotificationsTests {
  private let store = MemoryStore(mode: .manual)
  private static let now = LedgerTests.now

  private func event(_ number: UInt64, _ state: DeliveryState = .received) -> LedgerEvent {
    LedgerTests.event(number, state)
  }

  /// Writes lines into the ledger, as one segment.
  private func write(
    _ events: [LedgerEvent], worker: UInt16 = 0, milliseconds: Int64 = now
  ) throws {
    var writer = try LedgerTests.writer(store, worker: worker, of: 2)
    writer.record(events, milliseconds: milliseconds)
    LedgerTests.flush(&writer, store, milliseconds: milliseconds)
    // The next start makes a segment of it.
    var next = try LedgerTests.writer(store, worker: worker, of: 2)
    LedgerTests.flush(&next, store, milliseconds: milliseconds)
  }

  private func find(
    _ memories: [JournalMemory] = [], superseded: Set<UInt64> = [], searchesLedger: Bool = true,
    lineLimit: Int = UnendedNotifications.lineLimit
  ) throws -> [UInt64] {
    let journaled = try JournaledLines.read(
      LedgerJournals(memories), store, superseded: superseded)
    return try UnendedNotifications(
      journaled, store, superseded: superseded, searchesLedger: searchesLedger,
      lineLimit: lineLimit
    ).found.map(\.facts.order)
  }

  /// A journal with lines that the store does not have.
  private func journal(_ events: [LedgerEvent]) -> JournalMemory {
    let memory = JournalMemory(byteCount: 64 * 1024)
    let journal = LedgerJournal(memory, worker: 0, behind: 0)
    var chunk = LedgerChunkWriter()
    for event in events { _ = chunk.append(event, milliseconds: Self.now) }
    chunk.copy(from: 0, to: journal)
    return memory
  }

  @Test("One with an acceptance and no end is found, unless the store has it or its trace")
  func found() throws {
    try write([event(1), event(2), event(3), event(4), event(2, .delivered), event(1, .sent)])
    LedgerJournalTests.put(3, into: store)
    #expect(try find(superseded: [4]) == [1])
    #expect(try find(superseded: [4], searchesLedger: false) == [])
  }

  @Test("A journal has acceptances of its own, and ends of what the ledger has accepted")
  func journaled() throws {
    try write([event(1), event(2)])
    let memory = journal([event(3), event(4), event(4, .delivered), event(1, .delivered)])
    #expect(try find([memory]) == [2, 3])
    #expect(try find([memory], searchesLedger: false) == [3])
  }

  @Test("The end of what waited for a later run is in the ledger of another worker")
  func otherWorker() throws {
    try write([event(1), event(2)], worker: 1)
    try write([event(1, .deliveredFromStorage)], worker: 0, milliseconds: Self.now + 1)
    #expect(try find() == [2])
  }

  @Test("What the relay accepted is in its spool")
  func relay() throws {
    try write([event(1)], worker: LedgerKey.relay)
    try write([event(2)], worker: 0)
    #expect(try find() == [2])
  }

  @Test("A search ends at its limit, and finds nothing whose end it may not have read")
  func limit() throws {
    try write([event(1), event(2)], worker: 1)
    try write([event(3)], worker: 0, milliseconds: Self.now + 1)
    try write([event(1, .delivered), event(4)], worker: 1, milliseconds: Self.now + 2)
    #expect(try find() == [2, 3, 4])
    #expect(try find(lineLimit: 3) == [3, 4])
    #expect(try find(lineLimit: 2) == [4])
    #expect(try find(lineLimit: 1) == [4])
  }
}
