import ApusRandom
import ApusCore
import ApusModel
import Testing

@testable import ApusServer

@Suite("The table of dormant devices")
struct DormantTableTests {
  private func key(_ id: UInt64, _ environment: Environment = .production) -> DeviceKey {
    DeviceKey(id: DeviceID(id), environment: environment)
  }

  @Test("The table finds each device in its slot, and no other, as devices come and go")
  func places() {
    let seed = UInt64.random(in: .min ... .max)
    var random = SeededRandom(seed: seed)
    var places = DormantPlaces()
    var keys: [Int: DeviceKey] = [:]
    var slots: [DeviceKey: Int32] = [:]
    // Up, down to zero, and up again: the table grows and shrinks.
    for target in [3000, 0, 500] {
      while keys.count != target {
        let isComing = keys.count < target ? Int.random(in: 0..<8, using: &random) > 0 : false
        if isComing {
          // Few ids and many, with and without collisions.
          let id = random.next() & (Bool.random(using: &random) ? .max : 0xfff)
          let key = key(id, Bool.random(using: &random) ? .production : .development)
          let slot = Int.random(in: 0..<100_000, using: &random)
          guard slots[key] == nil, keys[slot] == nil else { continue }
          keys[slot] = key
          slots[key] = Int32(slot)
          places.enter(Int32(slot), key) { keys[$0] ?? self.key(0) }
        } else if let (slot, key) = keys.first {
          places.leave(Int32(slot)) { keys[$0] ?? self.key(0) }
          keys[slot] = nil
          slots[key] = nil
        }
      }
      #expect(places.count == target, "seed \(seed)")
      for (key, slot) in slots {
        #expect(places.slot(of: key) { keys[$0] ?? self.key(0) } == slot, "seed \(seed)")
      }
      for id in 0..<5000 as Range<UInt64> where slots[key(id)] == nil {
        #expect(places.slot(of: key(id)) { keys[$0] ?? self.key(0) } == nil, "seed \(seed)")
      }
    }
  }

  @Test("Rows keep their slots, and are freed on removal")
  func rows() {
    final class Token {}
    let seed = UInt64.random(in: .min ... .max)
    var random = SeededRandom(seed: seed)
    var rows = DormantRows<(UInt64, Token, InlineArray<60, UInt64>)>()
    var known: [Int: UInt64] = [:]
    var isAlive: () -> Int = { 0 }
    do {
      var tokens: [() -> Token?] = []
      for _ in 0..<5000 {
        let slot = Int.random(in: 0..<2000, using: &random)
        let has = rows.has(slot)
        #expect(has == (known[slot] != nil), "seed \(seed)")
        if known[slot] != nil {
          let value = rows[slot].0
          #expect(value == known[slot], "seed \(seed)")
          rows.remove(at: slot)
          known[slot] = nil
        } else {
          let value = random.next()
          let token = Token()
          tokens.append { [weak token] in token }
          let isReserved = rows.reserve(slot)
          #expect(isReserved)
          rows.insert((value, token, InlineArray(repeating: value)), at: slot)
          known[slot] = value
        }
      }
      isAlive = { tokens.filter { $0() != nil }.count }
    }
    let taken = rows.slots
    #expect(taken == known.keys.sorted(), "seed \(seed)")
    #expect(isAlive() == known.count, "seed \(seed)")
    for slot in taken { rows.remove(at: slot) }
    let left = rows.slots
    #expect(isAlive() == 0 && left.isEmpty, "seed \(seed)")
    let hasFar = rows.has(1_000_000)
    #expect(!hasFar)
  }

  @Test("A row takes a quarter of the memory of the objects")
  func size() { #expect(MemoryLayout<DormantRow>.stride <= 544) }
}
