import ApusCore
import ApusModel
import ApusStore

/// The devices that were used lately.
///
/// Connected devices always stay. The others belong to two generations. A device that is used moves to the younger
/// generation. Once that reaches its share of the bytes, the older generation is evicted and the younger becomes the
/// older. This bounds the cache without an ordered list. Evicted devices stay much longer in abridged or folded form.
///
/// All devices share one table, because each notification looks its device up; each place has the generation of its
/// device.
///
/// Noncopyable for speed: otherwise nonmutating methods would be called on a copy, which retains each of the tables.
struct DeviceCache: ~Copyable {
  private struct Entry: HashTableEntry {
    var key: DeviceKey
    /// The number of its generation; 0 while connected.
    var generation: UInt32
    /// Bytes of the device when it was put here. Its growth while connected does not count.
    var weight: UInt32
    /// Nil if the place is free.
    var device: Device?

    /// Written out, because the derived comparison is a call into another module.
    func isOf(_ other: DeviceKey) -> Bool {
      key.id.rawValue == other.id.rawValue
        && key.environment.rawValue == other.environment.rawValue
    }

    var isFree: Bool { device == nil }

    static var free: Entry {
      Entry(
        key: DeviceKey(id: DeviceID(0), environment: .production), generation: 0, weight: 0,
        device: nil)
    }
  }

  private var places = HashTable<Entry>()
  private var recentBytes = 0
  /// The number of the younger generation.
  private var generation: UInt32 = 1
  /// Devices that joined each generation; some have left it since.
  private var younger: [DeviceKey] = []
  private var older: [DeviceKey] = []

  /// Objects of evicted devices, for reuse. Together with the younger generation at most as many as a full generation
  /// has.
  private var spare: [Device] = []

  /// Bytes that the younger generation may take.
  private let generationBytes: Int
  /// Bytes at which a new generation begins. Increased while many devices have writes pending, because otherwise each
  /// further device would cause a scan of all of them.
  private var agingBytes: Int
  /// Stored, so that the compiler does not remove the reads.
  private var prefetched: UInt = 0
  private var abridged: AbridgedDevices
  private var folded: FoldedDevices

  /// - Parameter byteCount: approximate limit for devices that are not connected. An eighth is for those used lately,
  ///   five eighths are for abridged devices and a quarter is for folded ones; if ids are needed, the last two are
  ///   exchanged.
  /// - Parameter needsIDs: whether the ids of stored notifications are needed.
  init(byteCount: Int, needsIDs: Bool = true) {
    generationBytes = byteCount / 16
    agingBytes = generationBytes
    let (much, little) = (byteCount / 8 * 5, byteCount / 4)
    abridged = AbridgedDevices(byteCount: needsIDs ? little : much, needsIDs: needsIDs)
    folded = FoldedDevices(byteCount: needsIDs ? much : little)
  }

  /// What is known of a device that was not used lately.
  struct Remembered {
    /// Nil if unknown or incomplete.
    var record: DeviceRecord?
    /// Without a record: the topics that are known; nil if not even these are.
    var registration: Registration?
    /// Nil if unknown.
    var stored: [NotificationFacts]?
  }

  /// Makes an object for a device that is not in the cache.
  mutating func makeDevice(_ key: DeviceKey, _ registration: Registration) -> Device {
    guard let device = spare.popLast() else { return Device(key: key, registration: registration) }
    device.renew(key, registration)
    return device
  }

  /// Frees the objects that are kept for reuse.
  mutating func forgetSpare() { spare = [] }

  /// Removes the device from the abridged ones and returns it. Nil if it is not there, or is also folded: then use
  /// `unfold`.
  mutating func unabridge(_ key: DeviceKey) -> Device? {
    guard !folded.has(key), let place = abridged.place(of: key) else { return nil }
    let device = makeDevice(key, abridged.registration(at: place))
    device.isAbridged = true
    let stored = abridged.takeStored(of: key, at: place)
    if stored.isKnown { device.loadStored(only: stored.only) }
    return device
  }

  /// Removes the device from the abridged and folded ones, and returns what they had.
  mutating func unfold(_ key: DeviceKey) -> Remembered? {
    let (short, long) = (abridged.take(key), folded.take(key))
    guard short != nil || long != nil else { return nil }
    return Remembered(
      record: long?.record, registration: short?.registration,
      stored: long?.stored ?? short?.stored)
  }

  /// Keeps an evicted device in a shorter form.
  private mutating func fold(_ device: Device) {
    let extent = abridged.put(device)
    guard extent != .all else { return }
    let needsRecord = extent == .nothing && !device.isAbridged
    if needsRecord || device.knowsStored { folded.fold(device, withRecord: needsRecord) }
  }

  // MARK: Read ahead

  /// Whether a device read ahead would only evict another.
  var isFull: Bool { abridged.isFull }

  /// Whether anything is known of the device.
  func remembers(_ key: DeviceKey) -> Bool {
    places[index(of: key)].device != nil || abridged.contains(key)
  }

  /// Keeps the record of a device that was read ahead. An existing folded entry stays valid.
  mutating func readAhead(_ key: DeviceKey, record: Span<UInt8>) {
    abridged.put(key, record: record)
  }

