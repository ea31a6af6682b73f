import ApusCore
import ApusRandom
import Testing

@Suite("Sets of connection slots")
struct SlotSetTests {
  private func members(_ set: SlotSet) -> [Int32] {
    var found: [Int32] = []
    var next = set.first(from: 0)
    while let slot = next {
      found.append(slot)
      next = set.first(from: slot + 1)
    }
    return found
  }

  @Test(
    "Random changes agree with a plain set, in both forms and between them",
    arguments: [UInt64.random(in: 1...(.max))])
  func model(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var set = SlotSet()
    var model: Set<Int32> = []
    // Wide and narrow ranges, so that lists become bits, and bits lists.
    for (range, inserting) in [(4000, 3), (200, 3), (200, 1), (50_000, 3), (300, 3), (50_000, 1)] {
      for _ in 0..<3000 {
        let slot = Int32(random.below(range))
        if random.below(4) < inserting {
          #expect(set.insert(slot) == model.insert(slot).inserted, "seed \(seed)")
        } else {
          #expect(set.remove(slot) == (model.remove(slot) != nil), "seed \(seed)")
          if random.below(8) == 0 { set.fit() }
        }
        #expect(set.contains(slot) == model.contains(slot) && set.count == model.count)
      }
      #expect(members(set) == model.sorted(), "seed \(seed)")
    }
    for slot in model { set.remove(slot) }
    #expect(set.isEmpty && set.byteCount == 0 && set.first(from: 0) == nil)
  }

  @Test("A copy is a set of its own")
  func copy() {
    var set = SlotSet()
    for slot in 0..<100 as Range<Int32> { set.insert(slot) }
    var other = set
    other.remove(7)
    #expect(set.contains(7) && !other.contains(7) && set.count == 100 && other.count == 99)
  }

  @Test("A member takes at most 6 bytes, wherever the slots are and however they came")
  func bytes() {
    for step in [1, 7, 31, 32, 33, 100, 5000] as [Int32] {
      var (rising, falling) = (SlotSet(), SlotSet())
      for index in 0..<2000 as Range<Int32> {
        rising.insert(index * step)
        falling.insert((1999 - index) * step)
      }
      #expect(rising.byteCount <= 2000 * 6, "every \(step)th slot")
      #expect(falling.byteCount <= 2000 * 6, "every \(step)th slot")
    }
    var set = SlotSet()
    for slot in 0..<19_000 as Range<Int32> { set.insert(slot) }
    #expect(set.byteCount <= 19_000 / 8 * 5 / 4)
    // A single slot that is far away, and a crowd that leaves.
    set.insert(1_000_000)
    #expect(set.byteCount <= set.count * 6)
    for slot in 100..<19_000 as Range<Int32> {
      set.remove(slot)
      set.fit()
    }
    #expect(set.count == 101 && set.byteCount <= 101 * 12)
  }
}
