import ApusModel

/// Retired devices that are still to be processed. Processing is rate-limited: each device costs reads of the store,
/// and at a start there may be many.
struct RetirementQueue {
  private var waiting: [DeviceID] = []
  private var second: UInt64 = 0
  private var taken = 0

  /// Devices per second.
  private static let rate = 256

  mutating func append(_ devices: some Sequence<DeviceID>) { waiting.append(contentsOf: devices) }

  /// The next device; nil if none waits, or if this second's limit is reached.
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
