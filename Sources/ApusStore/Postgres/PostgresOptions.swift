import ApusLease
package import ApusModel

/// How a store in PostgreSQL behaves.
package struct PostgresOptions: Sendable {
  /// The name of the node among those that use the database: 1 to 40 of a-z, 0-9 and "-".
  package var node = "apus"
  /// The part of a cluster's devices whose rows these are; 0 for a service of its own.
  package var part = 0
  /// The parts of which the opening takes the first that is free, beginning with part 0; nil: `part` alone.
  package var parts: Range<Int>?
  /// What the opening does while another process uses the database; nil if it is refused.
  package var standby: StandbyOptions?
  /// Whether a database without a synchronous standby is good enough. What was accepted can then be lost with its
  /// machine.
  package var allowsSingleServer = false
  /// How far the rows of a part were when they were last seen: a database that is not as far went back in time, and is
  /// refused. Nil if that is not known, or accepted.
  package var seen: @Sendable (_ part: Int) -> DatabaseProgress? = { _ in nil }
  /// Accepts a database that went back: it is in a later era than `seen` from then on.
  package var beginsEraAfter: DatabaseProgress?
  /// Called about once a second with the database's id, the part, and how far its rows are.
  package var onProgress: @Sendable ([UInt8], Int, DatabaseProgress) -> Void = { _, _, _ in }
  /// Milliseconds for which groups wait for a database that does not answer, before they are refused.
  package var holdMilliseconds: Int64 = 5000
  /// Milliseconds for which the opening waits for a database that is not reached, as during a failover.
  package var openingMilliseconds: Int64 = 0
  /// Milliseconds within which the server must answer a short statement.
  package var answerMilliseconds: Int64 = 2000
  /// Milliseconds within which a read must be answered.
  package var readMilliseconds: Int64 = 2000
  /// Connections for reads.
  package var readers = 4
  /// Milliseconds between two renewals of the lease.
  package var renewMilliseconds: Int64 = 1000
  /// Milliseconds for which the lease of another process must stand still before it is taken over.
  package var leaseMilliseconds = Int64(Limits.leaseMilliseconds)
  /// Milliseconds for which a standby sees no connection and no renewal of another node before it takes over: longer
  /// than that node takes to connect again after the database failed over.
  package var absenceMilliseconds: Int64 = 2500
  /// Milliseconds between the first two attempts to reach the database after a fault; doubled for each further one.
  package var retryMilliseconds: Int64 = 100
  /// The longest such pause: the database is used again within this time of its return.
  package var maximumRetryMilliseconds: Int64 = 1000
  /// As for `RocksOptions`.
  package var maximumPendingBytes = 32 * 1024 * 1024
  /// As for `RocksOptions`.
  package var mergeBytes = 4 * 1024 * 1024
  /// Rows of the mailbox that are searched for expired ones per renewal of the lease.
  package var expirySearchRows: Int64 = 20_000
  /// Called first on the commit thread, for per-thread settings.
  package var onThreadStart: @Sendable () -> Void = {}
  /// Called on the store's threads when it fails and recovers: for the log and the operator.
  package var onEvent: @Sendable (StoreEvent) -> Void = { _ in }

  package init() {}

  var leaseRules: LeaseRules {
    LeaseRules(stillMilliseconds: leaseMilliseconds, absenceMilliseconds: absenceMilliseconds)
  }
}

/// How a node waits until it may take the database over.
package struct StandbyOptions: Sendable {
  /// Called when another node is found to have the database, with its name.
  package var onHolder: @Sendable (String) -> Void
  /// Whether to go on waiting, and whether the node may take over now. Asked several times a second.
  package var permission: @Sendable () -> StandbyPermission

  package init(
    onHolder: @escaping @Sendable (String) -> Void = { _ in },
    permission: @escaping @Sendable () -> StandbyPermission
  ) {
    self.onHolder = onHolder
    self.permission = permission
  }
}
