import ApusCore
import Testing

@Suite("Watching other nodes' leases")
struct LeaseWatchTests {
  private let other = NodeIncarnation("b", 1)

  /// Looks at the rows at each of the times.
  private func look(
    _ watch: inout LeaseWatch, _ rows: [LeaseRow], _ times: some Sequence<UInt64>
  ) {
    for time in times { watch.observe(rows, atMilliseconds: time) }
  }

  /// Every 250 ms.
  private func polls(_ first: UInt64, through last: UInt64) -> StrideThrough<UInt64> {
    stride(from: first, through: last, by: 250)
  }

  @Test("A counter that stood still for five seconds may be fenced, not earlier")
  func silent() {
    var watch = LeaseWatch()
    let rows = [LeaseRow("b", 1, counter: 7)]
    look(&watch, rows, polls(1000, through: 5750))
    #expect(watch.standing(of: other) == .unproven)
    look(&watch, rows, [5999])
    #expect(watch.standing(of: other) == .unproven)
    look(&watch, rows, [6000])
    #expect(watch.standing(of: other) == .silent(counter: 7))
  }

  @Test("Each change of the counter begins the count again")
  func renewals() {
    var watch = LeaseWatch()
    look(&watch, [LeaseRow("b", 1, counter: 7)], polls(1000, through: 5750))
    look(&watch, [LeaseRow("b", 1, counter: 8)], polls(6000, through: 10_750))
    #expect(watch.standing(of: other) == .live)
    look(&watch, [LeaseRow("b", 1, counter: 8)], [11_000])
    #expect(watch.standing(of: other) == .silent(counter: 8))
    look(&watch, [LeaseRow("b", 1, counter: 9)], [11_250])
    #expect(watch.standing(of: other) == .live)
  }

  @Test("Time without a connection does not count, nor what was observed before it")
  func reconnect() {
    var watch = LeaseWatch()
    let rows = [LeaseRow("b", 1, counter: 7)]
    look(&watch, rows, polls(1000, through: 5750))
    watch.disconnected()
    look(&watch, rows, polls(6000, through: 10_750))
    #expect(watch.standing(of: other) == .unproven)
    look(&watch, rows, [11_000])
    #expect(watch.standing(of: other) == .silent(counter: 7))
  }

  @Test("After a reconnect, a node is live only if it was seen to renew since then")
  func unproven() {
    var watch = LeaseWatch()
    look(&watch, [LeaseRow("b", 1, counter: 7)], [1000])
    look(&watch, [LeaseRow("b", 1, counter: 8)], [1250])
    #expect(watch.standing(of: other) == .live)
    watch.disconnected()
    #expect(watch.standing(of: other) == .unproven)
    look(&watch, [LeaseRow("b", 1, counter: 8)], [1500])
    #expect(watch.standing(of: other) == .unproven)
    look(&watch, [LeaseRow("b", 1, counter: 9)], [1750])
    #expect(watch.standing(of: other) == .live)
  }

  @Test("A long gap between two looks does not count; one of half a second does")
  func gaps() {
    var watch = LeaseWatch()
    let rows = [LeaseRow("b", 1)]
    look(&watch, rows, [1000, 31_000, 60_000, 60_501])
    #expect(watch.standing(of: other) == .unproven)
    look(&watch, rows, stride(from: 61_001, to: 65_501, by: 500))
    #expect(watch.standing(of: other) == .unproven)
    look(&watch, rows, [65_501])
    #expect(watch.standing(of: other) == .silent(counter: 0))
  }

  @Test("A clock that was set back counts as a gap")
  func backwards() {
    var watch = LeaseWatch()
    look(&watch, [LeaseRow("b", 1)], polls(100_000, through: 104_750))
    look(&watch, [LeaseRow("b", 1)], [10])
    #expect(watch.standing(of: other) == .unproven)
  }

  @Test(
    "A released or fenced lease is over at once", arguments: [LeaseRow.State.released, .fenced])
  func over(state: LeaseRow.State) {
    var watch = LeaseWatch()
    look(&watch, [LeaseRow("b", 1, state)], [1000])
    #expect(watch.standing(of: other) == .over)
    watch.disconnected()
    #expect(watch.standing(of: other) == .over)
  }

  @Test("A new incarnation is counted anew, and ends the one before it")
  func incarnations() {
    var watch = LeaseWatch()
    look(&watch, [LeaseRow("b", 1, counter: 7)], polls(1000, through: 5750))
    look(&watch, [LeaseRow("b", 2, counter: 7)], polls(6000, through: 10_750))
    #expect(watch.standing(of: other) == .over)
    #expect(watch.standing(of: NodeIncarnation("b", 2)) == .unproven)
    look(&watch, [LeaseRow("b", 2, counter: 7)], [11_000])
    #expect(watch.standing(of: NodeIncarnation("b", 2)) == .silent(counter: 7))
  }

  @Test("Of an incarnation that may have begun since the last look, nothing is known")
  func unknown() {
    var watch = LeaseWatch()
    #expect(watch.standing(of: other) == nil)
    look(&watch, [LeaseRow("b", 1)], [1000])
    #expect(watch.standing(of: NodeIncarnation("b", 2)) == nil)
    #expect(watch.standing(of: NodeIncarnation("c", 1)) == nil)
    look(&watch, [], [1250])
    #expect(watch.standing(of: other) == nil)
  }

  @Test("Nodes are counted each by itself")
  func several() {
    var watch = LeaseWatch()
    for (count, time) in polls(1000, through: 6000).enumerated() {
      let rows = [LeaseRow("b", 1), LeaseRow("a", 4, counter: UInt64(count))]
      watch.observe(rows, atMilliseconds: time)
    }
    #expect(watch.nodes == ["a", "b"])
    #expect(watch.standing(of: NodeIncarnation("a", 4)) == .live)
    #expect(watch.standing(of: other) == .silent(counter: 0))
  }
}
