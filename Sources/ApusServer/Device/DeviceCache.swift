import ApusCore
import ApusModel
import ApusStore

/// The devices that were looked at lately.
///
/// Connected devices stay. The others live in two generations: what is used moves to the younger one, and when that
/// has its share of the bytes the older one is forgotten and they change places. So the cache is bounded without a list
/// to keep in order.
/// What is forgotten there is abridged or folded, and in that form stays for much longer.
///
/// One table for all of them, as each notification looks its device up: a place of the table says of which generation
/// its device is.
///
/// Not copyable: methods that do not mutate would be called on a copy, with a count for each of its tables.
struct DeviceCache: ~Copyable {
  private struct Place {
    var key: DeviceKey
    /// The number of its generation; 0 while it is connected.
    var generation: UInt32
    /// Bytes of the device when it came here: it grows while it is connected, and does not count then.
    var weight: UInt32
    /// Nil where the place is free.
    var device: Device?

    /// Spelled out: the comparison that another module derives is a call.
    func isOf(_ other: DeviceKey) -> Bool {
      key.id.rawValue == other.id.rawValue
        && key.environment.rawValue == other.environment.rawValue
    }

    static var free: Place {
      Place(
        key: DeviceKey(id: DeviceID(0), environment: .production), generation: 0, weight: 0,
        device: nil)
    }
  }

  /// A power of two of them, at most half of them taken.
  private var places = [Place](repeating: .free, count: 16)
  private var takenCount = 0
  private var recentBytes = 0
  /// The number of the younger generation.
  private var generation: UInt32 = 1
  /// Who came to be of each; some are no more.
  private var younger: [DeviceKey] = []
  private var older: [DeviceKey] = []

  /// Objects of devices that were forgotten, for the next ones: together with the younger generation no more than that
  /// has when it is full.
  private var spare: [Device] = []

  /// Bytes that the younger generation may take.
  private let generationBytes: Int
  /// Bytes that make the next generation: more where many devices have writes pending, so that they are not looked
  /// through for each that comes.
  private var agingBytes: Int
  /// What is never stored would not be read.
  private var warmth: UInt = 0
  private var abridged: AbridgedDevices
  private var folded: FoldedDevices

  /// - Parameter byteCount: about as many bytes are taken by devices that are not connected: an eighth by those that
  ///   were looked at lately; of the rest five sevenths by those that are abridged, or where ids are needed by those
  ///   that are folded.
  /// - Parameter needsIDs: whether the ids of what is stored will be asked for.
  init(byteCount: Int, needsIDs: Bool = true) {
    generationBytes = byteCount / 16
    agingBytes = generationBytes
    let (much, little) = (byteCount / 8 * 5, byteCount / 4)
    abridged = AbridgedDevices(byteCount: needsIDs ? little : much, needsIDs: needsIDs)
    folded = FoldedDevices(byteCount: needsIDs ? much : little)
  }

  /// What is remembered of a device that was not looked at lately.
  struct Remembered {
    /// Nil where it is not known, or not whole.
    var record: DeviceRecord?
    /// What stands in for the record; nil where not even that is known.
    var registration: Registration?
    /// Nil where it is not known.
    var stored: [NotificationFacts]?
  }

  /// An object for a device that is not in the cache.
  mutating func makeDevice(_ key: DeviceKey, _ registration: Registration) -> Device {
    guard let device = spare.popLast() else { return Device(key: key, registration: registration) }
    device.renew(key, registration)
    return device
  }

  /// Frees the objects that are kept for the next devices.
  mutating func forgetSpare() { spare = [] }

  /// Takes the device out of those that are abridged. Nil where it is not there, or where more may be known of it: then
  /// `unfold` says all.
  mutating func unabridge(_ key: DeviceKey) -> Device? {
    guard !folded.mayHave(key), let place = abridged.place(of: key) else { return nil }
    let device = makeDevice(key, abridged.registration(at: place))
    device.isAbridged = true
    let stored = abridged.takeStored(of: key, at: place)
    if stored.isKnown { device.loadStored(only: stored.only) }
    return device
  }

  /// Takes the device out of those that were not looked at lately.
  mutating func unfold(_ key: DeviceKey) -> Remembered? {
    let (short, long) = (abridged.take(key), folded.take(key))
    guard short != nil || long != nil else { return nil }
    return Remembered(
      record: long?.record, registration: short?.registration,
      stored: long?.stored ?? short?.stored)
  }

  /// Puts a device away that is not looked at any more.
  private mutating func fold(_ device: Device) {
    let extent = abridged.put(device)
    guard extent != .all else { return }
    let needsRecord = extent == .nothing && !device.isAbridged
    if needsRecord || device.knowsStored { folded.fold(device, withRecord: needsRecord) }
  }

  // MARK: Ahead

  /// Whether what is read ahead would only take the place of what is remembered.
  var isFull: Bool { abridged.isFull }

  /// Whether anything is known of the device.
  func remembers(_ key: DeviceKey) -> Bool {
    places[index(of: key)].device != nil || abridged.contains(key)
  }

  /// Remembers a device that nobody has asked for, as its record says. An existing folded entry stays valid.
  mutating func readAhead(_ key: DeviceKey, record: Span<UInt8>) {
    abridged.put(key, record: record)
  }

  /// Notes that nothing is stored for a device that was just read ahead.
  mutating func noteNothingStored(for key: DeviceKey) { abridged.noteNothingStored(for: key) }

  /// Bytes that a device takes, about: the object, its places here and what the allocator adds (measured with one
  /// topic), its topics, and what is known to be stored for it.
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

