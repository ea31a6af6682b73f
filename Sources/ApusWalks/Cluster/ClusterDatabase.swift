import ApusCore
import ApusModel

/// What nodes ask of the database.
enum ClusterStatement {
  /// Takes the lease and the lanes of a node for a new incarnation.
  case register
  case renew
  case drain
  case release
  /// Reads all leases and the partitions' rows.
  case look
  case fence(NodeIncarnation, counter: UInt64?)
  case terminate(NodeIncarnation)
  /// Reads the partitions' rows.
  case read
  /// Reads the devices of a partition.
  case load(Partition, Epoch)
  /// Begins a new session of a lane: writes of earlier ones no longer take effect.
  case open(lane: Int)
  case group(ClusterGroup)
}

/// A group of writes on a lane.
struct ClusterGroup {
  enum Content {
    case record(Partition, Epoch)
    case claim([PartitionClaim])
    case handOver(HandOver)

    func isRecord(of partition: Partition) -> Bool {
      if case .record(partition, _) = self { true } else { false }
    }
  }

  let lane: Int
  let session: UInt64
  let number: UInt64
  let content: Content
}

enum ClusterAnswer {
  case done
  /// The node is fenced, or a later incarnation has its place.
  case fenced
  /// The incarnation to be fenced has renewed its lease; or a row is not as it should be.
  case refused
  case view([LeaseRow], [Partition: PartitionRow])
  case opened(session: UInt64, group: UInt64)
  /// The connection is lost, and the statement takes effect, has done so, or never will.
  case unknown
}

/// The rows of the cluster, and the locks on lanes. Statements take effect at once, except groups: they hold their
/// lane from their first statement to their commit.
struct ClusterDatabase {
  enum Progress {
    case blocked
    /// Of a group: `commit` or `abort` follows.
    case locked
    case answered(ClusterAnswer)
  }

  private struct Lane {
    var incarnation: Incarnation
    var session: UInt64 = 0
    var group: UInt64 = 0
    var isFenced = false
    /// The request that holds it, and the group before it.
    var lock: (request: Int, group: UInt64)?
  }

  static let lanes = 2

  let canary: ClusterCanary?
  var laws = ClusterLaws()
  private(set) var leases: [NodeName: LeaseRow] = [:]
  private(set) var partitions: [Partition: PartitionRow]
  private var lanes: [NodeName: [Lane]] = [:]

  init(partitions: [Partition], canary: ClusterCanary?) {
    self.partitions = Dictionary(uniqueKeysWithValues: partitions.map { ($0, PartitionRow()) })
    self.canary = canary
  }

  /// Whether the incarnation holds its lease.
  func holds(_ node: NodeIncarnation) -> Bool {
    leases[node.node].map { $0.holder == node && $0.state == .held } ?? false
  }

  private func isLocked(_ node: NodeName) -> Bool {
    lanes[node]?.contains { $0.lock != nil } ?? false
  }

  // MARK: Statements

  mutating func execute(
    _ statement: ClusterStatement, by sender: NodeIncarnation, request: Int
  ) -> Progress {
    switch statement {
    case .register: return register(sender)
    case .renew:
      guard holds(sender) else { return .answered(.fenced) }
      leases[sender.node]?.counter += 1
      return .answered(.done)
    case .drain:
      if holds(sender) { leases[sender.node]?.isDraining = true }
      return .answered(.done)
    case .release:
      guard holds(sender) else { return .answered(.fenced) }
      guard !isLocked(sender.node) else { return .blocked }
      leases[sender.node]?.state = .released
      fenceLanes(of: sender)
      return .answered(.done)
    case .look, .read: return .answered(.view(Array(leases.values), partitions))
    case .fence(let node, let counter): return fence(node, counter)
    case .terminate: return .answered(.done)
    case .load(let partition, let epoch):
      guard partitions[partition] == PartitionRow(owner: sender, epoch: epoch) else {
        return .answered(.refused)
      }
      laws.noteRead(partition, epoch)
      return .answered(.done)
    case .open(let lane): return open(lane, sender)
    case .group(let group): return begin(group, sender, request)
    }
  }

