import ApusTesting
import Testing

@Suite("The whole service in a simulated world")
struct SimulationTests {
  static let fixedSeeds: [UInt64] = Array(1...8)

  private func run(
    seed: UInt64, seconds: Int = 300, canary: SimulationCanary? = nil
  ) throws -> Simulation.Report {
    var options = Simulation.Options(seed: seed, seconds: seconds)
    options.canary = canary
    return try Simulation(options).run()
  }

  @Test("No law is broken", arguments: fixedSeeds)
  func fixed(seed: UInt64) throws {
    let report = try run(seed: seed)
    #expect(report.violations.isEmpty, "apus-sim --seed \(seed) --hours 0.0833334 --trace")
    #expect(report.accepted > 0)
  }

  @Test("No law is broken in worlds that nobody has seen before")
  func fresh() throws {
    for _ in 0..<3 {
      let seed = UInt64.random(in: 0..<(1 << 48))
      let report = try run(seed: seed)
      #expect(report.violations.isEmpty, "apus-sim --seed \(seed) --hours 0.0833334 --trace")
    }
  }

  @Test("A seed gives the same run twice")
  func repeats() throws {
    let first = try run(seed: 5)
    let second = try run(seed: 5)
    #expect(first.hash == second.hash)
    #expect(first.events == second.events)
    #expect(try run(seed: 6).hash != first.hash)
  }

  @Test("A rule that is broken on purpose is noticed", arguments: SimulationCanary.allCases)
  func canaries(canary: SimulationCanary) throws {
    let broken = try (1...10).contains { seed in
      try !run(seed: seed, canary: canary).violations.isEmpty
    }
    #expect(broken, "no seed from 1 to 10 notices \(canary.rawValue)")
  }
}
