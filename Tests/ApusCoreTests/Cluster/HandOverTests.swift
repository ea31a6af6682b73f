import ApusCore
import Testing

@Suite("Handing a partition over")
struct HandOverTests {
  enum Step: CaseIterable { case begin, stopping, resolving, writing }

  private static let receiver = NodeIncarnation("b", 2)
  private static let own = NodeIncarnation("a", 1)

  /// A hand-over that has come that far at 1,000.
  private func handOver(_ step: Step) -> HandOver {
    var handOver = HandOver(of: 9, epoch: Epoch(4), to: Self.receiver)
    guard step != .begin else { return handOver }
    _ = handOver.next(atMilliseconds: 1000)
    guard step != .stopping else { return handOver }
    handOver.stopped()
    _ = handOver.next(atMilliseconds: 1000)
    guard step != .resolving else { return handOver }
    handOver.resolved()
    _ = handOver.next(atMilliseconds: 1000)
    return handOver
  }

  private func doubtful() -> HandOver {
    var handOver = handOver(.writing)
    handOver.failed(atMilliseconds: 1000)
    return handOver
  }

  /// Its next action, and that after it.
  private func actions(_ handOver: inout HandOver, _ now: UInt64 = 1000) -> [HandOver.Action] {
    [handOver.next(atMilliseconds: now), handOver.next(atMilliseconds: now)]
  }

  @Test("It stops deciding, resolves the lane, and then writes the new owner")
  func order() {
    var handOver = handOver(.begin)
    #expect(actions(&handOver) == [.stopDeciding, .wait(untilMilliseconds: nil)])
    handOver.stopped()
    #expect(actions(&handOver) == [.resolveLane, .wait(untilMilliseconds: nil)])
    handOver.resolved()
    #expect(actions(&handOver) == [.write, .wait(untilMilliseconds: nil)])
    #expect(handOver.row == PartitionRow(owner: Self.receiver, epoch: Epoch(5)))
    handOver.written()
    #expect(actions(&handOver) == [.ended(.handedOver), .ended(.handedOver)])
  }

  @Test("Each step waits for its own answer", arguments: Step.allCases)
  func outOfTurn(step: Step) {
    var handOver = handOver(step)
    let before = handOver
    if step != .stopping { handOver.stopped() }
    if step != .resolving { handOver.resolved() }
    if step != .writing { handOver.written() }
    handOver.read(PartitionRow(owner: Self.receiver, epoch: Epoch(5)))
    #expect(handOver == before)
  }

  @Test(
    "Before the write, a lapsed lease or a dead receiver ends it",
    arguments: [Step.begin, .stopping, .resolving])
  func abort(step: Step) {
    var handOver = handOver(step)
    handOver.abort()
    handOver.stopped()
    handOver.resolved()
    #expect(actions(&handOver)[0] == .ended(.kept))
  }

  @Test("After the write was sent, nothing takes it back")
  func tooLate() {
    var handOver = handOver(.writing)
    handOver.abort()
    #expect(actions(&handOver)[0] == .wait(untilMilliseconds: nil))
    handOver.written()
    #expect(actions(&handOver)[0] == .ended(.handedOver))
    var doubtful = doubtful()
    doubtful.abort()
    #expect(actions(&doubtful, 1250)[0] == .resolveWrite)
  }

  @Test("A lane whose outcomes could not be resolved is asked again, after a pause")
  func laneFailed() {
    var handOver = handOver(.resolving)
    handOver.failed(atMilliseconds: 1000)
    #expect(actions(&handOver, 1249)[0] == .wait(untilMilliseconds: 1250))
    #expect(actions(&handOver, 1250)[0] == .resolveLane)
  }

  @Test("After a write of unknown outcome it resolves the write, then reads the row")
  func unknown() {
    var handOver = doubtful()
    #expect(actions(&handOver, 1249)[0] == .wait(untilMilliseconds: 1250))
    #expect(actions(&handOver, 1250) == [.resolveWrite, .wait(untilMilliseconds: nil)])
    handOver.failed(atMilliseconds: 1300)
    #expect(actions(&handOver, 1550)[0] == .resolveWrite)
    handOver.resolved()
    #expect(actions(&handOver, 1560) == [.read, .wait(untilMilliseconds: nil)])
    handOver.failed(atMilliseconds: 1600)
    #expect(actions(&handOver, 1849)[0] == .wait(untilMilliseconds: 1850))
    #expect(actions(&handOver, 1850)[0] == .read)
  }

  @Test("The row says who owns the partition")
  func outcomes() {
    let rows: [(PartitionRow, HandOver.Outcome)] = [
      (PartitionRow(owner: Self.own, epoch: Epoch(4)), .kept),
      (PartitionRow(owner: Self.receiver, epoch: Epoch(5)), .handedOver),
      (PartitionRow(owner: NodeIncarnation("c", 1), epoch: Epoch(5)), .handedOver),
      (PartitionRow(owner: Self.own, epoch: Epoch(6)), .handedOver),
    ]
    for (row, outcome) in rows {
      var handOver = doubtful()
      _ = handOver.next(atMilliseconds: 1250)
      handOver.resolved()
      _ = handOver.next(atMilliseconds: 1250)
      handOver.read(row)
      #expect(actions(&handOver, 1250)[0] == .ended(outcome))
    }
  }
}
