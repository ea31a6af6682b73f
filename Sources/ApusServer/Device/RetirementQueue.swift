import ApusModel

/// Retired devices whose turn is still to come: each costs reads of the store, and there may be many at a start.
struct RetirementQueue {
  private var waiting: [DeviceID] = []
  private var second: UInt64 = 0
  private var taken = 0

  /// Devices a second.
  private static let rate = 256

  mutating func append(_ devices: some Sequence<DeviceID>) { waiting.append(contentsOf: devices) }

  /// The next device; nil when none waits, or when this second has had its share.
  mutating func next(atSeconds now: UInt64) -> DeviceID? {
    if now != second {
      second = now
      taken = 0
    }
    guard taken < Self.rate, let device = waiting.popLast() else { return nil }
    taken += 1
    return device
  }
}
