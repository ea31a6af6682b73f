import ApusModel

/// Finds the index of a bundle id by its bytes: an open-addressing hash table over one byte array.
///
/// A Dictionary would need an owned key for each lookup; this one borrows, and takes about 20 ns for 25 bytes. The
/// entries come from the operator, never from the network, so a plain mixing hash is enough.
struct BundleTable: Sendable {
  private var bytes: [UInt8] = []
  /// The end of each entry's text in `bytes`; it begins where the previous one ends.
  private var ends: [Int] = []
  /// Indices of entries, -1 if free. A power of two, at least twice the number of entries, so that probes stay short.
  private var slots: [Int]

  /// - Precondition: the texts are distinct.
  init(_ texts: [[UInt8]]) {
    var size = 4
    while size < 2 * texts.count { size *= 2 }
    slots = [Int](repeating: -1, count: size)
    for (place, text) in texts.enumerated() {
      bytes.append(contentsOf: text)
      ends.append(bytes.count)
      var slot = Self.hash(text.span) & (size - 1)
      while slots[slot] >= 0 { slot = (slot + 1) & (size - 1) }
      slots[slot] = place
    }
  }

  /// The index of `text` in the list that the table was built from.
  func place(of text: Span<UInt8>) -> Int? {
    let mask = slots.count - 1
    var slot = Self.hash(text) & mask
    while true {
      let place = slots[slot]
      if place < 0 { return nil }
      let start = place == 0 ? 0 : ends[place - 1]
      if bytes.span.extracting(start..<ends[place]).equals(text) { return place }
      slot = (slot + 1) & mask
    }
  }

  /// Eight bytes per step, each mixed in by a multiplication with the 64-bit golden ratio.
  private static func hash(_ text: Span<UInt8>) -> Int {
    let factor: UInt64 = 0x9e37_79b9_7f4a_7c15
    var hash = UInt64(text.count) &* factor
    var word: UInt64 = 0
    for index in text.indices {
      word = word &<< 8 | UInt64(text[index])
      if index & 7 == 7 {
        hash = (hash ^ word) &* factor
        hash ^= hash &>> 32
        word = 0
      }
    }
    hash = (hash ^ word) &* factor
    return Int(truncatingIfNeeded: hash &>> 33)
  }
}
