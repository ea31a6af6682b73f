import ApusCore
import ApusLoop
import ApusModel
import ApusStore

/// Devices from the cache and the store.
extension ShardDriver {
  /// The device as the cache or the store knows it; without any topic if it never connected.
  func device(_ key: DeviceKey) throws(StoreError) -> Device {
    if let device = cache[key] { return device }
    if let folded = cache.unfold(key) {
      let device = make(key, folded.record)
      if let stored = folded.stored {
        shard.loadStored(stored.map { StoredFacts(facts: $0) }, of: device)
      }
      return remember(device)
    }
    let bytes = DeviceRecord.key(key.id, key.environment)
    guard let value = try worker.store.get(.devices, key: bytes.span) else {
      // Remembered as unknown, so that a provider who keeps asking costs no read each time.
      let stranger = Device(key: key, registration: Registration())
      stranger.knowsStored = true
      return remember(stranger)
    }
    let decoded: DeviceRecord
    do {
      decoded = try DeviceRecord(decoding: value.span)
    } catch {
      throw .corrupted(
        path: worker.configuration.dataDirectory,
        detail: "record of device \(key.id.text): \(error)")
    }
    return remember(make(key, decoded))
  }

  private func make(_ key: DeviceKey, _ record: DeviceRecord) -> Device {
    let device = Device(key: key, registration: Registration(topics: record.topics))
    if record.fingerprint != .none { device.keyFingerprint = record.fingerprint.bytes }
    device.issuedSeconds = record.issuedSeconds
    return device
  }

  private func remember(_ device: Device) -> Device {
    device.retiredMilliseconds = worker.trust.directory.retiredMilliseconds(of: device.key.id)
    cache.insert(device)
    return device
  }

  /// The device, made known if this is its first connection.
  func connect(
    _ key: DeviceKey, fingerprint: [UInt8], issuedSeconds: Int64, slot: Int32
  ) throws(StoreError) -> Device {
    let device = try device(key)
    cache.keep(device)
    if device.session != nil {
      shard.disconnect(device, loopMilliseconds: worker.loop.nowMilliseconds)
    }
    shard.connect(device, slot: slot)
    if device.keyFingerprint != fingerprint || device.issuedSeconds < issuedSeconds {
      device.keyFingerprint = fingerprint
      device.issuedSeconds = max(device.issuedSeconds, issuedSeconds)
      shard.recordChanged(device)
    }
    return device
  }

  func disconnect(_ device: Device) {
    shard.disconnect(device, loopMilliseconds: worker.loop.nowMilliseconds)
    cache.letGo(device)
  }
}
