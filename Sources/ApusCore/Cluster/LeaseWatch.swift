import ApusModel

/// A lease's row in the database.
package struct LeaseRow: Sendable, Hashable {
  package enum State: Sendable, Hashable {
    case held
    /// Its incarnation has ended, and has resolved all its writes.
    case released
    case fenced
  }

  package var holder: NodeIncarnation
  /// The renewals.
  package var counter: UInt64
  package var state: State
  /// Whether the node gives its partitions away and takes none.
  package var isDraining: Bool

  package init(
    holder: NodeIncarnation, counter: UInt64 = 0, state: State = .held, isDraining: Bool = false
  ) {
    self.holder = holder
    self.counter = counter
    self.state = state
    self.isDraining = isDraining
  }
}

/// What a node knows of the other nodes' leases from looking at their rows, by its own clock.
///
/// An incarnation may be fenced once its counter stood still for `Limits.leaseMilliseconds` of *observed* time: between
/// looks over one connection that are at most `Limits.leasePollGapMilliseconds` apart. After an outage of the database,
/// or a pause of this node, the count begins again or goes on, but never contains the time in which others could not
/// renew. Rows have no times: after a failover the database has another machine's clock.
///
/// Times are those of a clock that goes on while the machine is suspended (`CLOCK_BOOTTIME`).
package struct LeaseWatch: Sendable {
  package enum Standing: Sendable, Hashable {
    /// Seen, but not seen to renew over this connection: it may be live.
    case unproven
    /// Seen to renew.
    case live
    /// It may be fenced, if its counter still is this one.
    case silent(counter: UInt64)
    /// Released or fenced, for good.
    case over
  }

  private struct Count: Sendable {
    var row: LeaseRow
    var stillMilliseconds: UInt64 = 0
    var hasMoved = false
  }

  private var counts: [NodeName: Count] = [:]
  /// The last look over this connection.
  private var lookedMilliseconds: UInt64?

  package init() {}

  /// The connection is lost, or it is not known whether it is.
  package mutating func disconnected() {
    lookedMilliseconds = nil
    for node in counts.keys {
      counts[node]?.stillMilliseconds = 0
      counts[node]?.hasMoved = false
    }
  }

  /// The answer to a look at all leases.
  ///
  /// - Parameter now: When it came, not when it was asked for: the rows may have changed until then.
  package mutating func observe(_ rows: [LeaseRow], atMilliseconds now: UInt64) {
    let elapsed = lookedMilliseconds.map { now >= $0 ? now - $0 : .max } ?? .max
    lookedMilliseconds = now
    let observed = elapsed <= Limits.leasePollGapMilliseconds ? elapsed : 0
    let before = counts
    counts = [:]
    for row in rows {
      var count = Count(row: row)
      if let old = before[row.holder.node], old.row.holder == row.holder {
        let isStill = old.row.counter == row.counter
        count.stillMilliseconds = isStill ? old.stillMilliseconds + observed : 0
        count.hasMoved = !isStill || old.hasMoved
      }
      counts[row.holder.node] = count
    }
  }

  /// The nodes that have a lease, in the order of their names.
  package var nodes: [NodeName] { counts.keys.sorted() }

  /// The node's lease when it was last seen; nil if it has none.
  package func row(of node: NodeName) -> LeaseRow? { counts[node]?.row }

  /// Nil for an incarnation that is not known: it may have begun after the last look.
  package func standing(of holder: NodeIncarnation) -> Standing? {
    guard let count = counts[holder.node], holder.incarnation <= count.row.holder.incarnation
    else { return nil }
    guard holder == count.row.holder, count.row.state == .held else { return .over }
    if count.stillMilliseconds >= Limits.leaseMilliseconds {
      return .silent(counter: count.row.counter)
    }
    return count.hasMoved ? .live : .unproven
  }
}
