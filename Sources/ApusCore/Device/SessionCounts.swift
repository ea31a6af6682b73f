package import ApusModel

/// Counts of a worker's connected devices, their power states, and notifications in flight.
///
/// Updated with each change: iterating over a million sessions would delay everything else.
package struct SessionCounts: Sendable {
  /// Indexed by the raw values of the environments.
  private var byEnvironment = InlineArray<2, Int>(repeating: 0)
  /// Indexed by the raw values of the power states.
  private var byPower = InlineArray<3, Int>(repeating: 0)
  /// Notifications sent to devices and not yet acknowledged.
  package private(set) var inFlight = 0

  package init() {}

  /// Those of both environments, of all power states, and ``inFlight``.
  package var numbers: [Int] {
    byEnvironment.indices.map { byEnvironment[$0] } + byPower.indices.map { byPower[$0] } + [
      inFlight
    ]
  }

  /// From ``numbers``; nil for anything else.
  package init?(numbers: [Int]) {
    guard numbers.count == byEnvironment.count + byPower.count + 1 else { return nil }
    for index in byEnvironment.indices { byEnvironment[index] = numbers[index] }
    for index in byPower.indices { byPower[index] = numbers[byEnvironment.count + index] }
    inFlight = numbers[numbers.count - 1]
  }

  /// Connected devices.
  package var connected: Int { byEnvironment[0] + byEnvironment[1] }
  package subscript(environment: Environment) -> Int { byEnvironment[Int(environment.rawValue)] }
  package subscript(power: PowerState) -> Int { byPower[Int(power.rawValue)] }

  mutating func begin(_ environment: Environment, _ session: DeviceSession) {
    count(environment, session, 1)
  }

  mutating func end(_ environment: Environment, _ session: DeviceSession) {
    count(environment, session, -1)
    inFlight -= session.inFlightCount
  }

  private mutating func count(
    _ environment: Environment, _ session: DeviceSession, _ change: Int
  ) {
    byEnvironment[Int(environment.rawValue)] += change
    byPower[Int(session.power.rawValue)] += change
  }

  mutating func change(_ old: PowerState, to new: PowerState) {
    byPower[Int(old.rawValue)] -= 1
    byPower[Int(new.rawValue)] += 1
  }

  mutating func sent() { inFlight += 1 }
  mutating func answered() { inFlight -= 1 }

  package static func + (left: SessionCounts, right: SessionCounts) -> SessionCounts {
    var sum = left
    for index in sum.byEnvironment.indices {
      sum.byEnvironment[index] += right.byEnvironment[index]
    }
    for index in sum.byPower.indices { sum.byPower[index] += right.byPower[index] }
    sum.inFlight += right.inFlight
    return sum
  }
}
