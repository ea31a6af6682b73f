import ApusModel
import Synchronization

/// Notifications that wait to be filled again, for all workers: one that reads what providers send takes them, and the
/// owners of the devices are left with them.
///
/// They go in and out by the batch, so that a worker looks here once for many notifications.
final class NotificationPool: Sendable {
  /// Notifications of a batch.
  static let batchCount = 256
  /// Batches that are kept; what comes beyond them is freed.
  private static let capacity = 32

  private let batches = Mutex<[[Notification]]>([])

  func put(_ batch: [Notification]) {
    batches.withLock { batches in
      if batches.count < Self.capacity { batches.append(batch) }
    }
  }

  /// Frees all of them.
  func clear() { batches.withLock { $0 = [] } }

  /// Nil where there is none.
  func take() -> [Notification]? { batches.withLock { $0.popLast() } }
}
