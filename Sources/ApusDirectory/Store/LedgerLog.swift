import ApusCore
package import ApusModel
import ApusStore
import ApusTrust
import Glibc

/// The ledger of a data directory, for whoever asks what became of a notification: while the service runs and when it
/// does not, without its help.
package final class LedgerLog {
  private let directory: Directory
  private let sealer: TokenSealer
  private let following: StoreFollowing
  private var follower: RocksFollower { following.store }
  private var position = LedgerPosition()

  /// - Throws: what keeps the directory or its store from being read, in words for the operator.
  package init(_ data: DataDirectory) throws {
    let trust = try data.trust(generation: 1, allowsES512: false)
    directory = trust.directory
    sealer = TokenSealer(trust.sealingKeys)
    guard Files.exists(data.storePath) else {
      throw DirectoryProblem(
        "\(data.path) has no ledger: no service has run there, or only one that stored nothing "
          + "(--ephemeral)")
    }
    following = try StoreFollowing(data.storePath)
  }

  // MARK: Names

  /// The topic as tables know it; nil where no app of the service has it.
  package func topic(_ text: String) -> TopicKey? {
    let bytes = Array(text.utf8)
    let suffix = TopicSuffix(of: bytes.span)
    // The whole may be a bundle id that ends like a suffix.
    if let app = directory.app(bundleID: bytes.span) { return TopicKey(app: app.id) }
    let bundle = bytes.dropLast(suffix.text.utf8CodeUnitCount)
    return directory.app(bundleID: Array(bundle).span).map { TopicKey(app: $0.id, suffix: suffix) }
  }

  /// The topic's text; its number where the app was taken out of the directory.
  package func text(_ topic: TopicKey) -> String {
    guard let bytes = directory.topicText(topic) else {
      return "app \(topic.app.rawValue)\(topic.suffix.text)"
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The bundle ids of all apps.
  package var apps: [String] {
    directory.apps.map { String(decoding: $0.bundleID, as: UTF8.self) }.sorted()
  }

  /// What a token leads to; nil where this service did not make it.
  package func claims(of token: DeviceToken) -> TokenClaims? { sealer.open(token) }

  // MARK: Reading

  /// The newest `limit` lines that match, oldest first, of those that came since the last call.
  package func read(_ query: LedgerQuery, limit: Int) throws -> [LedgerRecord] {
    try follower.catchUp()
    var found: [(record: LedgerRecord, index: Int)] = []
    var index = 0
    func keepNewest() {
      found.sort { ($0.record.milliseconds, $0.index) < ($1.record.milliseconds, $1.index) }
      found.removeFirst(max(0, found.count - limit))
    }
    try follower.readLedger(query, from: &position) { record in
      found.append((record, index))
      index += 1
      if limit < .max / 2, found.count >= 2 * limit + 1024 { keepNewest() }
    }
    keepNewest()
    return found.map(\.record)
  }

  /// How often requests were refused for each reason that there was, in the order of Apple's table; as old as
  /// `counters`.
  package func rejections() throws -> [(reason: Reason, number: UInt64)] {
    try follower.catchUp()
    let rows = try follower.readRejections()
    return Reason.allCases.compactMap { reason in
      let number = rows.reduce(0) { $1.reason == reason ? $0 + $1.number : $0 }
      return number > 0 ? (reason, number) : nil
    }
  }

  /// The counters of each topic and environment as they were last written: at most a second ago while the service runs.
  package func counters() throws -> [TopicCounters] {
    try follower.catchUp()
    return try follower.readCounters().map(\.counters).added().sorted { left, right in
      func key(_ counters: TopicCounters) -> (UInt32, UInt8, UInt8) {
        (counters.topic.app.rawValue, counters.topic.suffix.rawValue, counters.environment.rawValue)
      }
      return key(left) < key(right)
    }
  }
}
