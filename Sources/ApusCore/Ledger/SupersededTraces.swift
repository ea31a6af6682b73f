package import ApusModel

/// One change to the store's traces of superseded notifications.
package struct SupersededTrace: Sendable, Equatable {
  package var facts: NotificationFacts
  /// Whether the store should keep a trace of the notification or remove it.
  package var isKept: Bool

  package init(facts: NotificationFacts, isKept: Bool) {
    self.facts = facts
    self.isKept = isKept
  }
}

/// Decides which superseded notifications the store keeps a trace of.
///
/// A connected device may still acknowledge a notification whose slot in the store was taken by a newer one. Only the
/// session has such a notification, and a crash ends it. Its provider was answered, so the store keeps its identity
/// until it ends: the next start finds the trace and records the notification's final state.
///
/// A trace is written with the group that takes the slot, and removed with the first group after the notification
/// ends.
struct SupersededTraces {
  /// In order; the next group writes them.
  private var changes: [SupersededTrace] = []
  /// Those of the group being written, without the expected ones.
  private var written: [SupersededTrace] = []
  /// Notifications that the group being written supersedes, unless they end first.
  private var expected: [UInt64: NotificationFacts] = [:]
  /// Notifications that the group being written removes from the store and that are not in the session of their
  /// connected device.
  private var leaving: Set<UInt64> = []

  /// The group about to be written supersedes the notification.
  mutating func expect(_ facts: NotificationFacts) { expected[facts.order] = facts }

  /// The group about to be written replaces a notification that is only stored, and its device is connected.
  mutating func leave(_ order: UInt64) { leaving.insert(order) }

  /// Whether the group being written ends the notification: a drain must no longer return it.
  func isLeaving(_ order: UInt64) -> Bool { !leaving.isEmpty && leaving.contains(order) }

  /// Whether the group being written was expected to supersede the notification.
  func isExpected(_ order: UInt64) -> Bool { !expected.isEmpty && expected[order] != nil }

  /// The group was written and has superseded the notification.
  mutating func confirm(_ order: UInt64) { expected[order] = nil }

  /// The notification turns out to have been superseded by an earlier group.
  mutating func keep(_ facts: NotificationFacts) {
    changes.append(SupersededTrace(facts: facts, isKept: true))
  }

  /// A superseded notification ended.
  mutating func remove(_ facts: NotificationFacts) {
    changes.append(SupersededTrace(facts: facts, isKept: false))
  }

  /// Calls `body` with each change that belongs to the group.
  mutating func seal(_ body: (SupersededTrace) -> Void) {
    guard !changes.isEmpty || !expected.isEmpty else { return }
    for change in changes { body(change) }
    for facts in expected.values { body(SupersededTrace(facts: facts, isKept: true)) }
    swap(&written, &changes)
  }

  /// The group was written or failed, and everything that it superseded is confirmed.
  mutating func committed(succeeded: Bool) {
    // What a failed group left is unknown, so its changes are repeated.
    if !succeeded, !written.isEmpty { changes.insert(contentsOf: written, at: 0) }
    if !written.isEmpty { written.removeAll(keepingCapacity: true) }
    if !leaving.isEmpty { leaving.removeAll(keepingCapacity: true) }
    guard !expected.isEmpty else { return }
    for facts in expected.values { remove(facts) }
    expected.removeAll(keepingCapacity: true)
  }
}
