import ApusCore
import Synchronization

/// Who reads which feedback list at the moment, over all workers: a row goes to one reader at a time.
final class FeedbackDesk: Sendable {
  private let leases = Mutex(FeedbackLeases())

  func withLeases<Result: Sendable>(_ body: (inout sending FeedbackLeases) -> sending Result)
    -> Result
  {
    leases.withLock { body(&$0) }
  }
}
