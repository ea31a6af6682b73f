import ApusModel
import ApusStore
import ApusTesting
import Testing

@Suite("Readers of the feedback service")
struct FeedbackReaderTests {
  /// Far more than the buffers of a stalled reader can hold.
  private static let many = 10_000

  @Test("500 rows: oldest first, complete tuples, at most 988 bytes in a record, then the end")
  func records() throws {
    let bench = try FeedbackBench()
    let rows = FeedbackBench.rows(500)
    try bench.add(rows.shuffled())
    let reader = try bench.reader()
    let (bytes, end) = try reader.receiveAll()
    #expect(end == .closeNotify)
    #expect(try reader.transportEnd() == .endOfStream)
    #expect(try RawFeedbackTuple.list(bytes) == rows.map(FeedbackBench.tuple))
    // 19 records of 26 tuples, one of 6, and close_notify.
    let sizes = reader.records.map(\.plaintext.count)
    #expect(sizes == Array(repeating: 988, count: 19) + [228, 0])
  }

  @Test("With an empty list the connection ends immediately")
  func empty() throws {
    let bench = try FeedbackBench()
    let reader = try bench.reader()
    #expect(try reader.receiveAll() == ([], .closeNotify))
    #expect(try reader.transportEnd() == .endOfStream)
    #expect(reader.records.count == 1)
  }

  @Test("Rows that were read are removed; later ones are there for the next reader")
  func cleared() throws {
    let bench = try FeedbackBench()
    try bench.add(FeedbackBench.rows(100))
    #expect(try bench.read().count == 100)
    try bench.waitForCount(0)
    #expect(try bench.read().isEmpty)
    let later = FeedbackBench.rows(3, from: 1000)
    try bench.add(later)
    #expect(try bench.read() == later.map(FeedbackBench.tuple))
  }

  @Test("A list of many pages is read, and removed, as a whole")
  func pages() throws {
    let bench = try FeedbackBench()
    let rows = FeedbackBench.rows(5000)
    try bench.add(rows)
    #expect(try bench.read() == rows.map(FeedbackBench.tuple))
    try bench.waitForCount(0)
  }

