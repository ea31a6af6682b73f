import ApusWalks
import Testing

@Suite("Nodes with leases on random walks")
struct LeaseWalkTests {
  @Test("No law is broken on any path, and the paths have everything that laws are about")
  func known() {
    var counts = LeaseCounts()
    for seed in 1...12 as ClosedRange<UInt64> {
      let walk = LeaseWalk(seed: seed, rounds: 2)
      #expect(walk.fault == nil)
      counts += walk.counts
    }
    #expect(counts.takeOvers > 60)
    #expect(counts.renewals > 500)
    #expect(counts.writes > 2000)
    #expect(counts.verdicts > 5000)
    #expect(counts.terminations > 0)
    #expect(counts.calms == 24)
  }

  @Test("No law is broken on paths that nobody has taken yet")
  func fresh() {
    let first = UInt64.random(in: 0...(1 << 60))
    for seed in first..<first + 4 { #expect(LeaseWalk(seed: seed, rounds: 2).fault == nil) }
  }

  /// The first seeds that show it, of those that are not among the first three.
  private static let noticing: [LeaseCanary: UInt64] = [
    .claimsWithoutCompare: 11, .claimsWithoutCounter: 21, .forgetsItsName: 5,
    .needsAllDatabases: 23, .takesWhatIsAway: 26, .triesWithoutPause: 54,
  ]

  @Test("Each law notices what breaks it", arguments: LeaseCanary.allCases)
  func canaries(canary: LeaseCanary) {
    // Others are tried where the walks have changed.
    let seeds = [Self.noticing[canary] ?? 1] + Array(1...100)
    let isNoticed = seeds.contains { seed in
      LeaseWalk(seed: seed, rounds: 2, canary: canary).brokenLaw == canary.law
    }
    #expect(isNoticed)
  }

  @Test("The part of a killed node is served again within three seconds")
  func takeOver() {
    let times = (1...30 as ClosedRange<UInt64>).compactMap {
      LeaseWalk.takeOverMilliseconds(seed: $0)
    }
    #expect(times.count > 8)
    #expect(times.allSatisfy { (1400...3000).contains($0) }, "\(times)")
  }
}