  private mutating func register(_ sender: NodeIncarnation) -> Progress {
    if let row = leases[sender.node],
      row.state == .held || row.holder.incarnation >= sender.incarnation
    {
      return .answered(.refused)
    }
    guard !isLocked(sender.node) else { return .blocked }
    leases[sender.node] = LeaseRow(holder: sender)
    let lane = Lane(incarnation: sender.incarnation)
    lanes[sender.node] = [Lane](repeating: lane, count: Self.lanes)
    return .answered(.done)
  }

  private mutating func fence(_ node: NodeIncarnation, _ counter: UInt64?) -> Progress {
    guard let row = leases[node.node], row.holder.incarnation >= node.incarnation else {
      return .answered(.refused)
    }
    guard row.holder == node else { return .answered(.done) }
    guard row.state != .held || row.counter == counter || canary == .fencesWithoutCounter else {
      return .answered(.refused)
    }
    guard !isLocked(node.node) else { return .blocked }
    leases[node.node]?.state = .fenced
    fenceLanes(of: node)
    return .answered(.done)
  }

  private mutating func fenceLanes(of node: NodeIncarnation) {
    for lane in 0..<Self.lanes where lanes[node.node]?[lane].incarnation == node.incarnation {
      lanes[node.node]?[lane].isFenced = true
    }
  }

  private mutating func open(_ number: Int, _ sender: NodeIncarnation) -> Progress {
    guard let lane = lanes[sender.node]?[number], lane.incarnation == sender.incarnation,
      !lane.isFenced
    else { return .answered(.fenced) }
    guard lane.lock == nil else { return .blocked }
    lanes[sender.node]?[number].session += 1
    return .answered(.opened(session: lane.session + 1, group: lane.group))
  }

  // MARK: Groups

  private mutating func begin(
    _ group: ClusterGroup, _ sender: NodeIncarnation, _ request: Int
  ) -> Progress {
    guard let lane = lanes[sender.node]?[group.lane], lane.incarnation == sender.incarnation else {
      return .answered(.fenced)
    }
    guard lane.lock == nil else { return .blocked }
    guard !lane.isFenced else { return .answered(.fenced) }
    guard lane.session == group.session, lane.group < group.number else {
      return .answered(.refused)
    }
    lanes[sender.node]?[group.lane].lock = (request, lane.group)
    lanes[sender.node]?[group.lane].group = group.number
    return .locked
  }

  mutating func commit(_ group: ClusterGroup, by sender: NodeIncarnation) -> ClusterAnswer {
    lanes[sender.node]?[group.lane].lock = nil
    switch group.content {
    case .record(let partition, let epoch):
      laws.noteWrite(partition, epoch, by: sender)
      return .done
    case .claim(let claims):
      for claim in claims
      where partitions[claim.partition] == claim.row || canary == .claimsWithoutCompare {
        replace(claim.row(for: sender), of: claim.partition)
      }
      return .view([], partitions)
    case .handOver(let handOver):
      let row = PartitionRow(owner: sender, epoch: handOver.epoch)
      guard partitions[handOver.partition] == row else { return .refused }
      laws.noteHandOver()
      replace(handOver.row, of: handOver.partition)
      return .done
    }
  }

  mutating func abort(_ group: ClusterGroup, by sender: NodeIncarnation, request: Int) {
    guard let lock = lanes[sender.node]?[group.lane].lock, lock.request == request else { return }
    lanes[sender.node]?[group.lane].group = lock.group
    lanes[sender.node]?[group.lane].lock = nil
  }

  private mutating func replace(_ row: PartitionRow, of partition: Partition) {
    laws.noteOwner(row, after: partitions[partition] ?? PartitionRow(), of: partition)
    partitions[partition] = row
  }
}
