import ApusModel

/// Finds devices by their ids in 14 bytes each: a number that stands for what a device has in common with others, and
/// an acceptance order.
///
/// Not a `HashTable`, because that needs the keys: here an id is not stored, which halves the bytes. The table consists
/// of sets. The high bits of an id's hash choose the set. The hash is invertible, so the remaining bits identify the
/// device, and the number takes the place of the bits that the set implies.
///
/// There are two hashes. A device whose first set is getting full goes to its second set if that has more room. With
/// one hash, 7 of 100 devices would be evicted while an eighth of the table is free, and each eviction costs two reads
/// of the store.
///
/// An id may be here twice, with numbers that mean different environments: the caller says which number it looks for.
struct CompactTable {
  /// From the high bits down: the remainder of a hash; then, in as many bits as the set's number has, the device's
  /// number and in the lowest bit which hash was used. 0: free.
  private var words: [UInt64]
  /// The lower 32 and the upper 16 bits of the acceptance order.
  private var lowOrders: [UInt32]
  private var highOrders: [UInt16]
  private var setBits: Int
  private let ways: Int
  private let maximumSetBits: Int
  private(set) var count = 0
  /// Index within a full set of the next device to evict.
  private var turn = 0

  /// Orders are less than this.
  static let orderLimit: UInt64 = 1 << 48
  private static let deviceByteCount = 14
  private static let minimumSetBits = 6
  private static let minimumWays = 8

  /// - Parameter byteCount: bytes of the table at its full size.
  init(byteCount: Int) {
    var bits = Self.minimumSetBits
    let way = Self.deviceByteCount
    while (way * Self.minimumWays) << (bits + 1) <= byteCount { bits += 1 }
    maximumSetBits = bits
    ways = max(Self.minimumWays, byteCount / (way << bits))
    setBits = Self.minimumSetBits
    words = [UInt64](repeating: 0, count: ways << setBits)
    lowOrders = [UInt32](repeating: 0, count: ways << setBits)
    highOrders = [UInt16](repeating: 0, count: ways << setBits)
  }

  /// Whether another device would probably evict one.
  var isFull: Bool { setBits == maximumSetBits && count >= words.count / 8 * 7 }

  /// Numbers are from 1 and less than this. It grows with the table.
  var numberLimit: Int { 1 << (setBits - 1) }

  // MARK: Places

  /// Where the device of `id` is with a number that `matches`; nil if it is not here. Valid until the next `put`.
  @inline(__always)
  func place(of id: DeviceID, where matches: (Int) -> Bool) -> Int? {
    place(of: id, .first, matches) ?? place(of: id, .second, matches)
  }

  func number(at place: Int) -> Int { Int((words[place] & numberMask) &>> 1) }

  func order(at place: Int) -> UInt64 {
    UInt64(highOrders[place]) << 32 | UInt64(lowOrders[place])
  }

  mutating func setNumber(_ number: Int, at place: Int) {
    words[place] = words[place] & (~numberMask | 1) | UInt64(number) &<< 1
  }

  mutating func remove(at place: Int) {
    words[place] = 0
    count -= 1
  }

  /// Keeps a device, in place of the one with the same id whose number `matches`. A full table may evict another one.
  mutating func put(_ id: DeviceID, number: Int, order: UInt64, where matches: (Int) -> Bool) {
    var target = target(for: id, matches)
    while target.isOfAnother, setBits < maximumSetBits, count >= words.count / 2 {
      grow()
      target = self.target(for: id, matches)
    }
    let (place, choice) = (target.place, target.choice)
    if words[place] == 0 { count += 1 }
    let remainder = Self.hash(id, choice) &<< UInt64(setBits)
    words[place] = remainder | UInt64(number) &<< 1 | choice.rawValue
    lowOrders[place] = UInt32(truncatingIfNeeded: order)
    highOrders[place] = UInt16(truncatingIfNeeded: order &>> 32)
  }

  /// Reads the memory that a search for the device will read, so that it is in the processor's cache by then.
  func prefetch(_ id: DeviceID) -> UInt {
    let set = set(Self.hash(id, .first))
    return UInt(truncatingIfNeeded: words[set.lowerBound] &+ words[set.upperBound - 1])
  }

  // MARK: Sets

  private enum Choice: UInt64 { case first, second }

  /// Every step is invertible: no two ids have the same hash.
  private static func hash(_ id: DeviceID, _ choice: Choice) -> UInt64 {
    let factor: UInt64 = choice == .first ? 0xd6e8_feb8_6659_fd93 : 0xff51_afd7_ed55_8ccd
    let mixed = id.rawValue &* factor
    return (mixed ^ mixed &>> 32) &* factor
  }

  /// The low bits of a word: number and hash choice.
  private var numberMask: UInt64 { 1 << UInt64(setBits) - 1 }

  private func set(_ hash: UInt64) -> Range<Int> {
    let first = Int(hash &>> UInt64(64 - setBits)) * ways
    return first..<first + ways
  }

  @inline(__always)
  private func place(
    of id: DeviceID, _ choice: Choice, _ matches: (Int) -> Bool
  ) -> Int? {
    let hash = Self.hash(id, choice)
    let remainder = hash &<< UInt64(setBits)
    let mask = numberMask
    return set(hash).first { place in
      let word = words[place]
      return word & ~mask == remainder && word & 1 == choice.rawValue && word & mask > 1
        && matches(Int((word & mask) &>> 1))
    }
  }

  /// Where to put a device: in its present place, in a free one, or in that of a device to evict.
  private mutating func target(
    for id: DeviceID, _ matches: (Int) -> Bool
  ) -> (place: Int, choice: Choice, isOfAnother: Bool) {
    if let place = place(of: id, where: matches) {
      return (place, words[place] & 1 == 0 ? .first : .second, false)
    }
    var (chosen, choice) = (set(Self.hash(id, .first)), Choice.first)
    let taken = takenCount(in: chosen)
    if taken >= crowdedWays {
      let second = set(Self.hash(id, .second))
      if takenCount(in: second) < taken { (chosen, choice) = (second, .second) }
    }
    if let free = freePlace(in: chosen) { return (free, choice, false) }
    turn = (turn + 1) % ways
    return (chosen.lowerBound + turn, choice, true)
  }

  /// Number of devices in a set from which the second set is tried. A lower threshold would try it needlessly; a higher
  /// one makes more devices find both sets full. At 9.5 of 11 taken, 3 of 10,000 devices do; 86 if the first set is
  /// filled up before.
  private var crowdedWays: Int { ways * 3 / 4 }

  private func takenCount(in set: Range<Int>) -> Int {
    set.reduce(0) { words[$1] == 0 ? $0 : $0 + 1 }
  }

  private func freePlace(in set: Range<Int>) -> Int? { set.first { words[$0] == 0 } }

  /// Splits each set into two.
  private mutating func grow() {
    let (oldWords, oldLow, oldHigh, oldBits) = (words, lowOrders, highOrders, setBits)
    let mask = numberMask
    setBits += 1
    words = [UInt64](repeating: 0, count: ways << setBits)
    lowOrders = [UInt32](repeating: 0, count: ways << setBits)
    highOrders = [UInt16](repeating: 0, count: ways << setBits)
    for (place, word) in oldWords.enumerated() where word != 0 {
      let hash = UInt64(place / ways) &<< UInt64(64 - oldBits) | (word & ~mask) &>> UInt64(oldBits)
      guard let new = freePlace(in: set(hash)) else { continue }
      words[new] = hash &<< UInt64(setBits) | word & mask
      lowOrders[new] = oldLow[place]
      highOrders[new] = oldHigh[place]
    }
  }
}
