import ApusCore
import ApusModel
import ApusStore

/// The devices that were looked at lately.
///
/// Connected devices stay. The others live in two generations: what is used moves to the younger one, and when that
/// has its share of the bytes the older one is forgotten and they change places. So the cache is bounded without a list
/// to keep in order.
/// What is forgotten there is folded, and in that form stays for much longer.
///
/// One table for all of them, as each notification looks its device up: a place of the table says of which generation
/// its device is. Nothing is ever taken out of it alone, so a search ends at the first free place.
struct DeviceCache {
  private enum Generation: UInt8 {
    case connected
    case recent
    case older
  }

  private struct Place {
    var key: DeviceKey
    var generation: Generation
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
        key: DeviceKey(id: DeviceID(0), environment: .production), generation: .older,
        weight: 0, device: nil)
    }
  }

  /// A power of two of them, at most half of them taken.
  private var places = [Place](repeating: .free, count: 16)
  private var takenCount = 0
  private var recentBytes = 0

  /// Bytes that the younger generation may take.
  private let generationBytes: Int
  private var folded: FoldedDevices

  /// - Parameter byteCount: about as many bytes are taken by devices that are not connected: a quarter by those that
  ///   were looked at lately, the rest by those that are folded.
  init(byteCount: Int) {
    generationBytes = byteCount / 8
    folded = FoldedDevices(byteCount: byteCount / 4 * 3)
  }

  /// Takes the device out of those that are folded.
  mutating func unfold(_ key: DeviceKey) -> FoldedDevice? { folded.take(key) }

  /// Bytes that a device takes, about: the object, its places here and what the allocator adds (measured with one
  /// topic), its topics, and what is known to be stored for it.
  static func weight(of device: Device) -> Int {
    576 + 40 * device.registration.topics.count + 112 * device.stored.count
  }

  subscript(key: DeviceKey) -> Device? {
    mutating get {
      let index = index(of: key)
      guard let device = places[index].device else { return nil }
      if places[index].generation == .older { put(device, .recent, at: index) }
      return device
    }
  }

  /// The device of that key, if it is here; what was used before is not thereby used.
  func peek(_ key: DeviceKey) -> Device? { places[index(of: key)].device }

  /// Reads the place of `key`, and what stands first in its device: two lines of the processor's cache, as many as the
  /// properties that each notification looks at. Raw memory, because a reference would be counted, and processors do
  /// not count ahead.
  func warm(_ key: DeviceKey) -> UInt {
    let place = unsafe unsafeBitCast(places[index(of: key)].device, to: UInt.self)
    guard let object = unsafe UnsafeRawPointer(bitPattern: place) else { return 0 }
    return unsafe object.load(as: UInt.self) &+ object.load(fromByteOffset: 64, as: UInt.self)
  }

  mutating func insert(_ device: Device) { put(device, .recent, at: index(of: device.key)) }

  /// The device is connected: it must not be forgotten.
  mutating func keep(_ device: Device) { put(device, .connected, at: index(of: device.key)) }

  mutating func letGo(_ device: Device) { insert(device) }

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
  private static func start(of key: DeviceKey) -> Int {
    let mixed = (key.id.rawValue ^ UInt64(key.environment.rawValue)) &* 0xd6e8_feb8_6659_fd93
    return Int(truncatingIfNeeded: mixed &>> 32)
  }

  private mutating func put(_ device: Device, _ generation: Generation, at index: Int) {
    if places[index].device == nil {
      takenCount += 1
    } else if places[index].generation == .recent {
      recentBytes -= Int(places[index].weight)
    }
    let weight = Self.weight(of: device)
    places[index] = Place(
      key: device.key, generation: generation, weight: UInt32(clamping: weight), device: device)
    if generation == .recent { recentBytes += weight }
    if recentBytes > generationBytes { age() }
    if takenCount * 2 > places.count { rebuild(places) }
  }

  /// The older generation is forgotten, and the younger one becomes it.
  private mutating func age() {
    var kept: [Place] = []
    recentBytes = 0
    for var place in places {
      guard let device = place.device else { continue }
      switch place.generation {
      case .connected: break
      case .recent: place.generation = .older
      case .older:
        // Two objects for one device would not know of each other's writes: who has some pending stays.
        guard device.pendingWrites > 0 else {
          if device.isAtRest { folded.fold(device) }
          continue
        }
        place.generation = .recent
        recentBytes += Int(place.weight)
      }
      kept.append(place)
    }
    rebuild(kept)
  }

  /// Makes a table of what is taken among `kept`, with room for as much again.
  private mutating func rebuild(_ kept: [Place]) {
    takenCount = kept.reduce(0) { $1.device == nil ? $0 : $0 + 1 }
    var count = 16
    while count < takenCount * 4 { count *= 2 }
    places = [Place](repeating: .free, count: count)
    for place in kept where place.device != nil { places[index(of: place.key)] = place }
  }
}
