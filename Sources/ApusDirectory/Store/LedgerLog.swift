import ApusCore
package import ApusModel
import ApusStore
import ApusTrust
import Glibc

/// Reads the ledger of a data directory, which shows what happened to notifications, with or without a running service.
package final class LedgerLog {
  private let directory: Directory
  private let sealer: TokenSealer
  /// Whether an app has an upstream, whose device tokens are in the ledger as well.
  package let hasUpstreams: Bool
  private let following: StoreFollowing
  private var follower: any StoreFollower { following.store }
  private var position = LedgerPosition()

  /// - Throws: Why the directory or its store cannot be read, for the operator.
  package init(_ data: DataDirectory) throws {
    let trust = try data.trust(generation: 1, allowsES512: false)
    directory = trust.directory
    sealer = TokenSealer(trust.sealingKeys)
    hasUpstreams = !trust.upstreams.isEmpty
    guard try data.storePlace() != nil else {
      throw DirectoryProblem(
        "\(data.path) has no ledger: no service has run there, or only one that stored nothing "
          + "(--ephemeral)")
    }
    following = try data.followStore()
  }

  // MARK: Names

  /// The key of a topic; nil if it belongs to no app of the service.
  package func topic(_ text: String) -> TopicKey? {
    let bytes = Array(text.utf8)
    let suffix = TopicSuffix(of: bytes.span)
    // A bundle id may itself end in a topic suffix.
    if let app = directory.app(bundleID: bytes.span) { return TopicKey(app: app.id) }
    let bundle = bytes.dropLast(suffix.text.utf8CodeUnitCount)
    return directory.app(bundleID: Array(bundle).span).map { TopicKey(app: $0.id, suffix: suffix) }
  }

  /// The text of a topic, or the app's number if the app was removed from the directory.
  package func text(_ topic: TopicKey) -> String {
    guard let bytes = directory.topicText(topic) else {
      return "app \(topic.app.rawValue)\(topic.suffix.text)"
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The bundle ids of all apps, sorted.
  package var apps: [String] {
    directory.apps.map { String(decoding: $0.bundleID, as: UTF8.self) }.sorted()
  }

  /// What a device token identifies; nil if this service did not issue it.
  package func claims(of token: DeviceToken) -> TokenClaims? { sealer.open(token) }

  // MARK: Channels

  /// What happened on a channel, or on all channels of an app, on one day.
  package struct ChannelDay {
    /// Days since 1970-01-01, in UTC.
    package var day: Int64
    package var app: AppID
    package var environment: Environment
    /// The id in base64; nil for all channels of the app.
    package var channel: String?
    package var figures: ChannelFigures
  }

  /// All days, the oldest first.
  package func channelDays() throws -> [ChannelDay] {
    try follower.catchUp()
    var days: [ChannelDay] = []
    try follower.forEachChannelDay { key, figures in
      days.append(
        ChannelDay(
          day: Int64(key.day), app: key.app, environment: key.environment,
          channel: key.channel?.text, figures: figures))
    }
    return days
  }

  // MARK: Reading

  /// The newest `limit` matching lines since the last call, oldest first.
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

  /// The number of rejected requests for each reason that occurred, in the order of Apple's table; as old as
  /// ``counters()``.
  package func rejections() throws -> [(reason: Reason, number: UInt64)] {
    try follower.catchUp()
    let rows = try follower.readRejections()
    return Reason.allCases.compactMap { reason in
      let number = rows.reduce(0) { $1.reason == reason ? $0 + $1.number : $0 }
      return number > 0 ? (reason, number) : nil
    }
  }

  /// The counters of each topic and environment as last written: at most a second old while the service runs.
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