  /// Notes that nothing is stored for a device that was just read ahead.
  mutating func noteNothingStored(for key: DeviceKey) { abridged.noteNothingStored(for: key) }

  /// Approximate bytes of a device: the object, its places here and the allocator's overhead (measured with one topic),
  /// its topics, and its known stored notifications.
  static func weight(of device: Device) -> Int {
    576 + 40 * device.registration.topics.count + 112 * device.storedCount
  }

  subscript(key: DeviceKey) -> Device? {
    mutating get {
      let index = index(of: key)
      guard let device = places[index].device else { return nil }
      let generation = places[index].generation
      if generation != 0, generation != self.generation { put(device, self.generation, at: index) }
      return device
    }
  }

  /// The same without retaining the device: valid until the cache is next used. Reference counting is much of the cost
  /// of a notification that ends at once.
  mutating func uncounted(_ key: DeviceKey) -> Unmanaged<Device>? {
    let index = index(of: key)
    let generation = places[index].generation
    if generation != 0, generation != self.generation {
      return unsafe self[key].map { unsafe .passUnretained($0) }
    }
    return unsafe uncounted(at: index)
  }

  private func uncounted(at index: Int) -> Unmanaged<Device>? {
    unsafe unsafeBitCast(places[index].device, to: Unmanaged<Device>?.self)
  }

  /// The device of the key, if it is here. Does not count as a use.
  func peek(_ key: DeviceKey) -> Device? { places[index(of: key)].device }

  /// Reads the place of `key` and what each notification reads of its device. Without counting a reference: processors
  /// do not prefetch past a count.
  func prefetch(_ key: DeviceKey) -> UInt {
    guard let device = unsafe uncounted(at: index(of: key)) else { return abridged.prefetch(key) }
    return unsafe device._withUnsafeGuaranteedRef { $0.prefetch() }
  }

  /// The same for several devices that are about to be evicted, and for their places among the abridged ones.
  private mutating func prefetch(_ keys: ArraySlice<DeviceKey>) {
    var sum: UInt = 0
    for key in keys { sum &+= prefetch(key) &+ abridged.prefetch(key) }
    prefetched = sum
  }

  /// Devices at a time: each takes a dozen lines of the processor's cache.
  private static let prefetchedAtOnce = 32

  mutating func insert(_ device: Device) { put(device, generation, at: index(of: device.key)) }

  /// Keeps a connected device, which must not be evicted.
  mutating func keep(_ device: Device) { put(device, 0, at: index(of: device.key)) }

  /// Removes a connected device, which its owner keeps elsewhere.
  mutating func release(_ key: DeviceKey) {
    let index = index(of: key)
    guard places[index].device != nil else { return }
    remove(at: index)
    guard places.shrink(hash: Self.hash) else { return }
    // Drops the keys of devices that have connected since; every new device is listed at first.
    let known = younger
    younger = known.filter { places[self.index(of: $0)].generation == generation }
  }

  // MARK: The table

  /// The place of `key`, or the free place for it.
  private func index(of key: DeviceKey) -> Int {
    places.index(key.tableHash) { places[$0].isOf(key) }
  }

  private static func hash(_ place: Entry) -> Int { place.key.tableHash }

  private mutating func put(_ device: Device, _ generation: UInt32, at index: Int) {
    var wasRecent = false
    let isNew = places[index].isFree
    if !isNew, places[index].generation == self.generation {
      recentBytes -= Int(places[index].weight)
      wasRecent = true
    }
    let weight = Self.weight(of: device)
    let place = Entry(
      key: device.key, generation: generation, weight: UInt32(clamping: weight), device: device)
    if isNew {
      places.insert(place, at: index, hash: Self.hash)
    } else {
      places[index] = place
    }
    if generation == self.generation {
      recentBytes += weight
      if !wasRecent { younger.append(device.key) }
    }
    // A device that repeatedly connects and leaves is listed each time.
    if recentBytes > agingBytes || younger.count > agingBytes / 64 + 64 { age() }
  }

  /// Evicts the older generation; the younger becomes the older.
  private mutating func age() {
    let leaving = older
    let past = generation - 1
    generation += 1
    older = younger
    younger = []
    recentBytes = 0
    for (place, key) in leaving.enumerated() {
      if place % Self.prefetchedAtOnce == 0 {
        prefetch(leaving[place...].prefix(Self.prefetchedAtOnce))
      }
      let index = index(of: key)
      // A device that was used or has connected since is in another generation.
      guard places[index].generation == past, var device = places[index].device else { continue }
      // A device with pending writes stays: two objects for one device would not see each other's writes.
      guard device.pendingWrites == 0 else {
        places[index].generation = generation
        recentBytes += Int(places[index].weight)
        younger.append(key)
        continue
      }
      let isAtRest = device.isAtRest
      if isAtRest { fold(device) }
      remove(at: index)
      if isAtRest, isKnownUniquelyReferenced(&device) { spare.append(device) }
    }
    spare.removeLast(max(0, spare.count - older.count))
    agingBytes = max(generationBytes, 2 * recentBytes)
    _ = places.shrink(hash: Self.hash)
  }

  private mutating func remove(at index: Int) { places.remove(at: index, hash: Self.hash) }
}
