/// Decides which of several leases a process takes, from looking at all of them again and again: the first that is
/// free, and its node's former one before any other.
///
/// In each round, every lease is shown to ``see(_:at:nowMilliseconds:)``, and then ``decide(mayTake:)`` is asked.
package struct LeaseSearch: Sendable {
  package enum Decision: Sendable, Equatable {
    /// The lease at this place, if it still is as it was seen; nil if nobody ever had it.
    case take(place: Int, seen: Lease?)
    /// Give back what an earlier process of this node had, before another lease is taken: its part's database is away.
    case giveBack(place: Int, seen: Lease)
    /// Look again. With the names of all nodes that have leases, once each was found alive.
    case wait(holders: [String])
    /// A living process is in the way, and will be: that of this node.
    case refused(by: String)
  }

  private enum Finding: Equatable {
    /// It is not known whether its process lives.
    case unknown
    case held
    case free
    /// Free, but the part's database is away.
    case away
  }

  private struct Place {
    var vigil: LeaseVigil
    var seen: Lease?
    var finding = Finding.unknown
    /// The node that was last found alive with it.
    var holder: String?
  }

  private let node: String
  /// Whether the process waits for other nodes to go.
  private let standsBy: Bool
  private let rules: LeaseRules
  private var places: [Place]

  /// - Parameter count: The number of leases.
  package init(node: String, standsBy: Bool, count: Int, _ rules: LeaseRules) {
    self.node = node
    self.standsBy = standsBy
    self.rules = rules
    places = (0..<count).map { _ in
      Place(vigil: LeaseVigil(stillMilliseconds: rules.stillMilliseconds))
    }
  }

  /// Returns whether it matters now how many connections the lease's process has: if none, ``isGone(at:)``.
  package mutating func see(
    _ lease: Lease?, at place: Int, nowMilliseconds: Int64
  ) -> Bool {
    places[place].seen = lease
    switch places[place].vigil.see(lease, nowMilliseconds: nowMilliseconds) {
    case .free:
      places[place].finding = .free
      return false
    case .alive:
      places[place].finding = .held
      places[place].holder = lease?.holder
      places[place].vigil.restart()
      return false
    case .unknown:
      places[place].finding = .unknown
      // That of another node may be about to connect again.
      return lease?.holder == node
        || places[place].vigil.observedMilliseconds >= rules.absenceMilliseconds
    }
  }

  /// The process of the lease that was just seen has no connection to the database.
  package mutating func isGone(at place: Int) { places[place].finding = .free }

  /// What the lease that was just seen is for cannot be used: nobody can say whether its process has a connection, and
  /// it is not taken.
  package mutating func isAway(at place: Int) {
    if places[place].finding == .free { places[place].finding = .away }
  }

  /// - Parameter mayTake: Whether the node may serve now.
  package func decide(mayTake: Bool) -> Decision {
    let held = places.filter { $0.finding == .held }
    if let obstacle = held.compactMap(\.holder).first(where: { !standsBy || $0 == node }) {
      return .refused(by: obstacle)
    }
    // A process of this node may still have a lease.
    let mayRunTwice = places.contains { $0.finding == .unknown && $0.seen?.holder == node }
    let free = places.indices.filter { places[$0].finding == .free }
    // After a crash a node goes on with what it had.
    if mayTake, !mayRunTwice,
      let place = free.first(where: { places[$0].seen?.holder == node }) ?? free.first
    {
      for (own, other) in places.enumerated() where other.finding == .away {
        if let seen = other.seen, seen.holder == node, !seen.isReleased {
          return .giveBack(place: own, seen: seen)
        }
      }
      return .take(place: place, seen: places[place].seen)
    }
    let holders = places.compactMap(\.holder)
    return .wait(holders: held.isEmpty || holders.count < places.count ? [] : holders)
  }
}
