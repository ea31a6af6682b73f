import ApusModel

/// Which of several nodes should own which partition, by rendezvous hashing (Thaler and Ravishankar, Using name-based
/// mappings to increase hit rates, 1998): of all nodes, the one with the highest weight for the partition.
///
/// Every node comes to the same result from the same names. If one joins, partitions move to it only; if one leaves,
/// only its own move. Nodes of several versions must agree, so the weights never change.
package struct Placement: Sendable {
  private struct Candidate: Sendable {
    let name: NodeName
    let hash: UInt64
  }

  private let candidates: [Candidate]

  /// The order of the names, and repeated ones, make no difference.
  package init(_ names: some Sequence<NodeName>) {
    candidates = Set(names).sorted().map { Candidate(name: $0, hash: Self.hash($0)) }
  }

  /// Nil if there are no nodes.
  package func node(for partition: Partition) -> NodeName? {
    var best: (name: NodeName, weight: UInt64)?
    for candidate in candidates {
      let weight = Self.weight(partition, candidate.hash)
      if weight >= best?.weight ?? 0 { best = (candidate.name, weight) }
    }
    return best?.name
  }

  private static func weight(_ partition: Partition, _ hash: UInt64) -> UInt64 {
    (hash &+ (UInt64(partition.index) + 1) &* Partition.factor).mixed
  }

  /// FNV-1a of the name (draft-eastlake-fnv).
  private static func hash(_ name: NodeName) -> UInt64 {
    name.text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0100_0000_01b3 }
  }
}

/// What a node should do about the owners of partitions, from what it has last seen.
///
/// Nodes see changes at different times and never fight all the same: only the owner itself gives a partition away, and
/// only to a node that renews its lease; a partition is claimed only from nobody, or from an incarnation that is over
/// or has been silent; and of the others only by the node that should own it. Every partition has an owner again once
/// the nodes agree on who is live.
///
/// Make one while the node's own lease may decide.
package struct PlacementPlan: Sendable {
  package enum Move: Sendable, Hashable {
    /// It is where it should be, another node's matter, or must wait.
    case leave
    /// Take it over; nil: from nobody.
    case claim(from: NodeIncarnation?)
    case handOver(to: NodeIncarnation)
  }

  /// Who should own what.
  package let placement: Placement
  private let map: PartitionMap
  private let watch: LeaseWatch
  private let own: NodeIncarnation

  /// This node drains, too, only once its row says so: a node that others still give partitions to must take them.
  package init(map: PartitionMap, watch: LeaseWatch, own: NodeIncarnation) {
    self.map = map
    self.watch = watch
    self.own = own
    let others = watch.nodes.filter { name in
      guard name != own.node, let row = watch.row(of: name), !row.isDraining else { return false }
      let standing = watch.standing(of: row.holder)
      return standing == .unproven || standing == .live
    }
    let row = watch.row(of: own.node)
    let isDraining = row?.holder == own && row?.isDraining == true
    placement = Placement(isDraining ? others : others + [own.node])
  }

  package func move(of partition: Partition) -> Move {
    guard let row = map[partition], let node = placement.node(for: partition) else { return .leave }
    if row.owner == own {
      guard node != own.node, let receiver = watch.row(of: node)?.holder,
        watch.standing(of: receiver) == .live
      else { return .leave }
      return .handOver(to: receiver)
    }
    guard node == own.node else { return .leave }
    guard let owner = row.owner else { return .claim(from: nil) }
    return switch watch.standing(of: owner) {
    case .silent, .over: .claim(from: owner)
    case .unproven, .live, nil: .leave
    }
  }

  /// The hand-overs to have in progress now, those of the lowest partitions first: at most
  /// `Limits.handOversAtOnce`. One that is in progress is among them as long as it should go on.
  package var handOvers: [HandOver] {
    let all = map.partitions.lazy.compactMap { partition -> HandOver? in
      guard case .handOver(let receiver) = move(of: partition), let row = map[partition] else {
        return nil
      }
      return HandOver(of: partition, epoch: row.epoch, to: receiver)
    }
    return Array(all.prefix(Limits.handOversAtOnce))
  }

  /// The take-overs to begin. A silent incarnation that owns anything is fenced by every node that sees it silent, even
  /// by one that should own nothing of it: then the others need not wait until they see it, too.
  package var takeOvers: [TakeOver] {
    var found: Set<NodeIncarnation?> = []
    return map.partitions.compactMap { partition -> TakeOver? in
      guard let owner = map[partition]?.owner else {
        guard move(of: partition) == .claim(from: nil), found.insert(nil).inserted else {
          return nil
        }
        return TakeOver(of: nil)
      }
      guard owner != own, !found.contains(owner) else { return nil }
      switch watch.standing(of: owner) {
      case .silent(let counter):
        found.insert(owner)
        return TakeOver(of: owner, ifStillAt: counter)
      case .over where move(of: partition) == .claim(from: owner):
        found.insert(owner)
        return TakeOver(of: owner)
      case .over, .unproven, .live, nil: return nil
      }
    }
  }
}
