import ApusModel
import ApusWalks
import Testing

/// Short walks. `make sim` takes longer ones, for as long as one likes.
@Suite("A shard on random walks")
struct ShardWalkTests {
  private static let steps = 150

  @Test("Accepted notifications are kept on every path, and every state is reached")
  func known() {
    var counts: [DeliveryState: UInt64] = [:]
    for seed in 1...60 as ClosedRange<UInt64> {
      let walk = ShardWalk(seed: seed, steps: Self.steps)
      #expect(walk.fault == nil)
      for state in DeliveryState.allCases { counts[state, default: 0] += walk.count(state) }
    }
    // What was sent is counted by the driver, which is not part of the model.
    let others: Set<DeliveryState> = [
      .sent, .sentUpstream, .deferredUpstream, .acceptedUpstream, .rejectedUpstream,
      .unansweredUpstream, .resentAfterError,
    ]
    for state in DeliveryState.allCases where !others.contains(state) {
      #expect(counts[state] ?? 0 >= 20, "\(state)")
    }
  }

  @Test("Accepted notifications are kept on paths that nobody has taken yet")
  func fresh() {
    let first = UInt64.random(in: 0...(1 << 60))
    for seed in first..<first + 10 {
      #expect(ShardWalk(seed: seed, steps: Self.steps).fault == nil)
    }
  }
}
