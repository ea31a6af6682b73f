import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusStore

/// What the memory of devices asks of its worker.
protocol DormantHost: AnyObject {
  /// Recreates the objects of a dormant device.
  func wakeDevice(at slot: Int32)
}

/// Every device that a worker knows of, in whichever form it is kept: as an object, as a row of the dormant ones, in
/// one of two short forms, or only in the store. ARCHITECTURE.md draws the states.
///
/// Everybody else works with objects, and with one pair of operations: `recall` makes a device an object wherever it
/// was, and `keep` says that it is to stay one for as long as it is connected, or else for as long as it is used.
final class DeviceMemory {
  let dormant = DormantDevices()
  /// A strong reference, which `ShardDriver.dismantle` clears.
  var host: (any DormantHost)?
  private let context: WorkerContext
  private var cache: DeviceCache
  private var readAhead: ReadAhead?
  /// Stored, so that the compiler does not remove the reads of `prefetch`.
  private var prefetched: UInt = 0

  /// - Parameter byteCount: bytes of what is remembered of devices that are not connected.
  init(_ context: WorkerContext, byteCount: Int) {
    self.context = context
    cache = DeviceCache(byteCount: byteCount, needsIDs: context.configuration.ledger != .off)
    readAhead = ReadAhead(loop: context.loop) { [unowned self] in readOn() }
  }

  // MARK: Recalling

  /// How much of a device is needed.
  enum Extent {
    /// All of it: the device connects, or is looked up once. As it stays in memory then, the store does not cache its
    /// record and the records of other devices beside it.
    case whole
    /// Enough to handle its stored notifications. Usually this needs no read of the store.
    case stored
  }

  /// The device; without topics if it never connected.
  func recall(_ key: DeviceKey, _ extent: Extent = .whole) throws(StoreError) -> Device {
    let isWhole = extent == .whole
    let device = try known(key, once: isWhole)
    if isWhole, device.isAbridged { try complete(device, once: true) }
    return device
  }

  /// The same, with enough of the device to judge `claims`. Usually this needs no read of the store.
  func recall(judging claims: TokenClaims) throws(StoreError) -> Device {
    let device = try known(DeviceKey(id: claims.device, environment: claims.environment))
    if !device.canJudge(claims) { try complete(device) }
    return device
  }

  /// The device, if it is connected or was used lately.
  func present(_ key: DeviceKey) -> Device? { cache.peek(key) ?? awakened(key) }

  /// The same without waking it, and without counting as a use.
  func peek(_ key: DeviceKey) -> Device? { cache.peek(key) }

  /// The device, if it is connected and awake or was used lately, without retaining it: valid until the memory is next
  /// used.
  func uncounted(_ key: DeviceKey) -> Unmanaged<Device>? { unsafe cache.uncounted(key) }

  private func known(_ key: DeviceKey, once: Bool = false) throws(StoreError) -> Device {
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
      // Kept as unknown, so that repeated pushes to it cost no reads.
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
    keep(device)
    return device
  }

  // MARK: Keeping

  /// Keeps the object of a device while it is connected, and afterwards until others were used more lately. To be
  /// called when it has connected, woken or disconnected.
  func keep(_ device: Device) {
    if device.session == nil { cache.insert(device) } else { cache.keep(device) }
  }

  /// Frees objects that are kept for reuse.
  func forgetSpare() { cache.forgetSpare() }

  // MARK: Dormant devices

  /// Keeps a row instead of the device's object. The row's slot and listener are reserved.
  func keep(_ row: consuming DormantRow, at slot: Int32) {
    let key = row.key
    dormant.insert(row, at: slot)
    cache.release(key)
  }

  /// Makes the dormant device of a slot an object, as it was. Its row stays until `woken` is called.
  func wake(_ slot: Int32) -> Device {
    let index = Int(slot)
    let device = cache.makeDevice(dormant.rows[index].key, dormant.rows[index].registration)
    dormant.rows[index].restore(device, slot: slot)
    return device
  }

  func woken(_ device: Device, _ slot: Int32) {
    dormant.remove(at: slot)
    keep(device)
  }

  /// Wakes the device and returns it, if it was dormant.
  private func awakened(_ key: DeviceKey) -> Device? {
    guard let slot = dormant.slot(of: key) else { return nil }
    host?.wakeDevice(at: slot)
    return cache.peek(key)
  }

  // MARK: Prefetching

  /// Reads the starts of the devices of a batch, many at the same time instead of one after the other, because they are
  /// scattered in memory. This only affects speed.
  func prefetch(_ batch: [TokenClaims?]) {
    for case let claims? in batch where context.owns(claims.device) { prefetch(claims) }
  }

  /// The same for one device of a batch.
  func prefetch(_ claims: TokenClaims) {
    let key = DeviceKey(id: claims.device, environment: claims.environment)
    prefetched &+= cache.prefetch(key) &+ dormant.prefetch(key)
  }

  // MARK: Reading ahead

  /// Leaves what was not read yet to the first use of each device.
  func stopReadingAhead() { readAhead = nil }

  /// Reads the next page of the table of devices.
  ///
  /// Reading in the table's order costs a tenth of looking each device up when a notification arrives. A page reflects
  /// the store at the time of the read. That is current, because any device with pending changes is in the cache.
  private func readOn() {
    guard let cursor = readAhead?.cursor else { return }
    var next: [UInt8]?
    var left = ReadAhead.pageRows
    var read: [DeviceKey] = []
    do {
      try context.store.scan(.devices, prefix: Span(), from: cursor.span) { key, value in
        guard left > 0 else {
          next = key.copied()
          return false
        }
        left -= 1
        if let device = remember(key, value) { read.append(device) }
        return true
      }
      if readAhead?.readsMailbox == true { try readMailbox(of: read) }
    } catch {
      // Ignored: the first use of such a device meets the same error, and reports it.
    }
    if let next, !cache.isFull { readAhead?.cursor = next } else { readAhead = nil }
  }

  /// Keeps the device, and returns its key if it was not known.
  private func remember(_ keyBytes: Span<UInt8>, _ value: Span<UInt8>) -> DeviceKey? {
    guard let key = try? DeviceRecord.decode(key: keyBytes), context.owns(key.device) else {
      return nil
    }
    let place = DeviceKey(id: key.device, environment: key.environment)
    guard !cache.remembers(place), dormant.slot(of: place) == nil else { return nil }
    cache.readAhead(place, record: value)
    return place
  }

  /// Finds the devices of a page, in the order of their ids, for which nothing is stored. These are usually most of
  /// them, and one scan of the mailbox finds them all. Gives up if much is stored, because the scan would read too
  /// much.
  private func readMailbox(of devices: [DeviceKey]) throws(StoreError) {
    guard let first = devices.first, let last = devices.last else { return }
    var place = 0
    var left = ReadAhead.pageNotifications
    let start = first.id.storeKey
    try context.store.scan(.mailbox, prefix: Span(), from: start.span) { key, _ in
      guard let id = try? MailboxKey(decoding: key).device.rawValue else {
        left = 0
        return false
      }
      guard id <= last.id.rawValue else { return false }
      while place < devices.count, devices[place].id.rawValue < id {
        cache.noteNothingStored(for: devices[place])
        place += 1
      }
      while place < devices.count, devices[place].id.rawValue == id { place += 1 }
      left -= 1
      return left > 0
    }
    guard left > 0 else {
      readAhead?.readsMailbox = false
      return
    }
    for device in devices[place...] { cache.noteNothingStored(for: device) }
  }
}
