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

/// A notification in the spool. Confined to the spool's loop.
final class SpooledNotification {
  /// Of acceptance.
  let order: UInt64
  let notification: RelayedNotification
  /// Unix milliseconds.
  let acceptedMilliseconds: Int64
  let interface: ProviderInterface
  /// What ledger and counters record.
  let facts: NotificationFacts
  /// The frame that it came with, while its sender may be connected.
  var answer: Answer?
  /// Of its row in the store.
  var byteCount: Int
  /// Whether it was sent upstream before, without an answer: now, or before the service was started.
  var mayHaveArrived = false
  /// When it was last sent since it is in memory, by the loop's clock.
  var sentMilliseconds: UInt64?
  /// Why upstream has rejected it, while its provider is being told.
  var cause: UpstreamCause?

  init(
    _ notification: RelayedNotification, order: UInt64, acceptedMilliseconds: Int64,
    interface: ProviderInterface, answer: Answer?, byteCount: Int
  ) {
    self.order = order
    self.notification = notification
    self.acceptedMilliseconds = acceptedMilliseconds
    self.interface = interface
    self.answer = answer
    self.byteCount = byteCount
    facts = notification.facts(order, interface)
  }

  var topic: RelayTopic { RelayTopic(notification) }

  /// Its end if it is not to be sent any more: it has expired, had its one attempt, or waited for too long.
  func end(nowMilliseconds: Int64, ageSeconds: Int64) -> SpoolEnd? {
    if nowMilliseconds - acceptedMilliseconds > ageSeconds * 1000 { return .tooOld }
    switch notification.expirationSeconds {
    case nil: return nil
    case 0: return sentMilliseconds == nil ? nil : .expired
    case let seconds?: return seconds <= nowMilliseconds / 1000 ? .expired : nil
    }
  }
}

/// A notification whose row is being written, and who waits for that.
struct UnwrittenNotification {
  var spooled: SpooledNotification
  var lane: SpoolLane
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
  var interface: ProviderInterface { frame == nil ? .http2 : .binary }
}