  /// The same, without a count: good until the cache is touched again. Counting up and down is much of what a
  /// notification costs that ends at once.
  mutating func uncounted(_ key: DeviceKey) -> Unmanaged<Device>? {
    let index = index(of: key)
    let generation = places[index].generation
    if generation != 0, generation != self.generation {
      return unsafe self[key].map { unsafe .passUnretained($0) }
    }
    let place = unsafe unsafeBitCast(places[index].device, to: UInt.self)
    return unsafe UnsafeRawPointer(bitPattern: place).map { unsafe .fromOpaque($0) }
  }

  /// The device of that key, if it is here; what was used before is not thereby used.
  func peek(_ key: DeviceKey) -> Device? { places[index(of: key)].device }

  /// Reads the place of `key`, and what stands first in its device: two lines of the processor's cache, as many as the
  /// properties that each notification looks at. Raw memory, because a reference would be counted, and processors do
  /// not count ahead.
  func warm(_ key: DeviceKey) -> UInt {
    let place = unsafe unsafeBitCast(places[index(of: key)].device, to: UInt.self)
    guard let object = unsafe UnsafeRawPointer(bitPattern: place) else { return abridged.warm(key) }
    return unsafe object.load(as: UInt.self) &+ object.load(fromByteOffset: 64, as: UInt.self)
  }

  /// The same for several that are about to be forgotten, and for the places that they get among the abridged.
  private mutating func warm(_ keys: ArraySlice<DeviceKey>) {
    var sum: UInt = 0
    for key in keys { sum &+= warm(key) &+ abridged.warm(key) }
    warmth = sum
  }

  /// How many: each has a dozen lines of the processor's cache.
  private static let warmedAtOnce = 32

  mutating func insert(_ device: Device) { put(device, generation, at: index(of: device.key)) }

  /// The device is connected: it must not be forgotten.
  mutating func keep(_ device: Device) { put(device, 0, at: index(of: device.key)) }

  mutating func letGo(_ device: Device) { insert(device) }

  /// Forgets a connected device, which its owner keeps elsewhere.
  mutating func release(_ key: DeviceKey) {
    let index = index(of: key)
    guard places[index].device != nil else { return }
    remove(at: index)
    guard takenCount * 16 < places.count, places.count > 16 else { return }
    rebuild()
    // Who came to be connected stands there still, as all those do who come for the first time.
    let known = younger
    younger = known.filter { places[self.index(of: $0)].generation == generation }
  }

  // MARK: The table

  /// The place of `key`, or the free one where it would stand.
  private func index(of key: DeviceKey) -> Int {
    var index = Self.start(of: key) & (places.count - 1)
    while places[index].device != nil, !places[index].isOf(key) {
      index = (index + 1) & (places.count - 1)
    }
    return index
  }

  /// Cheaper than the standard library's hash by far, which is made to withstand keys that an attacker chose: here the
  /// authority of the service drew them. The bits that chose the worker (`Worker.ownerIndex`) are much the same in all
  /// devices of one worker, so these come from another product.
  static func start(of key: DeviceKey) -> Int {
    let mixed = (key.id.rawValue ^ UInt64(key.environment.rawValue)) &* 0xd6e8_feb8_6659_fd93
    return Int(truncatingIfNeeded: mixed &>> 32)
  }

  private mutating func put(_ device: Device, _ generation: UInt32, at index: Int) {
    var wasRecent = false
    if places[index].device == nil {
      takenCount += 1
    } else if places[index].generation == self.generation {
      recentBytes -= Int(places[index].weight)
      wasRecent = true
    }
    let weight = Self.weight(of: device)
    places[index] = Place(
      key: device.key, generation: generation, weight: UInt32(clamping: weight), device: device)
    if generation == self.generation {
      recentBytes += weight
      if !wasRecent { younger.append(device.key) }
    }
    // One that comes and goes stands among the younger ones each time.
    if recentBytes > agingBytes || younger.count > agingBytes / 64 + 64 { age() }
    if takenCount * 2 > places.count { rebuild() }
  }

  /// The older generation is forgotten, and the younger one becomes it.
  private mutating func age() {
    let leaving = older
    let past = generation - 1
    generation += 1
    older = younger
    younger = []
    recentBytes = 0
    for (place, key) in leaving.enumerated() {
      if place % Self.warmedAtOnce == 0 { warm(leaving[place...].prefix(Self.warmedAtOnce)) }
      let index = index(of: key)
      // Who was used or has connected since is of another generation.
      guard places[index].generation == past, var device = places[index].device else { continue }
      // Two objects for one device would not know of each other's writes: who has some pending stays.
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
    if takenCount * 16 < places.count { rebuild() }
  }

  /// Frees a place, and moves those behind it that a search would not find otherwise.
  private mutating func remove(at index: Int) {
    let mask = places.count - 1
    var free = index
    var next = (index + 1) & mask
    while places[next].device != nil {
      let start = Self.start(of: places[next].key) & mask
      if (next - start) & mask >= (next - free) & mask {
        places.swapAt(free, next)
        free = next
      }
      next = (next + 1) & mask
    }
    places[free] = .free
    takenCount -= 1
  }

  /// Makes a table with room for as much again.
  private mutating func rebuild() {
    let old = places
    var count = 16
    while count < takenCount * 4 { count *= 2 }
    places = [Place](repeating: .free, count: count)
    for place in old where place.device != nil { places[index(of: place.key)] = place }
  }
}
