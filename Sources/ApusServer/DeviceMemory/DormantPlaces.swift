import ApusCore

/// Finds the slots of dormant devices by their keys: 8 to 16 bytes each. The keys are in the rows; callers pass a
/// closure that reads them.
struct DormantPlaces {
  /// The slot plus one and, in the bits above, a part of the hash, so that a search rarely reads rows of other keys.
  private struct Entry: HashTableEntry {
    var word: UInt32

    static let free = Entry(word: 0)
    var isFree: Bool { word == 0 }
    var slot: Int { Int(word & DormantPlaces.slotMask) - 1 }
  }

  private var table = HashTable<Entry>()

  private static let slotBits: UInt32 = 26
  private static let slotMask: UInt32 = 1 << slotBits - 1
  /// The first slot that does not fit.
  static let slotLimit = Int32(slotMask)

  var count: Int { table.count }

  func slot(of key: DeviceKey, keyAt: (Int) -> DeviceKey) -> Int32? {
    let tag = Self.tag(key.tableHash)
    let index = table.index(key.tableHash) { index in
      let place = table[index]
      return place.word & ~Self.slotMask == tag && keyAt(place.slot) == key
    }
    let place = table[index]
    return place.isFree ? nil : Int32(place.slot)
  }

  /// Adds the device of `key`, which must not be present.
  mutating func enter(_ slot: Int32, _ key: DeviceKey, keyAt: (Int) -> DeviceKey) {
    let index = table.index(key.tableHash) { _ in false }
    table.insert(Entry(word: UInt32(slot + 1) | Self.tag(key.tableHash)), at: index) {
      keyAt($0.slot).tableHash
    }
  }

  /// Removes the device of a slot; its key must still be readable.
  mutating func leave(_ slot: Int32, keyAt: (Int) -> DeviceKey) {
    let index = table.index(keyAt(Int(slot)).tableHash) { table[$0].slot == Int(slot) }
    table.remove(at: index) { keyAt($0.slot).tableHash }
    _ = table.shrink { keyAt($0.slot).tableHash }
  }

  private static func tag(_ hash: Int) -> UInt32 {
    UInt32(truncatingIfNeeded: hash) & ~slotMask
  }
}
