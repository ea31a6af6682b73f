import ApusCore
import ApusLoop
import ApusModel
import ApusStore

/// Devices that come and go.
extension ShardDriver {
  /// Connects the device, and creates its record if this is its first connection.
  func connect(
    _ key: DeviceKey, fingerprint: [UInt8], issuedSeconds: Int64, slot: Int32
  ) throws(StoreError) -> Device {
    let device = try memory.recall(key)
    if device.session != nil {
      shard.disconnect(device, loopMilliseconds: context.loop.nowMilliseconds)
    }
    shard.connect(device, slot: slot)
    memory.keep(device)
    if device.keyFingerprint != fingerprint || device.issuedSeconds < issuedSeconds {
      device.keyFingerprint = fingerprint
      device.issuedSeconds = max(device.issuedSeconds, issuedSeconds)
      shard.recordChanged(device)
    }
    return device
  }

  func disconnect(_ device: Device) {
    shard.disconnect(device, loopMilliseconds: context.loop.nowMilliseconds)
    device.lastSeenMilliseconds = context.wallMilliseconds
    memory.keep(device)
  }
}
