import ApusTesting

extension Sim {
  private static let seedsOfCanary: ClosedRange<UInt64> = 1...30

  /// Breaks each rule on purpose, and returns true if the law about it reports each.
  static func runCanaries() throws -> Bool {
    var isGood = true
    for canary in SimulationCanary.allCases {
      if let seed = try canary.firstReport(under: seedsOfCanary) {
        print("\(canary.rawValue): law \(canary.law.rawValue), seed \(seed)")
      } else {
        print("\(canary.rawValue): no seed of \(seedsOfCanary) breaks law \(canary.law.rawValue)")
        isGood = false
      }
    }
    return isGood
  }
}
