import ApusCore
import ApusModel
import ApusRandom

/// The loop of one incarnation of a node: carries out what the values of ApusCore ask for.
///
/// Claims and hand-overs are written on the first lane, devices' records on the second, to which all partitions are
/// bound.
final class ClusterNode {
  /// What a statement was sent for.
  enum Purpose {
    case register(sentMilliseconds: UInt64)
    case renew(number: UInt64)
    case look, ownFence, fence, readRows
    case readRow(Partition)
    case load(Partition, Epoch)
    case open(lane: Int)
    case group(ClusterGroup)
    case release, order
  }

  /// A store connection of the node.
  struct Lane {
    /// Nil until the lane is open, and again once an outcome is unknown.
    var session: UInt64?
    var group: UInt64 = 0
    var isOpening = false
    var dueMilliseconds: UInt64 = 0
    /// The group without an outcome.
    var open: ClusterGroup?
    var queue: [ClusterGroup.Content] = []

    /// Whether every group about the partition that was sent has an outcome, and none waits.
    func isResolved(for partition: Partition) -> Bool {
      session != nil && open?.content.isRecord(of: partition) != true
        && !queue.contains { $0.isRecord(of: partition) }
    }
  }

  let own: NodeIncarnation
  let canary: ClusterCanary?
  private let partitions: [Partition]
  private var random: SeededRandom
  /// What the node sends.
  var outbox: [(statement: ClusterStatement, purpose: Purpose)] = []
  /// The verdicts that it issues.
  var verdicts: [(partition: Partition, epoch: Epoch)] = []
  var hasEnded = false

  var lease: Lease?
  var watch = LeaseWatch()
  var map = PartitionMap()
  var lanes = [Lane](repeating: Lane(), count: ClusterDatabase.lanes)
  var takeOver: TakeOver?
  var isResolvingClaims = false
  var handOvers: [Partition: HandOver] = [:]
  /// The lanes that hand-overs wait for.
  var resolving: [Partition: Int] = [:]
  /// Partitions about which the node decides nothing.
  var stopped: Set<Partition> = []
  /// The epoch under which the partition's devices were read.
  var loaded: [Partition: Epoch] = [:]
  var loading: [Partition: Epoch] = [:]
  var isRegistering = false
  var isLooking = false
  var lookMilliseconds: UInt64 = 0
  private(set) var mustDrain = false

  init(
    _ own: NodeIncarnation, partitions: [Partition], canary: ClusterCanary?, random: SeededRandom
  ) {
    self.own = own
    self.partitions = partitions
    self.canary = canary
    self.random = random
  }

  func send(_ statement: ClusterStatement, _ purpose: Purpose) {
    outbox.append((statement, purpose))
  }

  // MARK: Decisions

  /// The epoch under which the node may decide about the partition's devices; nil if it may not.
  func epoch(of partition: Partition, atMilliseconds now: UInt64) -> Epoch? {
    guard let lease, lease.mayDecide(atMilliseconds: now) || canary == .ignoresLapse else {
      return nil
    }
    return servedEpoch(of: partition)
  }

  /// Now and then decides about a device, or writes something about one. What a device has acknowledged is written
  /// without a lease, too.
  func decide(atMilliseconds now: UInt64) {
    for partition in partitions where random.chance(1, in: 12) {
      if random.chance(1, in: 2), let epoch = epoch(of: partition, atMilliseconds: now) {
        verdicts.append((partition, epoch))
      } else if let epoch = servedEpoch(of: partition), lanes[1].queue.count < 8 {
        lanes[1].queue.append(.record(partition, epoch))
      }
    }
  }

  /// The epoch under which the node serves the partition, with or without a lease.
  private func servedEpoch(of partition: Partition) -> Epoch? {
    guard let row = map[partition], row.owner == own, loaded[partition] == row.epoch,
      !stopped.contains(partition)
    else { return nil }
    return row.epoch
  }

  func drain() { mustDrain = true }

  /// Whether the others have been told.
  private var isDraining: Bool {
    let row = watch.row(of: own.node)
    return row?.holder == own && row?.isDraining == true
  }

  // MARK: The loop

  func drive(atMilliseconds now: UInt64) {
    guard !hasEnded else { return }
    if !isLooking, now >= lookMilliseconds {
      isLooking = true
      lookMilliseconds = now + Limits.leasePollMilliseconds
      send(.look, .look)
    }
    driveLease(now)
    guard lease != nil, !hasEnded else { return }
    driveTakeOver(now)
    driveHandOvers(now)
    loadOwned()
    for index in lanes.indices { driveLane(index, now) }
    if isDraining, takeOver == nil, !partitions.contains(where: { map[$0]?.owner == own }) {
      lease?.release()
    }
  }

