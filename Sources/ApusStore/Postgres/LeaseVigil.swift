/// The row of a lease.
struct PostgresLease: Sendable, Equatable {
  var incarnation: Int64
  var counter: Int64
  var isReleased: Bool
  /// The name of its node.
  var holder = "apus"
}

/// Decides whether the holder of a lease lives, from looking at its row now and then, by one's own clock: after a
/// failover the database's is another one.
struct LeaseVigil: Sendable {
  enum Finding: Sendable, Equatable {
    case free
    case alive
    case unknown
  }

  /// For so long the counter of a process that is gone must stand still.
  private let stillMilliseconds: Int64
  private var last: PostgresLease?
  private var sinceMilliseconds: Int64 = 0
  private var changes = 0

  /// A killed process can leave a renewal that waits for a standby and takes effect later, on each of two connections.
  private static let changesOfDead = 2

  init(stillMilliseconds: Int64) { self.stillMilliseconds = stillMilliseconds }

  mutating func see(_ lease: PostgresLease?, nowMilliseconds now: Int64) -> Finding {
    guard let lease, !lease.isReleased else { return .free }
    if lease != last {
      if last != nil { changes += 1 }
      (last, sinceMilliseconds) = (lease, now)
      return changes > Self.changesOfDead ? .alive : .unknown
    }
    return now - sinceMilliseconds >= stillMilliseconds ? .free : .unknown
  }

  /// For how long the lease has looked as it does now.
  func stillMilliseconds(nowMilliseconds now: Int64) -> Int64 { now - sinceMilliseconds }

  /// Counts changes anew: the holder was found alive, and may die later.
  mutating func restart() { changes = 0 }
}
