/// How much the engine may take, and whom it tells. The defaults suit a service with millions of small rows.
package struct RocksOptions: Sendable {
  /// Bytes of rows in memory that are not yet in a table file, over all families. They are also in the log.
  ///
  /// No larger than a processor's cache: what a put costs is finding its place among them. With 64 MiB a durable
  /// notification cost a third more.
  package var memtableBytes = 24 * 1024 * 1024
  /// Bytes of log that a start may have to read. At the limit the engine writes tables to be rid of the oldest.
  package var logBytes = 128 * 1024 * 1024
  /// Bytes of table blocks kept in memory, next to all of them records of devices: a million with one topic take 80 MB.
  package var blockCacheBytes = 32 * 1024 * 1024
  /// Bytes of the ledger's tables, beyond which the oldest go. Room for what is not counted as lines (tables' own
  /// indexes, and what waits to go with the table it is in) comes on top of what an operator asks for.
  package var ledgerBytes = 1024 * 1024 * 1024
  /// Seconds after which a table of the ledger goes, 0 for never.
  package var ledgerSeconds = 0
  /// Threads that write and merge tables.
  package var backgroundJobs = 2
  /// Bytes of groups that may wait for the commit thread before new ones are refused with `.overloaded`. About a
  /// quarter of a second of the engine's measured rate.
  package var maximumPendingBytes = 32 * 1024 * 1024
  /// Bytes of groups that one sync may cover: bounds how long the first of them waits for the last to be written.
  package var mergeBytes = 4 * 1024 * 1024
  /// Seconds after which a table of the mailbox is rewritten, if nothing else caused it: so much later than its time an
  /// expired notification of a device that stays away is found at the latest. 0: never.
  package var mailboxRewriteSeconds = 24 * 3600
  /// Milliseconds between the first two attempts to recover from a fault; doubled from attempt to attempt.
  package var retryMilliseconds: Int64 = 100
  /// The longest such pause.
  package var maximumRetryMilliseconds: Int64 = 10_000
  /// Milliseconds from one look at the engine's files to the next: where they have grown, how far is noted beside them
  /// (`StoreProgress`).
  package var progressMilliseconds: Int64 = 1000
  /// Whether a store that is there opens although its disk is full, can only be read, or fails when it is written to:
  /// the store can then be read, refuses what is to be written, and takes it once the disk does.
  package var waitsForDisk = false
  /// Whether a damaged store is opened with what can be read of it. Only where the operator has said so.
  package var acceptsLoss = false
  /// Called first of all on the commit thread, to set what belongs to a thread.
  package var onThreadStart: @Sendable () -> Void = {}
  /// Called on the commit thread when the store fails and recovers: for the log and the operator.
  package var onEvent: @Sendable (StoreEvent) -> Void = { _ in }
  /// Called on any thread with what the engine itself has to say, warnings and worse, at most ten in ten seconds.
  package var onMessage: @Sendable (String) -> Void = { _ in }

  package init() {}
}

/// What an operator wants to know of a running store.
package enum StoreEvent: Sendable, Hashable, CustomStringConvertible {
  /// A commit failed; the store takes nothing until `recovered`.
  case failed(StoreError)
  /// An attempt to open the data again failed. Nil: there will be no other, because trying again cannot help.
  case stillFailing(StoreError, retryMilliseconds: Int64?)
  /// The store takes writes again.
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
