import ApusWalks
import Testing

@Suite("A cluster of nodes on random walks")
struct ClusterWalkTests {
  @Test("No law is broken on any path, and the paths have everything that laws are about")
  func known() {
    var counts = ClusterCounts()
    for seed in 1...12 as ClosedRange<UInt64> {
      let walk = ClusterWalk(seed: seed, rounds: 2)
      #expect(walk.fault == nil)
      counts += walk.counts
    }
    #expect(counts.owners > 500)
    #expect(counts.handOvers > 100)
    #expect(counts.fences > 30)
    #expect(counts.writes > 2000)
    #expect(counts.verdicts > 5000)
    #expect(counts.calms == 24)
  }

  @Test("No law is broken on paths that nobody has taken yet")
  func fresh() {
    let first = UInt64.random(in: 0...(1 << 60))
    for seed in first..<first + 4 { #expect(ClusterWalk(seed: seed, rounds: 2).fault == nil) }
  }

  @Test("Each law notices what breaks it", arguments: ClusterCanary.allCases)
  func canaries(canary: ClusterCanary) {
    let isNoticed = (1...60 as ClosedRange<UInt64>).contains { seed in
      ClusterWalk(seed: seed, rounds: 2, canary: canary).brokenLaw == canary.law
    }
    #expect(isNoticed)
  }

  @Test("The partitions of a killed node have owners again within six seconds")
  func takeOver() {
    let times = (1...8 as ClosedRange<UInt64>).map {
      ClusterWalk.takeOverMilliseconds(seed: $0) ?? .max
    }
    #expect(times.allSatisfy { (3900...6000).contains($0) }, "\(times)")
  }
}
