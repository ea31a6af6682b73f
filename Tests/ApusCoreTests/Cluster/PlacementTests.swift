import ApusCore
import Testing

@Suite("Which node should own which partition")
struct PlacementTests {
  private static let all = (0..<1024).map { Partition(integerLiteral: $0) }

  private func owners(_ names: [NodeName]) -> [NodeName?] {
    let placement = Placement(names)
    return Self.all.map(placement.node)
  }

  /// Computed by a program of its own: of the four, the highest mix(FNV-1a(name) + (partition + 1) * 9e3779b97f4a7c15),
  /// where mix is the last step of SplitMix64.
  @Test("The owners of all versions")
  func vectors() {
    let owners = owners(["node-1", "node-2", "node-3", "node-4"])
    #expect(
      owners[..<12] == [
        "node-2", "node-2", "node-2", "node-2", "node-4", "node-2", "node-2", "node-2", "node-3",
        "node-2", "node-3", "node-2",
      ])
    #expect(owners[511] == "node-1")
    #expect(owners[1023] == "node-4")
    #expect(
      (1...4).map { number in owners.count { $0?.text == "node-\(number)" } } == [
        241, 268, 275, 240,
      ])
    #expect(self.owners(["paris", "berlin"])[..<4] == ["berlin", "paris", "paris", "paris"])
  }

  @Test("Names in any order, and repeated ones, make no difference")
  func order() {
    #expect(owners(["a", "b", "c"]) == owners(["c", "a", "b", "a"]))
  }

  @Test("Without nodes there is no owner, and one node owns everything")
  func few() {
    #expect(owners([]).allSatisfy { $0 == nil })
    #expect(owners(["a"]).allSatisfy { $0 == "a" })
  }

  @Test("A node that joins takes its share from all, and nothing moves between others")
  func join() {
    let before = owners(["a", "b", "c"])
    let after = owners(["a", "b", "c", "d"])
    let moved = zip(before, after).filter { $0 != $1 }
    #expect(moved.allSatisfy { $1 == "d" })
    #expect(moved.count == 251)
    #expect(Set(moved.map(\.0)) == ["a", "b", "c"])
  }

  @Test("If a node leaves, only its partitions move, to all others")
  func leave() {
    let before = owners(["a", "b", "c", "d"])
    let after = owners(["a", "c", "d"])
    let moved = zip(before, after).filter { $0 != $1 }
    #expect(moved.allSatisfy { $0.0 == "b" })
    #expect(moved.count == before.count { $0 == "b" })
    #expect(Set(moved.map(\.1)) == ["a", "c", "d"])
  }
}

@Suite("What a node does about the owners of partitions")
struct PlacementPlanTests {
  private typealias Move = PlacementPlan.Move

  private static let a = NodeIncarnation("node-1", 1)
  private static let b = NodeIncarnation("node-2", 1)
  private static let c = NodeIncarnation("node-3", 1)

  /// How a node's lease is seen.
  private enum Seen { case unproven, live, draining, silent, fenced, released, absent }

  /// Of three nodes, `node-1` should own 511, `node-2` 0 to 3, `node-3` 8. The plan is that of `own`.
  private func plan(
    _ own: NodeIncarnation, _ rows: [Partition: NodeIncarnation?], b: Seen = .live,
    c: Seen = .live, isDraining: Bool = false
  ) -> PlacementPlan {
    var watch = LeaseWatch()
    for step in 0...30 as ClosedRange<UInt64> {
      let others = [row(Self.b, b, step), row(Self.c, c, step)].compactMap(\.self)
      watch.observe(
        others + [LeaseRow(holder: Self.a, isDraining: isDraining)], atMilliseconds: 250 * step)
      // Those that have not renewed since then are unproven.
      if step == 26, b == .unproven || c == .unproven { watch.disconnected() }
    }
    let map = PartitionMap(rows.mapValues { PartitionRow(owner: $0, epoch: Epoch(5)) })
    return PlacementPlan(map: map, watch: watch, own: own)
  }

  private func row(_ holder: NodeIncarnation, _ seen: Seen, _ step: UInt64) -> LeaseRow? {
    switch seen {
    case .absent: nil
    case .unproven: LeaseRow(holder: holder, counter: min(step / 4, 6))
    case .live: LeaseRow(holder: holder, counter: step / 4)
    case .draining: LeaseRow(holder: holder, counter: step / 4, isDraining: true)
    case .silent: LeaseRow(holder: holder, counter: 3)
    case .fenced: LeaseRow(holder: holder, counter: 3, state: .fenced)
    case .released: LeaseRow(holder: holder, counter: 3, state: .released)
    }
  }

  @Test("A partition of nobody is claimed by the node that should own it, and left by others")
  func unowned() {
    let plan = plan(Self.a, [511: nil, 0: nil, 8: nil])
    #expect(plan.move(of: 511) == .claim(from: nil))
    #expect(plan.move(of: 0) == .leave)
    #expect(plan.move(of: 8) == .leave)
    #expect(plan.takeOvers.map(\.owner) == [nil])
  }

  @Test("A partition whose row is not known is left")
  func unknown() {
    #expect(plan(Self.a, [:]).move(of: 511) == .leave)
  }

