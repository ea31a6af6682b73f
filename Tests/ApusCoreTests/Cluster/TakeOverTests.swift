import ApusCore
import Testing

@Suite("Taking over from an incarnation that is gone")
struct TakeOverTests {
  private static let dead = NodeIncarnation("b", 3)
  private static let own = NodeIncarnation("a", 1)

  private func row(_ owner: NodeIncarnation?, _ epoch: UInt64) -> PartitionRow {
    PartitionRow(owner: owner, epoch: Epoch(epoch))
  }

  private let placement = Placement(["a"])

  /// A take-over whose fence was sent at 1,000.
  private func fencing() -> TakeOver {
    var takeOver = TakeOver(of: Self.dead, ifStillAt: 9)
    _ = takeOver.next(atMilliseconds: 1000)
    return takeOver
  }

  /// A take-over that has sent its claims of 1 and 2.
  private func claiming() -> TakeOver {
    var takeOver = fencing()
    takeOver.fenced()
    _ = takeOver.next(atMilliseconds: 1010)
    takeOver.read(
      PartitionMap([1: row(Self.dead, 4), 2: row(Self.dead, 7)]), placement: placement,
      own: Self.own)
    _ = takeOver.next(atMilliseconds: 1020)
    return takeOver
  }

  @Test("It fences, and reads only after the commit is acknowledged")
  func fenceFirst() {
    var takeOver = TakeOver(of: Self.dead, ifStillAt: 9)
    var actions = [takeOver.next(atMilliseconds: 1000), takeOver.next(atMilliseconds: 1000)]
    #expect(actions == [.fence(Self.dead, counter: 9), .wait(untilMilliseconds: 1050)])
    takeOver.fenced()
    actions = [takeOver.next(atMilliseconds: 1010), takeOver.next(atMilliseconds: 1010)]
    #expect(actions == [.read, .wait(untilMilliseconds: nil)])
  }

