import ApusModel
import Foundation
import Testing

@testable import ApusStore

/// A worker's lines after its process was killed: the store, and the journal beside it.
@Suite("The ledger after a kill")
struct LedgerJournalTests {
  private let store = MemoryStore(mode: .manual)
  private let memory = JournalMemory(byteCount: 64 * 1024)
  private static let now = LedgerTests.now

  private func event(_ number: UInt64, _ state: DeliveryState = .received) -> LedgerEvent {
    LedgerTests.event(number, state)
  }

  /// A starting worker, with the lines that only the journal has.
  private func start(superseded: Set<UInt64> = []) throws -> LedgerWriter {
    let found = try JournaledLines.read(LedgerJournals([memory]), store, superseded: superseded)
    let own = try #require(found.first)
    var writer = LedgerWriter(
      worker: 0, mode: .all, bounds: LedgerTests.bounds,
      continuing: try LedgerStart.read(store, worker: 0, of: 1), journal: try own.goOn(store))
    writer.recover(own.lines)
    return writer
  }

  private func ledger() throws -> [UInt64] {
    var numbers: [UInt64] = []
    var position = LedgerPosition()
    try store.readLedger(LedgerQuery(), from: &position) { numbers.append($0.event.facts.order) }
    return numbers
  }

  private func commit(_ group: consuming WriteGroup) {
    store.commit(group) { _ in }
    store.runCommits()
  }

  @Test("Unwritten lines are in the ledger with the first group of the next start, once")
  func unwritten() throws {
    var writer = try start()
    writer.record([event(1), event(2)], milliseconds: Self.now)
    LedgerTests.flush(&writer, store)
    writer.record([event(3)], milliseconds: Self.now)
    writer.record([event(3, .delivered), event(4)], milliseconds: Self.now + 7)
    // Killed twice, the second time before anything was written.
    writer = try start()
    writer = try start()
    LedgerTests.flush(&writer, store)
    #expect(try ledger() == [1, 2, 3, 3, 4])
    let left = try JournaledLines.read(LedgerJournals([memory]), store, superseded: [])
    let lines = left.flatMap(\.lines)
    #expect(lines.isEmpty)
  }

  @Test("The lines of a written group are not added again, even if its completion was lost")
  func written() throws {
    var writer = try start()
    writer.record([event(1)], milliseconds: Self.now)
    var group = store.makeGroup()
    writer.seal(into: &group, milliseconds: Self.now)
    commit(group)
    writer.record([event(2)], milliseconds: Self.now)
    writer = try start()
    LedgerTests.flush(&writer, store)
    #expect(try ledger() == [1, 2])
  }

  @Test("The lines of a failed group and later ones are kept")
  func failed() throws {
    var writer = try start()
    for number in 1...3 as ClosedRange<UInt64> {
      writer.record([event(number)], milliseconds: Self.now)
      var group = store.makeGroup()
      writer.seal(into: &group, milliseconds: Self.now)
      writer.committed(succeeded: false)
    }
    writer = try start()
    writer.record([event(4)], milliseconds: Self.now)
    writer = try start()
    LedgerTests.flush(&writer, store)
    #expect(try ledger() == [1, 2, 3, 4])
  }

  @Test("Events that depend on a group that was never written are not in the journal")
  func conditional() throws {
    var writer = try start()
    writer.record([event(1)], milliseconds: Self.now)
    var group = store.makeGroup()
    writer.seal(into: &group, milliseconds: Self.now, groupEvents: [event(2, .replaced)])
    writer = try start()
    LedgerTests.flush(&writer, store)
    #expect(try ledger() == [1])
  }

  @Test("What a group replaced that failed and was kept ends once, or again after a return")
  func keptGroup() throws {
    var writer = try start()
    writer.record((1...4).map { event($0) }, milliseconds: Self.now)
    var group = store.makeGroup()
    writer.seal(
      into: &group, milliseconds: Self.now,
      groupEvents: [event(1, .replaced), event(2, .replaced), event(3, .replaced)])
    commit(group)
    writer.committed(succeeded: false)
    writer.record(
      [
        event(1, .discardedStoreFailed), event(2, .expired), event(4, .delivered),
        event(3), event(3, .delivered),
      ], milliseconds: Self.now)
    writer = try start()
    LedgerTests.flush(&writer, store)
    #expect(try ledger() == [1, 2, 3, 4, 1, 2, 3, 4, 3, 3])
  }

  @Test("Lines of a recovered ledger are found by their id, and have their times")
  func found() throws {
    var writer = try start()
    writer.record([event(1)], milliseconds: Self.now)
    writer.record([event(1, .delivered)], milliseconds: Self.now + 1234)
    writer = try start()
    LedgerTests.flush(&writer, store, milliseconds: Self.now + 60_000)
    var query = LedgerQuery()
    query.id = NotificationID(high: 1, low: 1)
    var times: [Int64] = []
    var position = LedgerPosition()
    try store.readLedger(query, from: &position) { times.append($0.milliseconds) }
    #expect(times == [Self.now, Self.now + 1234])
  }

