import ApusRandom

/// Reports arrivals at one device to the oracle, except those that a canary loses or delays.
struct ArrivalReports {
  /// Reported after the next one.
  private var delayed: DeliveryOracle.Arrival?

  mutating func pass(
    _ arrival: DeliveryOracle.Arrival, to world: Simulation, _ random: inout SeededRandom
  ) {
    switch world.options.canary {
    case .losesDrained where arrival.isFromStorage && random.chance(1, in: 20): return
    case .swapsOrder where delayed == nil && random.chance(1, in: 20): return delayed = arrival
    default: world.oracle.delivered(arrival)
    }
    guard let late = delayed else { return }
    delayed = nil
    world.oracle.delivered(late)
  }
}
