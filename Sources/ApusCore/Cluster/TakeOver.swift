import ApusModel

/// Takes the partitions of an incarnation that is silent or over, or of nobody.
///
/// The law: *no write of an old owner takes effect after the first read of the new one*. So
///
/// 1. one transaction fences the lease, if its counter still is the one that was seen, and then every lane of the
///    incarnation; it waits for the groups of writes that are in progress on them;
/// 2. once its COMMIT is acknowledged, and not before, a new statement reads the partitions' rows;
/// 3. the partitions that this node should own are claimed with the next epoch, through a lane of this node, each only
///    if its row is still the one that was read: of two nodes, one at most gets it;
/// 4. the driver reads the devices of what it got.
///
/// A node that was paused in the middle of a group holds its locks. While the fence waits for them, the connections of
/// the incarnation are terminated. The fence is a transaction of its own even if the incarnation is fenced already:
/// another node's may be visible and lost with the next failover.
///
/// The driver calls ``next(atMilliseconds:)`` until it returns `wait` or `ended`. It may drop the value at any time,
/// and begin again later. Times are those of a clock that goes on while the machine is suspended.
package struct TakeOver: Sendable {
  package enum Action: Sendable, Hashable {
    /// Run the fencing transaction: the lease's row first, if it is fenced, released or of a later incarnation already,
    /// or if its counter is this one; nil: only if it is over already. It must write in any case, so that its COMMIT
    /// waits for a standby.
    case fence(NodeIncarnation, counter: UInt64?)
    /// Over another connection, terminate the connections of the incarnation. There is no answer.
    case terminate(NodeIncarnation)
    /// Read the rows of all partitions, in a new statement.
    case read
    /// Through a lane: change the rows that are still as given to this node and the next epoch.
    case claim([PartitionClaim])
    /// Resolve the lane of the claims, so that they have taken effect or never will.
    case resolve
    /// Nothing before that time; nil: before something happens.
    case wait(untilMilliseconds: UInt64?)
    case ended(Outcome)
  }

  package enum Outcome: Sendable, Hashable {
    /// What this node got has its name in the partitions' rows.
    case finished
    /// The incarnation has renewed its lease.
    case alive
  }

  private enum Phase: Sendable {
    case fence, fencing, read, reading
    case claim([PartitionClaim])
    case claiming, resolve, resolving
    case ended(Outcome)
  }

  /// Nil: partitions that have no owner yet.
  package let owner: NodeIncarnation?
  private let counter: UInt64?
  private var phase: Phase
  /// Not before that time.
  private var dueMilliseconds: UInt64 = 0

  /// - Parameter counter: The counter that stood still; nil if the incarnation is over.
  package init(of owner: NodeIncarnation?, ifStillAt counter: UInt64? = nil) {
    self.owner = owner
    self.counter = counter
    phase = owner == nil ? .read : .fence
  }

  // MARK: What happened

  /// The COMMIT of the fence is acknowledged.
  package mutating func fenced() {
    if case .fencing = phase { advance(to: .read) }
  }

  /// The fence has found another counter.
  package mutating func foundAlive() {
    if case .fencing = phase { phase = .ended(.alive) }
  }

  /// The partitions' rows are read, and noted in the map.
  package mutating func read(_ map: PartitionMap, placement: Placement, own: NodeIncarnation) {
    guard case .reading = phase else { return }
    let claims = map.partitions.compactMap { partition -> PartitionClaim? in
      guard let row = map[partition], row.owner == owner, placement.node(for: partition) == own.node
      else { return nil }
      return PartitionClaim(partition: partition, row: row)
    }
    advance(to: claims.isEmpty ? .ended(.finished) : .claim(claims))
  }

  /// The claims are committed, those whose rows had not changed. The driver has noted their new rows in the map.
  package mutating func claimed() {
    if case .claiming = phase { phase = .ended(.finished) }
  }

  /// The outcome of the claims is known: the rows say it.
  package mutating func resolved() {
    if case .resolving = phase { advance(to: .read) }
  }

  /// What was in progress has failed, or its outcome is unknown.
  package mutating func failed(atMilliseconds now: UInt64) {
    let again: Phase? =
      switch phase {
      case .fencing: .fence
      case .reading: .read
      // Rows that are read before the claims can no longer take effect say nothing.
      case .claiming, .resolving: .resolve
      case .fence, .read, .claim, .resolve, .ended: nil
      }
    guard let again else { return }
    phase = again
    dueMilliseconds = now + Limits.clusterRetryMilliseconds
  }

  private mutating func advance(to next: Phase) { (phase, dueMilliseconds) = (next, 0) }

  // MARK: What to do

  /// What to do next.
  package mutating func next(atMilliseconds now: UInt64) -> Action {
    if case .ended(let outcome) = phase { return .ended(outcome) }
    guard now >= dueMilliseconds else { return .wait(untilMilliseconds: dueMilliseconds) }
    switch phase {
    case .fence:
      guard let owner else { break }
      phase = .fencing
      dueMilliseconds = now + Limits.fencePatienceMilliseconds
      return .fence(owner, counter: counter)
    case .fencing:
      guard let owner else { break }
      dueMilliseconds = now + Limits.fencePatienceMilliseconds
      return .terminate(owner)
    case .read:
      phase = .reading
      return .read
    case .claim(let claims):
      phase = .claiming
      return .claim(claims)
    case .resolve:
      phase = .resolving
      return .resolve
    case .reading, .claiming, .resolving, .ended: break
    }
    return .wait(untilMilliseconds: nil)
  }
}

/// A partition that a node wants to own, if its row is still this one.
package struct PartitionClaim: Sendable, Hashable {
  package let partition: Partition
  package let row: PartitionRow

  package init(partition: Partition, row: PartitionRow) {
    self.partition = partition
    self.row = row
  }

  /// The row that the claim writes.
  package func row(for own: NodeIncarnation) -> PartitionRow {
    PartitionRow(owner: own, epoch: row.epoch.next)
  }
}
