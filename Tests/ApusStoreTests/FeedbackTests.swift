import ApusRandom
import ApusModel
import ApusStore
import Testing

@Suite("Feedback lists")
struct FeedbackTests {
  static let list = FeedbackTopic(topic: TopicKey(app: AppID(7)), environment: .production)

  /// Lists that differ in one respect each, and are adjacent in the store.
  static let lists = [
    list, FeedbackTopic(topic: list.topic, environment: .development),
    FeedbackTopic(topic: TopicKey(app: AppID(7), suffix: .voip), environment: .production),
    FeedbackTopic(topic: TopicKey(app: AppID(8)), environment: .production),
    FeedbackTopic(topic: TopicKey(app: AppID(0xffff_ffff)), environment: .production),
  ]

  static func token(_ number: UInt64) -> DeviceToken { DeviceToken(words: (number, 0, 0, number)) }

  static func row(_ milliseconds: Int64, _ number: UInt64) -> FeedbackRow {
    FeedbackRow(milliseconds: milliseconds, token: token(number))
  }

  @Test("A new list is empty", arguments: Engine.allCases)
  func empty(engine: Engine) throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    #expect(try store.feedbackTime(of: Self.token(1), in: Self.list) == nil)
    #expect(try Self.all(Self.list, of: store) == [])
    store.close()
  }

  @Test(
    "Rows come oldest first, in pages after any row, existing or not", arguments: Engine.allCases)
  func order(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    // The order of the bytes is that of the times: 255 and 256 differ in two bytes.
    let rows = [
      Self.row(0, 9), Self.row(255, 5), Self.row(255, 6), Self.row(256, 1),
      Self.row(1_700_000_000_123, 3), Self.row(.max, 2),
    ]
    _ = await commit(store) { group in
      for row in rows.shuffled() { group.putFeedback(row, in: Self.list, replacing: nil) }
      for list in Self.lists.dropFirst() {
        group.putFeedback(Self.row(3, 77), in: list, replacing: nil)
      }
    }
    #expect(try Self.all(Self.list, of: store) == rows)
    var page: [FeedbackRow] = []
    try store.feedbackRows(of: Self.list, after: nil, limit: 2, into: &page)
    #expect(page == Array(rows[..<2]))
    try store.feedbackRows(of: Self.list, after: page.last, limit: 3, into: &page)
    #expect(page == Array(rows[..<5]))
    page = []
    try store.feedbackRows(of: Self.list, after: Self.row(255, 7), limit: 1, into: &page)
    #expect(page == [rows[3]])
    page = []
    try store.feedbackRows(of: Self.list, after: rows[5], limit: 10, into: &page)
    try store.feedbackRows(of: Self.list, after: nil, limit: 0, into: &page)
    #expect(page == [])
    store.close()
  }

  @Test("A renewed token is listed once, with its latest time", arguments: Engine.allCases)
  func renewal(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    var expected: Int64?
    for time: Int64 in [100, 300, 300, 200, 400] {
      let previous = try store.feedbackTime(of: Self.token(1), in: Self.list)
      #expect(previous == expected)
      _ = await commit(store) {
        $0.putFeedback(Self.row(time, 1), in: Self.list, replacing: previous)
      }
      expected = max(expected ?? 0, time)
      #expect(try Self.all(Self.list, of: store) == [Self.row(expected ?? 0, 1)])
    }
    #expect(try store.rows(.feedback, prefix: []).count == 2)
    store.close()
  }

  @Test("Nothing is written for a time that is not later")
  func noWrite() {
    var group = WriteGroup()
    group.putFeedback(Self.row(5, 1), in: Self.list, replacing: 5)
    group.putFeedback(Self.row(5, 1), in: Self.list, replacing: 6)
    #expect(group.count == 0)
  }

  @Test(
    "Removing a row that was renewed while it was read keeps the new one",
    arguments: Engine.allCases)
  func renewedWhileRead(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    _ = await commit(store) { $0.putFeedback(Self.row(10, 1), in: Self.list, replacing: nil) }
    let taken = try Self.all(Self.list, of: store)
    _ = await commit(store) { $0.putFeedback(Self.row(20, 1), in: Self.list, replacing: 10) }
    await Self.remove(taken, of: Self.list, from: store)
    #expect(try Self.all(Self.list, of: store) == [Self.row(20, 1)])
    #expect(try store.feedbackTime(of: Self.token(1), in: Self.list) == 20)
    await Self.remove([Self.row(20, 1)], of: Self.list, from: store)
    #expect(try store.rows(.feedback, prefix: []) == [])
    store.close()
  }

  @Test(
    "A token added by two writers at once is sent with both times and then removed",
    arguments: Engine.allCases, [[10, 20], [20, 10]] as [[Int64]])
  func missedWrite(engine: Engine, times: [Int64]) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    for time in times {
      _ = await commit(store) {
        $0.putFeedback(Self.row(time, 1), in: Self.list, replacing: nil)
      }
    }
    for time: Int64 in [10, 20] {
      let first = try Self.all(Self.list, of: store).prefix(1)
      #expect(first == [Self.row(time, 1)])
      await Self.remove(Array(first), of: Self.list, from: store)
    }
    #expect(try store.rows(.feedback, prefix: []) == [])
    store.close()
  }

  @Test("Rows survive a restart")
  func restart() async throws {
    let scratch = Scratch()
    let store = try RocksStore(path: scratch.path)
    _ = await commit(store) { $0.putFeedback(Self.row(10, 1), in: Self.list, replacing: nil) }
    store.close()
    let again = try RocksStore(path: scratch.path)
    #expect(try Self.all(Self.list, of: again) == [Self.row(10, 1)])
    #expect(try again.feedbackTime(of: Self.token(1), in: Self.list) == 10)
    again.close()
  }

  @Test("A damaged row is an error that names its position", arguments: Engine.allCases)
  func damage(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    let bad = FeedbackRecord.timeKey(Self.row(20, 2), in: Self.list)
    let token = FeedbackRecord.tokenKey(Self.token(2), in: Self.list)
    _ = await commit(store) {
      $0.putFeedback(Self.row(10, 1), in: Self.list, replacing: nil)
      $0.put(.feedback, bytes(bad.span), [9])
      $0.put(.feedback, bytes(token.span), [1, 2])
    }
    var rows: [FeedbackRow] = []
    #expect(
      throws: StoreError.corrupted(
        path: "feedback",
        detail: "a record of unknown version 9, after the token 00000000… of the production list "
          + "of app 7")
    ) { try store.feedbackRows(of: Self.list, after: nil, limit: 10, into: &rows) }
    #expect(rows == [Self.row(10, 1)])
    #expect(
      throws: StoreError.corrupted(
        path: "feedback",
        detail: "a record that ends inside its field 'time', for the token 00000000…")
    ) { try store.feedbackTime(of: Self.token(2), in: Self.list) }
    #expect(try store.feedbackTime(of: Self.token(1), in: Self.list) == 10)
    store.close()
  }

  @Test(
    "Lists match a simple model under random puts, reads and removals",
    arguments: Engine.allCases, [1, 2, 3, 4] as [UInt64])
  func walk(engine: Engine, seed: UInt64) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    var random = SeededRandom(seed: seed)
    var model: [FeedbackTopic: [DeviceToken: Int64]] = [:]
    /// Rows that a reader has received but not removed yet; some are renewed before that.
    var taken: [(FeedbackTopic, [FeedbackRow])] = []
    for step in 0..<300 {
      let list = Self.lists.randomElement(using: &random)!
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<6:
        let row = Self.row(
          .random(in: 0..<1000, using: &random), .random(in: 0..<20, using: &random))
        let previous = try store.feedbackTime(of: row.token, in: list)
        #expect(previous == model[list]?[row.token], "seed \(seed), step \(step)")
        _ = await commit(store) { $0.putFeedback(row, in: list, replacing: previous) }
        model[list, default: [:]][row.token] = max(previous ?? 0, row.milliseconds)
      case 6..<8:
        var rows: [FeedbackRow] = []
        let limit = Int.random(in: 1..<15, using: &random)
        try store.feedbackRows(of: list, after: nil, limit: limit, into: &rows)
        taken.append((list, rows))
      default:
        guard let (list, rows) = taken.popLast() else { continue }
        await Self.remove(rows, of: list, from: store)
        for row in rows where model[list]?[row.token] == row.milliseconds {
          model[list]?[row.token] = nil
        }
      }
      let expected = (model[list] ?? [:]).map { FeedbackRow(milliseconds: $1, token: $0) }
        .sorted { ($0.milliseconds, $0.token.words.0) < ($1.milliseconds, $1.token.words.0) }
      let page = Int.random(in: 1..<8, using: &random)
      let rows = try Self.all(list, of: store, page: page)
      try #require(rows == expected, "seed \(seed), step \(step), pages of \(page)")
    }
    // One row by time and one by token for each, and nothing else.
    let count = model.values.reduce(0) { $0 + $1.count }
    #expect(try store.rows(.feedback, prefix: []).count == 2 * count, "seed \(seed)")
    store.close()
  }

  /// The whole list, read in pages of `page` rows.
  static func all(
    _ list: FeedbackTopic, of store: any DurableStore, page: Int = 100
  ) throws -> [FeedbackRow] {
    var rows: [FeedbackRow] = []
    while true {
      let before = rows.count
      try store.feedbackRows(of: list, after: rows.last, limit: page, into: &rows)
      // The limit ends a test whose pages make no progress.
      guard rows.count == before + page, rows.count < 10_000 else { return rows }
    }
  }

  static func remove(
    _ rows: [FeedbackRow], of list: FeedbackTopic, from store: any DurableStore
  ) async {
    _ = await commit(store) { group in
      for row in rows {
        let time = try? store.feedbackTime(of: row.token, in: list)
        group.removeFeedback(row, of: list, isCurrent: time == row.milliseconds)
      }
    }
  }
}
