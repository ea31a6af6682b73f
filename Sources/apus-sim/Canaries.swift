import ApusTesting

extension Sim {
  private static let seedsOfCanary: ClosedRange<UInt64> = 1...30

  /// Breaks each rule on purpose, and returns true if the law about it reports each.
  static func runCanaries() throws -> Bool {
    var isGood = true
    for canary in SimulationCanary.allCases {
      if let seed = try firstReport(of: canary) {
        print("\(canary.rawValue): law \(canary.law.rawValue), seed \(seed)")
      } else {
        print("\(canary.rawValue): no seed of \(seedsOfCanary) breaks law \(canary.law.rawValue)")
        isGood = false
      }
    }
    return isGood
  }

  /// The first seed under which the right law reports the broken rule.
  private static func firstReport(of canary: SimulationCanary) throws -> UInt64? {
    try seedsOfCanary.first { seed in
      var options = Simulation.Options(seed: seed, seconds: 300)
      options.canary = canary
      return try Simulation(options).run().violations.contains { $0.law == canary.law }
    }
  }
}
