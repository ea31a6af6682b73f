import ApusRandom

/// Reports arrivals at one device to the oracle, except those that a canary loses or delays.
struct ArrivalReports {
  /// Reported after the next one.
  private var delayed: DeliveryOracle.Arrival?
  /// By serial number: never reported, and neither are their acknowledgements.
  private var lost: [Int: DeliveryOracle.Arrival] = [:]

  mutating func pass(
    _ arrival: DeliveryOracle.Arrival, to world: Simulation, _ random: inout SeededRandom
  ) {
    guard !hasLost(arrival.serial) else { return }
    switch world.options.canary {
    case .losesDrained where loses(arrival, world, &random):
      return lost[arrival.serial] = arrival
    case .swapsOrder where delayed == nil && random.chance(1, in: 20): return delayed = arrival
    default: world.oracle.delivered(arrival)
    }
    guard let late = delayed else { return }
    delayed = nil
    world.oracle.delivered(late)
  }

  func hasLost(_ serial: Int) -> Bool { lost[serial] != nil }

  /// Only what newer ones might have replaced: the loss of anything else is noticed as soon as something newer arrives.
  private func loses(
    _ arrival: DeliveryOracle.Arrival, _ world: Simulation, _ random: inout SeededRandom
  ) -> Bool {
    arrival.isFromStorage && world.oracle.mayLoseUnnoticed(arrival.serial)
      && random.chance(1, in: 2)
  }

  /// The world is about to end: reports what was lost and never followed by a push to the same device and app. Such a
  /// loss would be noticed without knowing when the device must have had the notification.
  mutating func giveBack(to world: Simulation) {
    for (serial, arrival) in lost.sorted(by: { $0.key < $1.key })
    where !world.oracle.hasLaterPush(serial) {
      world.oracle.delivered(arrival)
      world.oracle.acknowledged(serial)
      lost[serial] = nil
    }
  }
}