  // MARK: Notifications still stored

  private func put(_ number: UInt64) { Self.put(number, into: store) }

  /// Puts the notification of an event into the mailbox.
  static func put(_ number: UInt64, into store: MemoryStore) {
    let facts = LedgerTests.event(number).facts
    let place = MailboxKey(
      device: facts.device, topic: facts.topic, environment: facts.environment)
    let fields = StoredNotification.Fields(
      acceptanceOrder: number, expirationSeconds: .max, acceptedMilliseconds: 0, messageID: 1,
      id: facts.id, uniqueID: facts.uniqueID,
      token: DeviceToken(words: (facts.tokenPrefix, 0, 0, 0)), priority: .immediate,
      pushType: nil, flags: 0)
    var group = store.makeGroup()
    group.put(fields, collapseID: Span(), payload: Span(), at: place)
    store.commit(group) { _ in }
    store.runCommits()
  }

  @Test("The end of a notification that the store still has counts only if it came back after it")
  func undoneEnds() throws {
    var writer = try start()
    put(2)
    put(4)
    writer.record(
      [
        event(1, .delivered), event(2, .sent), event(2, .deliveredFromStorage),
        event(3, .replaced), event(52, .expired),
        event(4), event(4, .discardedNotStored), event(4), event(4, .delivered),
      ], milliseconds: Self.now)
    let found = try JournaledLines.read(LedgerJournals([memory]), store, superseded: [3])
    // 52 is for the device of 2.
    let kept = found.flatMap(\.lines).map(\.event).map {
      [$0.facts.order, UInt64($0.state.rawValue)]
    }
    #expect(kept == [[1, 4], [2, 3], [52, 7], [4, 11], [4, 0]])
  }

  // MARK: Files

  @Test("Journals are files in the store's folder, and those of former workers are found too")
  func files() throws {
    let scratch = Scratch()
    func journals(_ workers: Int) -> LedgerJournals {
      LedgerJournals(in: scratch.root, workers: workers, byteCount: 8192) {
        Issue.record("\($0)")
      }
    }
    for found in try JournaledLines.read(journals(2), store, superseded: []) {
      let journal = try found.goOn(store)
      var chunk = LedgerChunkWriter()
      _ = chunk.append(event(UInt64(found.worker)), milliseconds: Self.now)
      chunk.copy(from: 0, to: journal)
      // Reopened in the same process, it has what was written.
      _ = try found.goOn(store)
    }
    let found = try JournaledLines.read(journals(1), store, superseded: [])
    #expect(found.map(\.worker) == [0, 1])
    #expect(found.map { $0.lines.map(\.event.facts.order) } == [[0], [1]])
    // Worker 0 continues what worker 1 left.
    var group = store.makeGroup()
    found[1].seal(into: &group)
    commit(group)
    let again = try JournaledLines.read(journals(1), store, superseded: [])
    #expect(again.map { $0.lines.count } == [1, 0])
    found[1].remove()
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: scratch.root) == ["ledger-journal-0"])
    let made = try JournaledLines.read(journals(2), store, superseded: [])
    let journal = try made[1].goOn(store)
    // A newly created file begins after the store's position in the old one.
    #expect(try journal.end > store.journalPosition(of: 1))
  }

  @Test("Clearing writes only to pages that are not zero")
  func clearing() throws {
    let scratch = Scratch()
    let path = "\(scratch.root)/journal"
    let memory = try JournalMemory(mapping: path, byteCount: 5 * 4096)
    /// Writing to a page through the mapping changes the file's time.
    func wasWritten(by action: () -> Void) throws -> Bool {
      let past = Date(timeIntervalSince1970: 1_000_000_000)
      try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: path)
      action()
      let date = try FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
      return date != past
    }
    #expect(try !wasWritten { memory.clear(64..<5 * 4096) })
    for place in [63, 64, 8192, 12287, 20478, 20479] { memory.write([7].span, at: place) }
    memory.rest()
    #expect(try wasWritten { memory.clear(64..<20479) })
    let left = memory.bytes.copied().enumerated().filter { $0.element != 0 }
    #expect(left.map(\.offset) == [63, 20479])
  }

  @Test("A path that is not a file, or cannot be created, is a fault and not a journal")
  func faults() {
    #expect(throws: JournalFault.self) {
      try JournalMemory(mapping: "/nonexistent/journal", byteCount: 4096)
    }
    let pipe = NSTemporaryDirectory() + "journal-\(UUID().uuidString)"
    defer { unlink(pipe) }
    #expect(mkfifo(pipe, 0o600) == 0)
    #expect(throws: JournalFault.self) { try JournalMemory(mapping: pipe, byteCount: 4096) }
    #expect(access(pipe, F_OK) == 0, "what is no journal stays")
    var faults = 0
    let journals = LedgerJournals(in: "/nonexistent", workers: 2) { _ in faults += 1 }
    #expect(journals.journals.isEmpty && faults == 2)
  }
}