  @Test("A partition goes to the node that should own it, if that node renews its lease")
  func handOver() {
    let rows = [511: Self.a, 0: Self.a, 8: Self.a] as [Partition: NodeIncarnation?]
    let plan = plan(Self.a, rows)
    #expect(plan.move(of: 511) == .leave)
    #expect(plan.move(of: 0) == .handOver(to: Self.b))
    #expect(plan.move(of: 8) == .handOver(to: Self.c))
    #expect(
      plan.handOvers == [
        HandOver(of: 0, epoch: Epoch(5), to: Self.b), HandOver(of: 8, epoch: Epoch(5), to: Self.c),
      ])
    #expect(self.plan(Self.a, rows, b: .unproven).move(of: 0) == .leave)
  }

  @Test("Nobody takes from a node that may be live", arguments: [true, false])
  func live(isProven: Bool) {
    let plan = plan(Self.a, [511: Self.b], b: isProven ? .live : .unproven)
    #expect(plan.move(of: 511) == .leave)
    #expect(plan.takeOvers.isEmpty)
  }

  @Test("What a silent node owns goes to those that should own it without the silent one")
  func silent() {
    // Without `node-2`: `node-1` should own some of 0 to 3.
    let rows = Dictionary(
      uniqueKeysWithValues: (0..<40).map { (Partition(integerLiteral: $0), Self.b) })
    let plan = plan(Self.a, rows, b: .silent)
    let expected = Placement(["node-1", "node-3"])
    for partition in rows.keys {
      let isOwn = expected.node(for: partition) == "node-1"
      #expect(plan.move(of: partition) == (isOwn ? .claim(from: Self.b) : .leave))
    }
    var takeOvers = plan.takeOvers
    #expect(takeOvers.count == 1)
    let action = takeOvers[0].next(atMilliseconds: 0)
    #expect(action == .fence(Self.b, counter: 3))
  }

  @Test("A silent node is fenced also by a node that should own nothing of it")
  func fenceForOthers() {
    let plan = plan(Self.a, [8: Self.b], b: .silent)
    #expect(plan.move(of: 8) == .leave)
    #expect(plan.takeOvers.map(\.owner) == [Self.b])
  }

  @Test("Of a node that is over, a node takes what it should own")
  func over() {
    for seen in [Seen.fenced, .released] {
      #expect(plan(Self.a, [511: Self.b], b: seen).takeOvers.map(\.owner) == [Self.b])
      #expect(plan(Self.a, [8: Self.b], b: seen).takeOvers.isEmpty)
    }
  }

  @Test("An earlier incarnation of a node is over")
  func superseded() {
    let old = NodeIncarnation("node-2", 0)
    let plan = plan(Self.a, [511: old, 0: old])
    #expect(plan.move(of: 511) == .claim(from: old))
    #expect(plan.move(of: 0) == .leave)
    var takeOvers = plan.takeOvers
    #expect(takeOvers.count == 1)
    let action = takeOvers[0].next(atMilliseconds: 0)
    #expect(action == .fence(old, counter: nil))
  }

  @Test("An incarnation that began after the last look is left alone")
  func later() {
    let plan = plan(Self.a, [511: NodeIncarnation("node-2", 2), 0: NodeIncarnation("node-9", 1)])
    #expect(plan.move(of: 511) == .leave)
    #expect(plan.takeOvers.isEmpty)
  }

  @Test("A node that drains gives everything away, takes nothing, and gets nothing")
  func draining() {
    let rows = [511: Self.a, 0: nil, 8: Self.a] as [Partition: NodeIncarnation?]
    let plan = plan(Self.a, rows, isDraining: true)
    #expect(plan.handOvers.map(\.partition) == [8, 511])
    #expect(plan.takeOvers.isEmpty)
    let other = self.plan(Self.a, [0: Self.a, 511: Self.b], b: .draining)
    #expect(other.placement.node(for: 0) != "node-2")
    #expect(other.handOvers.allSatisfy { $0.receiver == Self.c })
    #expect(other.move(of: 511) == .leave)
  }

  @Test("An earlier incarnation that drained says nothing about this one")
  func drainedBefore() {
    var watch = LeaseWatch()
    watch.observe([LeaseRow(holder: Self.a, isDraining: true)], atMilliseconds: 0)
    let plan = PlacementPlan(
      map: PartitionMap(), watch: watch, own: NodeIncarnation("node-1", 2))
    #expect(plan.placement.node(for: 0) == "node-1")
  }

  @Test("A node that drains alone keeps what it owns")
  func drainingAlone() {
    let plan = plan(Self.a, [511: Self.a, 0: Self.a], b: .absent, c: .fenced, isDraining: true)
    #expect(plan.handOvers.isEmpty)
  }

  @Test("Of many hand-overs, sixteen are in progress: those of the lowest partitions")
  func bounded() {
    let rows = Dictionary(
      uniqueKeysWithValues: (0..<1024).map { (Partition(integerLiteral: $0), Self.a) })
    let plan = plan(Self.a, rows)
    let wrong = rows.keys.filter { plan.placement.node(for: $0) != "node-1" }.sorted()
    #expect(wrong.count > 500)
    #expect(plan.handOvers.map(\.partition) == Array(wrong.prefix(16)))
  }
}
