import ApusTesting
import Testing

@Suite("The whole service in a simulated world")
struct SimulationTests {
  static let fixedSeeds: [UInt64] = Array(1...3)

  private func run(
    seed: UInt64, seconds: Int = 300, canary: SimulationCanary? = nil,
    change: (inout Simulation.Options) -> Void = { _ in }
  ) throws -> Simulation.Report {
    var options = Simulation.Options(seed: seed, seconds: seconds)
    options.canary = canary
    change(&options)
    return try Simulation(options).run()
  }

  /// The command that repeats a failed run.
  private func repetition(_ report: Simulation.Report) -> Comment {
    "\(report.violations)\nmake sim SEED=\(report.seed) HOURS=0.0833334 WORLDS=1"
  }

  /// `make sim` runs other seeds.
  @Test("No law is broken", arguments: fixedSeeds)
  func fixed(seed: UInt64) throws {
    let report = try run(seed: seed)
    #expect(report.violations.isEmpty, repetition(report))
    #expect(report.accepted > 0)
    #expect(report.dormant > 0 && report.woken > 0)
  }

  @Test(
    "No law is broken with several nodes, of which some decide",
    arguments: [(2, 1), (5, 1), (3, 2), (5, 3)])
  func cluster(nodes: Int, parts: Int) throws {
    let report = try run(seed: UInt64(nodes), seconds: 120) {
      ($0.nodes, $0.parts) = (nodes, parts)
    }
    #expect(
      report.violations.isEmpty,
      "\(report.violations)\napus-sim --seed \(nodes) --nodes \(nodes) --parts \(parts) --hours 0.0333334"
    )
    #expect(report.accepted > 0 && report.delivered > 0)
    #expect(report.links > 0)
  }

  /// `make sim` fills it for an hour.
  @Test("A disk that is full for five minutes loses nothing that was accepted")
  func fullDisk() throws {
    var options = Simulation.Options(seed: 1, seconds: 600)
    options.fullDiskSeconds = 120..<420
    let report = try Simulation(options).run()
    #expect(report.violations.isEmpty, "\(report.violations)")
    #expect(report.undeliveredWhileFull == 0)
    #expect(report.refusedWhileFull > 0)
    #expect(report.acceptedAfterFull > 0)
  }

  @Test("The same seed gives the same run twice")
  func repeats() throws {
    let first = try run(seed: 5, seconds: 120)
    let second = try run(seed: 5, seconds: 120)
    #expect(first.hash == second.hash)
    #expect(first.events == second.events)
    #expect(first.dormant > 0 && first.delivered > 0)
    #expect(try run(seed: 6, seconds: 120).hash != first.hash)
  }

  /// `make sim` breaks each rule.
  @Test("A rule that is broken on purpose is reported by the law about it")
  func canary() throws {
    #expect(try SimulationCanary.losesGroups.firstReport(under: 1...10) != nil)
  }

  @Test("A revived token is not noticed if each app asks for its token before a filter lists it")
  func revivedWithoutFilters() throws {
    for seed in 1...5 as ClosedRange<UInt64> {
      let report = try run(seed: seed, canary: .revivesTokens) { $0.asksForTokensFirst = true }
      #expect(report.violations.isEmpty, "\(report.violations) with the seed \(seed)")
    }
  }
}
