import ApusLoop
import Synchronization

/// Finds out whether all workers of a service go on. A round asks each of them, and is over when all have answered.
final class Heartbeat: Sendable {
  private let missing = Atomic(0)

  /// Begins a round, if the one before is over. Returns whether it was.
  func beat(_ workers: [Worker]) -> Bool {
    guard missing.load(ordering: .acquiring) == 0 else { return false }
    missing.store(workers.count, ordering: .releasing)
    for worker in workers {
      worker.loop.perform { [self] in missing.subtract(1, ordering: .releasing) }
    }
    return true
  }
}
