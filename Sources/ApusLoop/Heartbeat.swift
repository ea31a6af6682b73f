import Synchronization

/// Finds out whether several loops go on. A round asks each of them, and is over when all have answered.
package final class Heartbeat: Sendable {
  private let missing = Atomic(0)

  package init() {}

  /// Begins a round, if the one before is over. Returns whether it was.
  package func beat(_ loops: [EventLoop]) -> Bool {
    guard missing.load(ordering: .acquiring) == 0 else { return false }
    missing.store(loops.count, ordering: .releasing)
    for loop in loops { loop.perform { [self] in missing.subtract(1, ordering: .releasing) } }
    return true
  }
}