  private func driveLease(_ now: UInt64) {
    while let action = lease?.next(atMilliseconds: now) {
      switch action {
      case .renew(let number): send(.renew, .renew(number: number))
      case .decide, .stopDeciding: break
      case .release: send(.release, .release)
      case .shutDown: hasEnded = true
      case .wait: return
      }
    }
  }

  /// What follows from a look at all rows.
  func plan(atMilliseconds now: UInt64) {
    guard let lease else { return register(now) }
    if mustDrain, !isDraining { send(.drain, .order) }
    guard lease.mayDecide(atMilliseconds: now) else { return }
    let plan = makePlan()
    let wanted = plan.handOvers
    for partition in handOvers.keys
    where !wanted.contains(where: {
      $0.partition == partition && $0.receiver == handOvers[partition]?.receiver
    }) {
      handOvers[partition]?.abort()
    }
    for handOver in wanted
    where handOvers[handOver.partition] == nil && loaded[handOver.partition] == handOver.epoch {
      handOvers[handOver.partition] = handOver
    }
    let takeOvers = plan.takeOvers
    if takeOver == nil, !takeOvers.isEmpty {
      takeOver = random.pick(takeOvers)
      isResolvingClaims = false
    }
  }

  func makePlan() -> PlacementPlan {
    PlacementPlan(map: map, watch: watch, own: own)
  }

  /// Begins only when the node's last incarnation is over.
  private func register(_ now: UInt64) {
    guard !isRegistering else { return }
    if let row = watch.row(of: own.node), let standing = watch.standing(of: row.holder) {
      switch standing {
      case .over: break
      case .silent(let counter): return send(.fence(row.holder, counter: counter), .ownFence)
      case .unproven, .live: return
      }
    }
    isRegistering = true
    send(.register, .register(sentMilliseconds: now))
  }

  private func driveTakeOver(_ now: UInt64) {
    if isResolvingClaims, lanes[0].session != nil {
      isResolvingClaims = false
      takeOver?.resolved()
    }
    while let action = takeOver?.next(atMilliseconds: now) {
      switch action {
      case .fence(let node, let counter):
        send(.fence(node, counter: counter), .fence)
        if canary == .readsBeforeCommit { takeOver?.fenced() }
      case .terminate(let node):
        if canary != .neverTerminates { send(.terminate(node), .order) }
      case .read: send(.read, .readRows)
      case .claim(let claims): lanes[0].queue.append(.claim(claims))
      case .resolve:
        isResolvingClaims = true
        return
      case .wait: return
      case .ended: takeOver = nil
      }
    }
  }

  private func driveHandOvers(_ now: UInt64) {
    for partition in handOvers.keys.sorted() {
      if lease?.mayDecide(atMilliseconds: now) != true { handOvers[partition]?.abort() }
      if let lane = resolving[partition], lanes[lane].isResolved(for: partition) {
        resolving[partition] = nil
        handOvers[partition]?.resolved()
      }
      driveHandOver(of: partition, now)
    }
  }

  private func driveHandOver(of partition: Partition, _ now: UInt64) {
    while let action = handOvers[partition]?.next(atMilliseconds: now) {
      switch action {
      case .stopDeciding:
        stopped.insert(partition)
        handOvers[partition]?.stopped()
      case .resolveLane:
        resolving[partition] = 1
        if canary == .handsOverUnresolved { handOvers[partition]?.resolved() }
      case .write:
        if let handOver = handOvers[partition] { lanes[0].queue.append(.handOver(handOver)) }
      case .resolveWrite: resolving[partition] = 0
      case .read: send(.read, .readRow(partition))
      case .wait: return
      case .ended:
        handOvers[partition] = nil
        resolving[partition] = nil
        stopped.remove(partition)
      }
    }
  }

  /// Reads the devices of the partitions that the node has got.
  private func loadOwned() {
    for partition in partitions {
      guard let row = map[partition], row.owner == own, loaded[partition] != row.epoch,
        loading[partition] != row.epoch
      else { continue }
      loading[partition] = row.epoch
      send(.load(partition, row.epoch), .load(partition, row.epoch))
    }
  }

  private func driveLane(_ index: Int, _ now: UInt64) {
    guard let session = lanes[index].session else {
      guard !lanes[index].isOpening, now >= lanes[index].dueMilliseconds else { return }
      lanes[index].isOpening = true
      return send(.open(lane: index), .open(lane: index))
    }
    guard lanes[index].open == nil, !lanes[index].queue.isEmpty else { return }
    lanes[index].group += 1
    let group = ClusterGroup(
      lane: index, session: session, number: lanes[index].group,
      content: lanes[index].queue.removeFirst())
    lanes[index].open = group
    send(.group(group), .group(group))
  }
}
