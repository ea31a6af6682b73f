import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusStore

/// Reads devices from the cache and the store.
extension ShardDriver {
  /// The device from memory or the store, complete; without topics if it never connected.
  ///
  /// For a device that connects, or for a single look-up. The device itself stays in memory, so the store does not
  /// cache its record and the records of other devices beside it.
  func device(_ key: DeviceKey) throws(StoreError) -> Device {
    let device = try known(key, once: true)
    if device.isAbridged { try complete(device, once: true) }
    return device
  }

  /// The same, with enough of the device to judge `claims`; usually this needs no read of the store.
  func device(judging claims: TokenClaims) throws(StoreError) -> Device {
    let device = try known(DeviceKey(id: claims.device, environment: claims.environment))
    if !device.canJudge(claims) { try complete(device) }
    return device
  }

  /// The device, complete or abridged: enough to handle its stored notifications.
  func known(_ key: DeviceKey, once: Bool = false) throws(StoreError) -> Device {
    if let device = cache[key] ?? awakened(key) { return device }
    if let device = cache.unabridge(key) { return remember(device) }
    guard let remembered = cache.unfold(key) else {
      return try read(key, stored: nil, once: once)
    }
    let stored = remembered.stored?.map { StoredFacts(facts: $0) }
    let device: Device
    if let record = remembered.record {
      device = cache.makeDevice(key, Registration())
      fill(device, record)
    } else if let registration = remembered.registration {
      device = cache.makeDevice(key, registration)
      device.isAbridged = true
    } else {
      return try read(key, stored: stored, once: once)
    }
    if let stored { device.loadStored(stored) }
    return remember(device)
  }

  private func read(
    _ key: DeviceKey, stored: [StoredFacts]?, once: Bool
  ) throws(StoreError) -> Device {
    let record = try record(key, once: once)
    let device = cache.makeDevice(key, Registration())
    if let record {
      fill(device, record)
      if let stored { device.loadStored(stored) }
    } else {
      // Cached as unknown, so that repeated pushes to it cost no reads.
      device.knowsStored = true
    }
    return remember(device)
  }

  /// Reads the parts that an abridged device lacks.
  private func complete(_ device: Device, once: Bool = false) throws(StoreError) {
    if let record = try record(device.key, once: once) { fill(device, record) }
    device.isAbridged = false
  }

  private func record(_ key: DeviceKey, once: Bool) throws(StoreError) -> DeviceRecord? {
    let bytes = DeviceRecord.key(key.id, key.environment)
    guard let value = try context.store.get(.devices, key: bytes.span, once: once) else {
      return nil
    }
    do {
      return try DeviceRecord(decoding: value.span)
    } catch {
      throw .corrupted(
        path: context.configuration.dataDirectory,
        detail: "record of device \(key.id.text): \(error)")
    }
  }

  private func fill(_ device: Device, _ record: DeviceRecord) {
    device.registration = Registration(topics: record.topics)
    if record.fingerprint != .none { device.keyFingerprint = record.fingerprint.bytes }
    device.issuedSeconds = record.issuedSeconds
  }

  private func remember(_ device: Device) -> Device {
    device.retiredMilliseconds = context.trust.directory.retiredMilliseconds(of: device.key.id)
    cache.insert(device)
    return device
  }

  /// Wakes the device and returns it, if it was dormant.
  private func awakened(_ key: DeviceKey) -> Device? {
    guard let slot = dormant.slot(of: key) else { return nil }
    host?.wakeDevice(at: slot)
    return cache.peek(key)
  }

  /// The device, if it is connected or was used lately.
  func present(_ key: DeviceKey) -> Device? { cache.peek(key) ?? awakened(key) }

  /// Connects the device, and creates its record if this is its first connection.
  func connect(
    _ key: DeviceKey, fingerprint: [UInt8], issuedSeconds: Int64, slot: Int32
  ) throws(StoreError) -> Device {
    let device = try device(key)
    cache.keep(device)
    if device.session != nil {
      shard.disconnect(device, loopMilliseconds: context.loop.nowMilliseconds)
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
    shard.disconnect(device, loopMilliseconds: context.loop.nowMilliseconds)
    device.lastSeenMilliseconds = context.wallMilliseconds
    cache.letGo(device)
  }
}
