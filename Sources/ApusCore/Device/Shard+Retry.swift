// Operations that a failing disk refused and that no other event repeats are retried once a second: a device that
// stays connected must not wait for its next connection, and a disk that keeps failing must not keep the processor
// busy.

extension Shard {
  /// The device's stored notifications could not be read. Its session goes on with new ones, and the drain is
  /// repeated.
  package mutating func drainFailed(_ device: Device, loopMilliseconds: UInt64) {
    drained(device, [], more: false, loopMilliseconds: loopMilliseconds)
    guard device.session != nil else { return }
    device.mustDrainAgain = true
    retryLater(device)
  }

  /// The device's record could not be written. Tokens that depend on it wait for it.
  mutating func recordFailed(_ device: Device) {
    if device.recordVersion > device.durableRecordVersion { retryLater(device) }
  }

  private mutating func retryLater(_ device: Device) {
    guard !device.awaitsRetry else { return }
    device.awaitsRetry = true
    retries.append(device)
  }

  /// Retries all of them.
  package mutating func retry() {
    guard !retries.isEmpty else { return }
    let devices = retries
    retries.removeAll(keepingCapacity: devices.count <= 1024)
    for device in devices {
      device.awaitsRetry = false
      if device.recordVersion > device.durableRecordVersion { group.record(device) }
      guard device.mustDrainAgain else { continue }
      device.mustDrainAgain = false
      device.session?.drainAgain()
      mark(dirty: device)
    }
  }
}
