import ApusCore
import ApusModel
import ApusServer

/// The notifications of one app in one environment.
struct RelayTopic: Sendable, Hashable, Comparable {
  var app: AppID
  var environment: Environment

  static func < (left: Self, right: Self) -> Bool {
    (left.app.rawValue, left.environment.rawValue)
      < (right.app.rawValue, right.environment.rawValue)
  }
}

extension RelayTopic {
  init(_ notification: RelayedNotification) {
    self.init(app: notification.topic.app, environment: notification.environment)
  }
}

/// A notification in the spool.
struct SpooledNotification: Sendable {
  var notification: RelayedNotification
  /// Unix milliseconds.
  var acceptedMilliseconds: Int64
  var interface: ProviderInterface
  /// The frame that it came with, while its sender may be connected.
  var answer: Answer?
  /// Of its row in the store.
  var byteCount: Int
  /// Whether it was sent upstream before, without an answer: now, or before the service was started.
  var mayHaveArrived: Bool
  /// Whether it was sent since it is in memory.
  var wasSent = false
  /// Why upstream has rejected it, while its provider is being told.
  var cause: UpstreamCause?

  var topic: RelayTopic { RelayTopic(notification) }

  /// Its end if it is not to be sent any more: it has expired, had its one attempt, or waited for too long.
  func end(nowMilliseconds: Int64, ageSeconds: Int64) -> SpoolEnd? {
    if nowMilliseconds - acceptedMilliseconds > ageSeconds * 1000 { return .tooOld }
    switch notification.expirationSeconds {
    case nil: return nil
    case 0: return wasSent ? .expired : nil
    case let seconds?: return seconds <= nowMilliseconds / 1000 ? .expired : nil
    }
  }

  /// - Parameter order: Of acceptance.
  func facts(_ order: UInt64) -> NotificationFacts { notification.facts(order, interface) }
}

/// A notification whose row is being written, and who waits for that.
struct UnwrittenNotification: Sendable {
  var order: UInt64
  var spooled: SpooledNotification
  var waiter: KeptNotification.Waiter
}

/// What the store has of a topic's notifications.
struct SpoolTotals: Sendable, Hashable {
  var count = 0
  /// Of their rows.
  var byteCount = 0
  /// Whether the topic's `ConfigurationAlarm` is raised.
  var isInDoubt = false

  mutating func add(_ byteCount: Int) {
    count += 1
    self.byteCount += byteCount
  }

  mutating func remove(_ byteCount: Int) {
    count -= 1
    self.byteCount -= byteCount
  }
}

extension KeptNotification.Waiter {
  var frame: Answer? {
    if case .frame(let answer) = self { answer } else { nil }
  }

  var interface: ProviderInterface { frame == nil ? .http2 : .binary }
}
