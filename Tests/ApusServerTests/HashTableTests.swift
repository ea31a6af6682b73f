import ApusRandom
import Testing

@testable import ApusServer

struct HashTableTests {
  private struct Entry: HashTableEntry {
    var key: Int
    var value = 0

    static let free = Entry(key: -1)
    var isFree: Bool { key < 0 }

    /// Few different hashes, so that entries have to make way.
    static func hash(_ entry: Entry) -> Int { entry.key / 5 * 3 }
  }

  @Test(
    "It agrees with a dictionary, while it grows and shrinks",
    arguments: 1...10 as ClosedRange<UInt64>)
  func walk(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = HashTable<Entry>()
    var expected: [Int: Int] = [:]
    for step in 0..<3000 {
      // It fills up, and is emptied again.
      let removes = Int.random(in: 0..<10, using: &random) < (step / 700 % 2 == 0 ? 2 : 8)
      let key = Int.random(in: 0..<400, using: &random)
      let probe = Entry(key: key)
      let index = table.index(Entry.hash(probe)) { table[$0].key == key }
      #expect(table[index].isFree == (expected[key] == nil))
      if !table[index].isFree { #expect(table[index].value == expected[key]) }
      if removes, !table[index].isFree {
        table.remove(at: index, hash: Entry.hash)
        _ = table.shrink(hash: Entry.hash)
        expected[key] = nil
      } else if !removes, table[index].isFree {
        table.insert(Entry(key: key, value: step), at: index, hash: Entry.hash)
        expected[key] = step
      } else if !removes {
        table[index].value = step
        expected[key] = step
      }
    }
    #expect(table.count == expected.count)
    let left = table.indices.filter { !table[$0].isFree }.map { (table[$0].key, table[$0].value) }
    #expect(Dictionary(uniqueKeysWithValues: left) == expected)
  }

  @Test("An empty table is small again")
  func shrinks() {
    var table = HashTable<Entry>()
    for key in 0..<1000 {
      let index = table.index(key) { _ in false }
      table.insert(Entry(key: key), at: index) { $0.key }
    }
    #expect(table.indices.count >= 2000)
    for key in 0..<1000 {
      table.remove(at: table.index(key) { table[$0].key == key }) { $0.key }
      _ = table.shrink { $0.key }
    }
    #expect(table.count == 0 && table.indices.count == 16)
  }
}