  @Test("While the fence waits for locks, connections of the incarnation are terminated")
  func terminate() {
    var takeOver = fencing()
    let actions = [1049, 1050, 1051, 1100, 1100].map { takeOver.next(atMilliseconds: $0) }
    #expect(
      actions == [
        .wait(untilMilliseconds: 1050), .terminate(Self.dead), .wait(untilMilliseconds: 1100),
        .terminate(Self.dead), .wait(untilMilliseconds: 1150),
      ])
  }

  @Test("It claims what this node should own of the incarnation, with the next epoch")
  func claim() {
    var takeOver = fencing()
    takeOver.fenced()
    _ = takeOver.next(atMilliseconds: 1010)
    let placement = Placement(["node-1", "node-2", "node-3", "node-4"])
    let map = PartitionMap([
      0: row(Self.dead, 4), 1: row(NodeIncarnation("b", 4), 5), 2: row(nil, 0),
      3: row(Self.dead, 8),
      8: row(Self.dead, 2),
    ])
    let own = NodeIncarnation("node-2", 6)
    takeOver.read(map, placement: placement, own: own)
    let action = takeOver.next(atMilliseconds: 1020)
    let claims = [
      PartitionClaim(partition: 0, row: row(Self.dead, 4)),
      PartitionClaim(partition: 3, row: row(Self.dead, 8)),
    ]
    #expect(action == .claim(claims))
    #expect(claims[1].row(for: own) == row(own, 9))
    takeOver.claimed()
    let end = takeOver.next(atMilliseconds: 1030)
    #expect(end == .ended(.finished))
  }

  @Test("It ends if nothing is left for this node")
  func nothing() {
    var takeOver = fencing()
    takeOver.fenced()
    _ = takeOver.next(atMilliseconds: 1010)
    takeOver.read(PartitionMap([1: row(Self.own, 5)]), placement: placement, own: Self.own)
    let action = takeOver.next(atMilliseconds: 1010)
    #expect(action == .ended(.finished))
  }

  @Test("It gives up if the incarnation has renewed its lease")
  func alive() {
    var takeOver = fencing()
    takeOver.foundAlive()
    takeOver.fenced()
    let action = takeOver.next(atMilliseconds: 1010)
    #expect(action == .ended(.alive))
  }

  @Test("A fence of unknown outcome is repeated with the same counter, after a pause")
  func fenceFailed() {
    var takeOver = fencing()
    takeOver.failed(atMilliseconds: 1020)
    let actions = [1269, 1270, 1320].map { takeOver.next(atMilliseconds: $0) }
    #expect(
      actions == [
        .wait(untilMilliseconds: 1270), .fence(Self.dead, counter: 9), .terminate(Self.dead),
      ])
  }

  @Test("A failed read is repeated; the fence is not")
  func readFailed() {
    var takeOver = fencing()
    takeOver.fenced()
    _ = takeOver.next(atMilliseconds: 1010)
    takeOver.failed(atMilliseconds: 1020)
    let actions = [1269, 1270].map { takeOver.next(atMilliseconds: $0) }
    #expect(actions == [.wait(untilMilliseconds: 1270), .read])
  }

  @Test("After claims of unknown outcome it reads again, once they can no longer take effect")
  func claimUnknown() {
    var takeOver = claiming()
    takeOver.failed(atMilliseconds: 1100)
    var actions = [1349, 1350, 1360].map { takeOver.next(atMilliseconds: $0) }
    #expect(
      actions == [.wait(untilMilliseconds: 1350), .resolve, .wait(untilMilliseconds: nil)])
    takeOver.failed(atMilliseconds: 1400)
    actions = [takeOver.next(atMilliseconds: 1650)]
    #expect(actions == [.resolve])
    takeOver.resolved()
    actions = [takeOver.next(atMilliseconds: 1660)]
    #expect(actions == [.read])
    // One claim has taken effect; another node has the second partition.
    takeOver.read(
      PartitionMap([1: row(Self.own, 5), 2: row(NodeIncarnation("c", 1), 8)]), placement: placement,
      own: Self.own)
    actions = [takeOver.next(atMilliseconds: 1670)]
    #expect(actions == [.ended(.finished)])
  }

  @Test("Claims that have not taken effect are repeated")
  func claimLost() {
    var takeOver = claiming()
    takeOver.failed(atMilliseconds: 1100)
    _ = takeOver.next(atMilliseconds: 1350)
    takeOver.resolved()
    _ = takeOver.next(atMilliseconds: 1360)
    let left = row(Self.dead, 7)
    takeOver.read(
      PartitionMap([1: row(Self.own, 5), 2: left]), placement: placement, own: Self.own)
    let action = takeOver.next(atMilliseconds: 1370)
    #expect(action == .claim([PartitionClaim(partition: 2, row: left)]))
  }

  @Test("Partitions that never had an owner are claimed without a fence")
  func nobody() {
    var takeOver = TakeOver(of: nil)
    var action = takeOver.next(atMilliseconds: 1000)
    #expect(action == .read)
    takeOver.read(
      PartitionMap([1: row(nil, 0), 2: row(Self.dead, 7)]), placement: placement, own: Self.own)
    action = takeOver.next(atMilliseconds: 1000)
    #expect(action == .claim([PartitionClaim(partition: 1, row: row(nil, 0))]))
  }

  @Test("Answers that were not asked for have no effect")
  func outOfTurn() {
    var takeOver = fencing()
    takeOver.claimed()
    takeOver.resolved()
    takeOver.read(PartitionMap(), placement: placement, own: Self.own)
    let action = takeOver.next(atMilliseconds: 1001)
    #expect(action == .wait(untilMilliseconds: 1050))
    takeOver.fenced()
    takeOver.foundAlive()
    takeOver.failed(atMilliseconds: 1002)
    let next = takeOver.next(atMilliseconds: 1002)
    #expect(next == .read)
  }
}
