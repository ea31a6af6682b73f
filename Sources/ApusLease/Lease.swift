import ApusModel

/// The row of a lease: which process decides about a part of a cluster's devices, and writes its rows.
package struct Lease: Sendable, Equatable {
  package var incarnation: Int64
  /// Grows with each renewal.
  package var counter: Int64
  package var isReleased: Bool
  /// The name of its node.
  package var holder: String

  package init(
    incarnation: Int64, counter: Int64, isReleased: Bool = false, holder: String = "apus"
  ) {
    self.incarnation = incarnation
    self.counter = counter
    self.isReleased = isReleased
    self.holder = holder
  }
}

/// For how long a lease holds that is not renewed.
package struct LeaseRules: Sendable {
  /// Milliseconds for which its counter must stand still before another process takes it over.
  package var stillMilliseconds: Int64
  /// The same for the process of another node that has no connection to the database: longer than it takes to connect
  /// again after a failover. That of one's own node is gone with its connections.
  package var absenceMilliseconds: Int64

  package init(stillMilliseconds: Int64, absenceMilliseconds: Int64) {
    self.stillMilliseconds = stillMilliseconds
    self.absenceMilliseconds = absenceMilliseconds
  }

  /// Milliseconds after a renewal was sent for which no other process takes over, less a margin.
  package var validMilliseconds: UInt64 {
    let patience = min(stillMilliseconds, absenceMilliseconds)
    return UInt64(max(0, patience - Int64(Limits.leaseMarginMilliseconds)))
  }
}
