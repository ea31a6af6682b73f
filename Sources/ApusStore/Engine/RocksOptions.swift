/// The engine's resources and callbacks. The defaults suit a service with millions of small rows.
package struct RocksOptions: Sendable {
  /// Bytes of rows in memory that are not yet in a table file, over all families. They are also in the log.
  ///
  /// At most the size of a processor's cache: the cost of a put is finding its position. With 64 MiB a durable
  /// notification cost a third more.
  package var memtableBytes = 24 * 1024 * 1024
  /// Bytes of log that a start may have to read. At the limit the engine writes tables so that it can drop the oldest
  /// log.
  package var logBytes = 128 * 1024 * 1024
  /// Bytes of cached table blocks, nearly all of them records of devices: a million with one topic take 80 MB.
  package var blockCacheBytes = 32 * 1024 * 1024
  /// Bytes of the ledger's tables, beyond which the oldest are dropped. This exceeds what an operator requests by room
  /// for what is not counted as lines: the tables' indexes, and rows that are removed only with their table.
  package var ledgerBytes = 1024 * 1024 * 1024
  /// Seconds after which a table of the ledger is dropped, 0 for never.
  package var ledgerSeconds = 0
  /// Threads that write and merge tables.
  package var backgroundJobs = 2
  /// Bytes of groups that may wait for the commit thread before new ones are refused with `.overloaded`. About a
  /// quarter of a second at the engine's measured rate.
  package var maximumPendingBytes = 32 * 1024 * 1024
  /// Bytes of groups that one sync may cover: bounds how long the first of them waits for the last to be written.
  package var mergeBytes = 4 * 1024 * 1024
  /// Seconds after which a table of the mailbox is rewritten, if nothing else caused it: the longest delay until an
  /// expired notification of a device that stays offline is found. 0: never.
  package var mailboxRewriteSeconds = 24 * 3600
  /// Milliseconds between the first two attempts to recover from a fault; doubled for each further attempt.
  package var retryMilliseconds: Int64 = 100
  /// The longest such pause.
  package var maximumRetryMilliseconds: Int64 = 10_000
  /// Milliseconds between checks of the engine's files: if they have grown, their size is recorded beside them
  /// (`StoreProgress`).
  package var progressMilliseconds: Int64 = 1000
  /// Whether an existing store opens although its disk is full, read-only or failing: the store can then be read,
  /// refuses writes, and accepts them once the disk does.
  package var waitsForDisk = false
  /// Whether to open a damaged store with its readable part. Only at the operator's request.
  package var acceptsLoss = false
  /// Called first on the commit thread, for per-thread settings.
  package var onThreadStart: @Sendable () -> Void = {}
  /// Called on the commit thread when the store fails and recovers: for the log and the operator.
  package var onEvent: @Sendable (StoreEvent) -> Void = { _ in }
  /// Called on any thread with the engine's own messages, warnings and worse, at most ten in ten seconds.
  package var onMessage: @Sendable (String) -> Void = { _ in }

  package init() {}
}

/// Events of a running store for an operator.
package enum StoreEvent: Sendable, Hashable, CustomStringConvertible {
  /// A commit failed; the store accepts no writes until `recovered`.
  case failed(StoreError)
  /// An attempt to reopen the store failed. Nil: there will be no further one, because a retry cannot help.
  case stillFailing(StoreError, retryMilliseconds: Int64?)
  /// The store accepts writes again.
  case recovered

  package var description: String {
    switch self {
    case .failed(let error): "takes no writes: \(error)"
    case .stillFailing(let error, let pause?):
      "still takes no writes, and tries again in \(pause) ms: \(error)"
    case .stillFailing(let error, nil):
      "takes no writes until the service starts again: \(error)"
    case .recovered: "takes writes again"
    }
  }
}
