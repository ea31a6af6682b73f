import ApusCore
import Synchronization

/// The leases of feedback rows, shared by all workers: each row goes to one reader at a time.
final class SharedFeedbackLeases: Sendable {
  private let leases = Mutex(FeedbackLeases())

  func withLeases<Result: Sendable>(_ body: (inout sending FeedbackLeases) -> sending Result)
    -> Result
  {
    leases.withLock { body(&$0) }
  }
}
