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

/// A notification in the spool.
struct SpooledNotification: Sendable {
  var notification: RelayedNotification
  /// Unix milliseconds.
  var acceptedMilliseconds: Int64
  /// The frame that it came with, while its sender may be connected.
  var answer: Answer?
  /// Of its row in the store.
  var byteCount: Int
  /// Whether it was sent upstream before, without an answer: now, or before the service was started.
  var mayHaveArrived: Bool
  /// Whether it was sent since it is in memory.
  var wasSent = false

  var topic: RelayTopic {
    RelayTopic(app: notification.topic.app, environment: notification.environment)
  }

  /// Whether it is not to be sent any more: it has expired, had its one attempt, or waited for too long.
  func isOver(nowMilliseconds: Int64, ageSeconds: Int64) -> Bool {
    if nowMilliseconds - acceptedMilliseconds > ageSeconds * 1000 { return true }
    switch notification.expirationSeconds {
    case nil: return false
    case 0: return wasSent
    case let seconds?: return seconds <= nowMilliseconds / 1000
    }
  }
}

/// What the store has of a topic's notifications.
struct SpoolTotals: Sendable, Hashable {
  var count = 0
  /// Of their rows.
  var byteCount = 0

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
}