  @Test("A token listed again during reading stays for the next reader")
  func renewed() throws {
    let bench = try FeedbackBench()
    let rows = FeedbackBench.rows(10)
    try bench.add(rows)
    let reader = try bench.reader()
    #expect(try reader.receiveAll().bytes.count == 380)
    let renewed = FeedbackRow(milliseconds: 1_800_000_000_000, token: rows[3].token)
    var group = bench.store.makeGroup()
    group.putFeedback(
      renewed, in: FeedbackBench.list, replacing: rows[3].milliseconds)
    bench.store.commit(group) { _ in }
    try waitUntil("the token to be renewed") { try bench.stored().last == renewed }
    try reader.finish()
    try bench.waitForCount(1)
    #expect(
      try bench.store.feedbackTime(of: renewed.token, in: FeedbackBench.list)
        == renewed.milliseconds)
    #expect(try bench.read() == [FeedbackBench.tuple(renewed)])
  }

  @Test("A reader that closes its side first still gets everything", arguments: [false, true])
  func halfClosed(saysGoodbye: Bool) throws {
    let bench = try FeedbackBench()
    let rows = FeedbackBench.rows(Self.many)
    try bench.add(rows)
    let reader = try bench.reader()
    if saysGoodbye { try reader.finish() } else { reader.shutdownWrite() }
    let (bytes, end) = try reader.receiveAll()
    #expect(end == .closeNotify)
    #expect(try RawFeedbackTuple.list(bytes) == rows.map(FeedbackBench.tuple))
    #expect(try reader.transportEnd() == .endOfStream)
    reader.close()
    try bench.waitForCount(0)
  }

  @Test("Input of a reader is ignored")
  func talking() throws {
    let bench = try FeedbackBench()
    let rows = FeedbackBench.rows(200)
    try bench.add(rows)
    let reader = try bench.reader()
    for _ in 0..<50 { try reader.send([UInt8](repeating: 2, count: 1000)) }
    let (bytes, end) = try reader.receiveAll()
    #expect(end == .closeNotify && bytes.count == 38 * 200)
    try reader.finish()
    try bench.waitForCount(0)
  }

  enum Departure: CaseIterable {
    case atOnce
    case afterSome
    case afterHalfClose
    /// Everything was read except the end.
    case beforeTheEnd
  }

  @Test("A reader that is reset leaves every row in the list", arguments: Departure.allCases)
  func reset(departure: Departure) throws {
    let bench = try FeedbackBench()
    let isLarge = departure == .afterSome || departure == .afterHalfClose
    let rows = FeedbackBench.rows(isLarge ? Self.many : 300)
    try bench.add(rows)
    for _ in 0..<3 {
      let reader = try bench.reader()
      reader.shrinkReceiveBuffer()
      switch departure {
      case .atOnce: break
      case .afterSome: _ = try reader.take(38 * 40)
      case .afterHalfClose:
        try reader.finish()
        _ = try reader.take(38 * 40)
      case .beforeTheEnd: _ = try reader.take(38 * 300)
      }
      reader.reset()
    }
    // Once all leases have ended, a reader gets everything.
    try waitUntil("all rows to be free") { try bench.peek().count == rows.count }
    #expect(try bench.stored().count == rows.count)
  }

  @Test(
    "A second reader gets what the first one did not, and together they get everything",
    arguments: [
      1, 2,
    ])
  func simultaneous(workers: Int) throws {
    let bench = try FeedbackBench(workers: workers)
    let rows = FeedbackBench.rows(2000)
    try bench.add(rows)
    let first = try bench.reader()
    #expect(try first.receiveAll().bytes.count == 38 * rows.count)
    // It has not confirmed its rows, so they are still leased to it. Some of these are older.
    let more = FeedbackBench.rows(50, from: 10_000) + FeedbackBench.earlierRows(50)
    try bench.add(more)
    let second = try bench.read()
    #expect(Set(second) == Set(more.map(FeedbackBench.tuple)) && second.count == more.count)
    try bench.waitForCount(rows.count)
    #expect(try bench.peek().isEmpty)
    try first.finish()
    try bench.waitForCount(0)
  }

  @Test("After a crash during reading, the service still has the whole list")
  func powerLoss() throws {
    let bench = try FeedbackBench()
    let rows = FeedbackBench.rows(Self.many)
    try bench.add(rows)
    let stalled = try bench.reader()
    stalled.shrinkReceiveBuffer()
    _ = try stalled.take(38 * 26)
    let next = try FeedbackBench(bench.store.afterPowerLoss(), bench.service.directory)
    #expect(try next.read() == rows.map(FeedbackBench.tuple))
    stalled.reset()
  }

  @Test("A list that could not be removed is served again")
  func failingStore() throws {
    let bench = try FeedbackBench()
    let rows = FeedbackBench.rows(50)
    try bench.add(rows)
    bench.store.failNextCommits(1, with: .unavailable)
    #expect(try bench.read().count == 50)
    // A free list is read once; before that a reader gets nothing.
    var again: [RawFeedbackTuple] = []
    try waitUntil("the rows to be free again") {
      again = try bench.read()
      return !again.isEmpty
    }
    #expect(again == rows.map(FeedbackBench.tuple))
    try bench.waitForCount(0)
  }

  @Test("During a shutdown a reader still gets the rest of its list")
  func stop() throws {
    let bench = try FeedbackBench()
    try bench.add(FeedbackBench.rows(1000))
    let reader = try bench.reader()
    _ = try reader.take(38)
    let thread = StopThread(bench.service)
    defer { thread.join() }
    let (bytes, end) = try reader.receiveAll()
    #expect(bytes.count == 38 * 999 && end == .closeNotify)
    reader.close()
  }
}
