package import ApusModel

/// One change to what the store knows of superseded notifications.
package struct SupersededTrace: Sendable, Equatable {
  package var facts: NotificationFacts
  /// Whether the store is to keep a trace of the notification, or to remove it.
  package var isKept: Bool

  package init(facts: NotificationFacts, isKept: Bool) {
    self.facts = facts
    self.isKept = isKept
  }
}

/// Decides which superseded notifications the store keeps a trace of.
///
/// A connected device may still acknowledge a notification whose slot in the store a newer one has taken. Only the
/// session has such a notification, and a crash ends it. Its provider was answered, so the store keeps its identity
/// until it ends: the next start finds the trace, and gives the notification its last state.
///
/// A trace is written with the group that takes the slot, and removed with the first group after the end.
struct SupersededTraces {
  /// In their order; the next group writes them.
  private var changes: [SupersededTrace] = []
  /// Those of the group that is being written, without the expected ones.
  private var written: [SupersededTrace] = []
  /// What the group that is being written supersedes, unless it ends before.
  private var expected: [UInt64: NotificationFacts] = [:]
  /// What the group that is being written takes from the store, of devices that are connected and do not have it.
  private var leaving: Set<UInt64> = []

  /// The group that is about to be written supersedes the notification.
  mutating func expect(_ facts: NotificationFacts) { expected[facts.order] = facts }

  /// The group that is about to be written replaces a notification that is stored alone, and its device is connected.
  mutating func leave(_ order: UInt64) { leaving.insert(order) }

  /// Whether the group that is being written ends the notification: a drain must not bring it any more.
  func isLeaving(_ order: UInt64) -> Bool { !leaving.isEmpty && leaving.contains(order) }

  /// Whether the group that is being written was expected to supersede the notification.
  func isExpected(_ order: UInt64) -> Bool { !expected.isEmpty && expected[order] != nil }

  /// The group is written, and has superseded the notification.
  mutating func confirm(_ order: UInt64) { expected[order] = nil }

  /// The notification turns out to be superseded by a group that was written earlier.
  mutating func keep(_ facts: NotificationFacts) {
    changes.append(SupersededTrace(facts: facts, isKept: true))
  }

  /// A superseded notification has ended.
  mutating func remove(_ facts: NotificationFacts) {
    changes.append(SupersededTrace(facts: facts, isKept: false))
  }

  /// Calls `body` with each change that goes into the group.
  mutating func seal(_ body: (SupersededTrace) -> Void) {
    guard !changes.isEmpty || !expected.isEmpty else { return }
    for change in changes { body(change) }
    for facts in expected.values { body(SupersededTrace(facts: facts, isKept: true)) }
    swap(&written, &changes)
  }

  /// The group was written or could not be, and everything that it superseded is confirmed.
  mutating func committed(succeeded: Bool) {
    // Nobody can tell what a failed group left, so its changes are repeated.
    if !succeeded, !written.isEmpty { changes.insert(contentsOf: written, at: 0) }
    if !written.isEmpty { written.removeAll(keepingCapacity: true) }
    if !leaving.isEmpty { leaving.removeAll(keepingCapacity: true) }
    guard !expected.isEmpty else { return }
    for facts in expected.values { remove(facts) }
    expected.removeAll(keepingCapacity: true)
  }
}
