import ApusModel
import ApusServer
import ApusStore
import ApusTLS
import ApusTesting
import Testing

/// A service with a store that the test can access, to fill and inspect the lists.
final class FeedbackBench {
  let store: MemoryStore
  let service: TestService
  let identity: TLSIdentity

  init(
    _ store: MemoryStore = MemoryStore(), _ directory: TestDirectory? = nil,
    graceSeconds: Int64 = 0, workers: Int = 2
  ) throws {
    self.store = store
    service = try TestService(
      directory,
      .init {
        $0.store = store
        $0.unregisterGraceSeconds = graceSeconds
        $0.workers = workers
        $0.gatewayRules = Gateways.rules
      })
    identity = try service.directory.providerIdentity()
  }

  deinit { service.stop() }

  static let list = FeedbackTopic(topic: TopicKey(app: AppID(1)), environment: .production)

  /// Tokens in the form of issued ones; readers of the list do not look into them.
  static func rows(_ count: Int, from first: Int = 0) -> [FeedbackRow] {
    (first..<first + count).map { number in
      FeedbackRow(
        milliseconds: 1_700_000_000_000 + Int64(number) * 1000,
        token: DeviceToken(words: (UInt64(number), 1, 2, UInt64.max - UInt64(number))))
    }
  }

  /// Rows older than all others.
  static func earlierRows(_ count: Int) -> [FeedbackRow] {
    rows(count, from: 1_000_000).map {
      FeedbackRow(milliseconds: $0.milliseconds - 1_600_000_000_000, token: $0.token)
    }
  }

  static func tuple(_ row: FeedbackRow) -> RawFeedbackTuple {
    RawFeedbackTuple(seconds: UInt32(row.milliseconds / 1000), token: hex(row.token.hex))
  }

  /// Adds rows to a list and waits until they are stored.
  func add(_ rows: [FeedbackRow], to list: FeedbackTopic = list) throws {
    var group = store.makeGroup()
    for row in rows { group.putFeedback(row, in: list, replacing: nil) }
    store.commit(group) { _ in }
    try waitUntil("the rows to be stored") { store.pendingCommitCount == 0 }
    try waitUntil("the rows to be there") {
      try rows.isEmpty || store.feedbackTime(of: rows[rows.count - 1].token, in: list) != nil
    }
  }

  /// The current list, oldest first.
  func stored(_ list: FeedbackTopic = list) throws -> [FeedbackRow] {
    var rows: [FeedbackRow] = []
    try store.feedbackRows(of: list, after: nil, limit: .max, into: &rows)
    return rows
  }

  func waitForCount(_ count: Int, in list: FeedbackTopic = list) throws {
    try waitUntil("\(count) rows to stand in the list") { try stored(list).count == count }
  }

  func reader() throws -> RawTLSClient {
    try service.feedbackReader(identity: identity)
  }

  /// Reads everything and confirms it to the service.
  func read() throws -> [RawFeedbackTuple] { try service.feedback(identity: identity) }

  /// Reads all rows that are not leased, and leaves them in the list by resetting the connection.
  func peek() throws -> [RawFeedbackTuple] {
    let reader = try reader()
    let bytes = try reader.receiveAll().bytes
    reader.reset()
    return try RawFeedbackTuple.list(bytes)
  }
}
