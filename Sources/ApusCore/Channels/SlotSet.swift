/// A set of connection slots: a sorted list while few of the slots up to the highest are in it, otherwise a bit for
/// each.
///
/// Whichever is smaller: at most 4 bytes for a member, or 5 for bits of which some were removed. Allocations grow by an
/// eighth, because doubled ones would be half empty.
package struct SlotSet: Sendable {
  /// Members in ascending order, or bits of 32 slots each.
  private var words: [UInt32] = []
  private var hasBits = false
  package private(set) var count = 0

  package init() {}

  package var isEmpty: Bool { count == 0 }

  /// Allocated bytes, without those that the allocator adds.
  package var byteCount: Int { words.capacity * MemoryLayout<UInt32>.stride }

  package func contains(_ slot: Int32) -> Bool {
    guard !hasBits else {
      let word = Self.word(of: slot)
      return word < words.count && words[word] & Self.bit(of: slot) != 0
    }
    let place = place(of: slot)
    return place < words.count && words[place] == UInt32(slot)
  }

  /// The lowest member that is not below `slot`.
  package func first(from slot: Int32) -> Int32? {
    guard hasBits else {
      let place = place(of: slot)
      return place < words.count ? Int32(words[place]) : nil
    }
    var index = Self.word(of: slot)
    guard index < words.count else { return nil }
    var word = words[index] & ~(Self.bit(of: slot) - 1)
    while word == 0 {
      index += 1
      guard index < words.count else { return nil }
      word = words[index]
    }
    return Int32(index << 5 | word.trailingZeroBitCount)
  }

  // MARK: Changes

  /// False if it is in the set already.
  @discardableResult
  package mutating func insert(_ slot: Int32) -> Bool {
    precondition(slot >= 0, "slots are not negative")
    guard !contains(slot) else { return false }
    // A slot far beyond the others would need many bits.
    if hasBits, Self.word(of: slot) >= Self.mostWords(of: count + 1) { becomeList() }
    if hasBits {
      setBit(of: slot)
    } else {
      reserve(count + 1)
      words.insert(UInt32(slot), at: place(of: slot))
    }
    count += 1
    if !hasBits, let last = words.last, Self.word(of: Int32(last)) + 1 < count { becomeBits() }
    return true
  }

  /// False if it is not in the set. Bits stay bits until the set is empty: what empties it step by step would else move
  /// a long list with each step. Call `fit` where members may stay.
  @discardableResult
  package mutating func remove(_ slot: Int32) -> Bool {
    guard contains(slot) else { return false }
    count -= 1
    if count == 0 {
      self = SlotSet()
    } else if hasBits {
      words[Self.word(of: slot)] &= ~Self.bit(of: slot)
    } else {
      words.remove(at: place(of: slot))
    }
    return true
  }

  /// Takes less memory, if so many members were removed that this is possible.
  package mutating func fit() {
    if hasBits, words.count > Self.mostWords(of: count) { becomeList() }
    if words.capacity > 2 * words.count + 32 { words = words.map(\.self) }
  }

  // MARK: The two forms

  /// Where the first member that is not below `slot` is in the list.
  private func place(of slot: Int32) -> Int {
    var (low, high) = (0, words.count)
    while low < high {
      let middle = (low + high) / 2
      if words[middle] < UInt32(slot) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  private mutating func setBit(of slot: Int32) {
    let word = Self.word(of: slot)
    if word >= words.count {
      reserve(word + 1)
      while words.count <= word { words.append(0) }
    }
    words[word] |= Self.bit(of: slot)
  }

  private mutating func reserve(_ wordCount: Int) {
    if wordCount > words.capacity { words.reserveCapacity(max(wordCount, words.count * 9 / 8)) }
  }

  private mutating func becomeBits() {
    let list = words
    (words, hasBits) = ([], true)
    if let last = list.last { reserve(Self.word(of: Int32(last)) + 1) }
    for slot in list { setBit(of: Int32(slot)) }
  }

  private mutating func becomeList() {
    var list: [UInt32] = []
    list.reserveCapacity(count)
    var next = first(from: 0)
    while let slot = next {
      list.append(UInt32(slot))
      next = first(from: slot + 1)
    }
    (words, hasBits) = (list, false)
  }

  /// Words of bits beyond which a list is made. More than a list takes, so that a set at the limit does not change its
  /// form with each member.
  private static func mostWords(of count: Int) -> Int { count + count / 4 + 8 }

  private static func word(of slot: Int32) -> Int { Int(slot >> 5) }
  private static func bit(of slot: Int32) -> UInt32 { 1 << UInt32(slot & 31) }
}
