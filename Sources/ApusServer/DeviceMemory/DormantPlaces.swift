import ApusCore

/// Finds the slots of dormant devices by their keys: 8 to 16 bytes each. The keys are in the rows; callers pass a
/// closure that reads them.
struct DormantPlaces {
  /// A power of two of places, at most half of them taken. 0 if free; otherwise the slot plus one and, in the bits
  /// above, a part of the hash, so that a search rarely reads rows of other keys.
  private var places = [UInt32](repeating: 0, count: Self.fewest)
  private(set) var count = 0

  private static let fewest = 16
  private static let slotBits: UInt32 = 26
  private static let slotMask: UInt32 = 1 << slotBits - 1
  /// The first slot that does not fit.
  static let slotLimit = Int32(slotMask)

  func slot(of key: DeviceKey, keyAt: (Int) -> DeviceKey) -> Int32? {
    let hash = DeviceCache.start(of: key)
    var index = hash & (places.count - 1)
    while places[index] != 0 {
      if places[index] & ~Self.slotMask == Self.tag(hash) {
        let slot = Int(places[index] & Self.slotMask) - 1
        if keyAt(slot) == key { return Int32(slot) }
      }
      index = (index + 1) & (places.count - 1)
    }
    return nil
  }

  /// Adds the device of `key`, which must not be present.
  mutating func enter(_ slot: Int32, _ key: DeviceKey, keyAt: (Int) -> DeviceKey) {
    count += 1
    if count * 2 > places.count { rebuild(keyAt) }
    put(slot, key)
  }

  /// Removes the device of a slot; its key must still be readable.
  ///
  /// Moves later devices that a search would otherwise miss.
  mutating func leave(_ slot: Int32, keyAt: (Int) -> DeviceKey) {
    let mask = places.count - 1
    var free = DeviceCache.start(of: keyAt(Int(slot))) & mask
    while places[free] & Self.slotMask != UInt32(slot + 1) { free = (free + 1) & mask }
    var next = (free + 1) & mask
    while places[next] != 0 {
      let start = DeviceCache.start(of: keyAt(Int(places[next] & Self.slotMask) - 1)) & mask
      if (next - start) & mask >= (next - free) & mask {
        places[free] = places[next]
        free = next
      }
      next = (next + 1) & mask
    }
    places[free] = 0
    count -= 1
    if count * 8 < places.count, places.count > Self.fewest { rebuild(keyAt) }
  }

  private mutating func put(_ slot: Int32, _ key: DeviceKey) {
    let hash = DeviceCache.start(of: key)
    var index = hash & (places.count - 1)
    while places[index] != 0 { index = (index + 1) & (places.count - 1) }
    places[index] = UInt32(slot + 1) | Self.tag(hash)
  }

  private static func tag(_ hash: Int) -> UInt32 {
    UInt32(truncatingIfNeeded: hash) & ~slotMask
  }

  /// Makes a table that is at most half full.
  private mutating func rebuild(_ keyAt: (Int) -> DeviceKey) {
    let old = places
    var size = Self.fewest
    while size < count * 2 { size *= 2 }
    places = [UInt32](repeating: 0, count: size)
    for place in old where place != 0 {
      let slot = Int32(place & Self.slotMask) - 1
      put(slot, keyAt(Int(slot)))
    }
  }
}
