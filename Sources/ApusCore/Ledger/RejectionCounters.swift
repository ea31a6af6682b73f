package import ApusModel

/// Counts rejected requests by reason. They were never accepted, so no balance includes them.
package struct RejectionCounters: Sendable {
  private var numbers = [UInt64](repeating: 0, count: Reason.allCases.count)
  private var changed: Set<Reason> = []

  package init() {}

  package var hasChanged: Bool { !changed.isEmpty }

  package subscript(reason: Reason) -> UInt64 { numbers[Int(reason.rawValue)] }

  package mutating func count(_ reason: Reason) { add(1, to: reason) }

  /// Restores the value of an earlier run. Unlike `add`, it counts as written.
  package mutating func restore(_ number: UInt64, of reason: Reason) {
    numbers[Int(reason.rawValue)] &+= number
  }

  package mutating func add(_ number: UInt64, to reason: Reason) {
    numbers[Int(reason.rawValue)] &+= number
    changed.insert(reason)
  }

  /// Calls `body` with each reason whose number changed since the last call.
  package mutating func takeChanged(_ body: (Reason, UInt64) -> Void) {
    for reason in changed { body(reason, self[reason]) }
    changed.removeAll(keepingCapacity: true)
  }

  /// Marks all as changed: what was taken was not written.
  package mutating func markAllChanged() {
    for reason in Reason.allCases where self[reason] > 0 { changed.insert(reason) }
  }
}
