import ApusModel

/// Decides whether the holder of a lease lives, from looking at its row now and then, by one's own clock: after a
/// failover the database's is another one.
///
/// Only observed time counts, between looks that are at most `Limits.leasePollGapMilliseconds` apart: while the
/// database did not answer, or this process was stopped, the holder may have been kept from renewing as well.
package struct LeaseVigil: Sendable {
  package enum Finding: Sendable, Equatable {
    case free
    case alive
    case unknown
  }

  /// For so long the counter of a process that is gone must stand still.
  private let stillMilliseconds: Int64
  private var last: Lease?
  private var lookedMilliseconds: Int64?
  private var changes = 0
  /// For how long the lease was seen as it is.
  package private(set) var observedMilliseconds: Int64 = 0

  /// A killed process can leave a renewal that waits for a standby and takes effect later, on each of two connections.
  private static let changesOfDead = 2

  package init(stillMilliseconds: Int64) { self.stillMilliseconds = stillMilliseconds }

  package mutating func see(_ lease: Lease?, nowMilliseconds now: Int64) -> Finding {
    let elapsed = lookedMilliseconds.map { now - $0 } ?? 0
    lookedMilliseconds = now
    guard let lease, !lease.isReleased else { return .free }
    if lease != last {
      if last != nil { changes += 1 }
      (last, observedMilliseconds) = (lease, 0)
      return changes > Self.changesOfDead ? .alive : .unknown
    }
    if elapsed <= Int64(Limits.leasePollGapMilliseconds) { observedMilliseconds += elapsed }
    return observedMilliseconds >= stillMilliseconds ? .free : .unknown
  }

  /// Counts changes anew: the holder was found alive, and may die later.
  package mutating func restart() { changes = 0 }
}
