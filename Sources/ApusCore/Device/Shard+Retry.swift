// What a failing disk refused, and for what nobody asks again, is tried again once a second: a device that stays
// connected must not wait for its next connection, and a disk that stays away must not keep the processor busy.

extension Shard {
  /// What waits for the device could not be read. Its session goes on with what comes, and the drain is repeated.
  package mutating func drainFailed(_ device: Device, loopMilliseconds: UInt64) {
    drained(device, [], more: false, loopMilliseconds: loopMilliseconds)
    guard device.session != nil else { return }
    device.mustDrainAgain = true
    retryLater(device)
  }

  /// The device's record could not be written. Tokens that it makes good wait for it.
  mutating func recordFailed(_ device: Device) {
    if device.recordVersion > device.durableRecordVersion { retryLater(device) }
  }

  private mutating func retryLater(_ device: Device) {
    guard !device.awaitsRetry else { return }
    device.awaitsRetry = true
    retries.append(device)
  }

  /// Tries it again.
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
