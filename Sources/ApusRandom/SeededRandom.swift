/// Random numbers from a seed, for jitter, simulations and tests: the same seed gives the same numbers with every
/// version of the standard library. Not for secrets.
///
/// Source: SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014).
package struct SeededRandom: RandomNumberGenerator, Sendable, Hashable {
  private var state: UInt64

  package init(seed: UInt64) { state = seed }

  package mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
    return mixed ^ mixed >> 31
  }

  /// A generator that is independent of later numbers from this one.
  package mutating func split() -> SeededRandom { SeededRandom(seed: next()) }

  /// A number from 0 to `limit` - 1.
  package mutating func below(_ limit: Int) -> Int {
    Int(next().multipliedFullWidth(by: UInt64(limit)).high)
  }

  package mutating func between(_ low: UInt64, _ high: UInt64) -> UInt64 {
    low + next().multipliedFullWidth(by: high - low + 1).high
  }

  /// True in `count` of `total` cases.
  package mutating func chance(_ count: Int, in total: Int) -> Bool { below(total) < count }

  package mutating func pick<Element>(_ elements: [Element]) -> Element {
    elements[below(elements.count)]
  }

  package mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
  }
}
