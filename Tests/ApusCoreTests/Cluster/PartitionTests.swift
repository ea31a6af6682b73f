import ApusCore
import ApusModel
import ApusRandom
import Testing

@Suite("Nodes and partitions")
struct PartitionTests {
  @Test(
    "A name has 1 to 63 of the characters that a host name may have",
    arguments: ["a", "0", "-", "node-1", String(repeating: "z", count: 63)])
  func name(text: String) { #expect(NodeName(text)?.text == text) }

  @Test(
    "Other names are refused",
    arguments: [
      "", "A", "node_1", "a.b", "a b", "a/b", "ü", "a\0", "`", "{", ":",
      String(repeating: "z", count: 64),
    ])
  func badName(text: String) { #expect(NodeName(text) == nil) }

  @Test("There are 1,024 partitions")
  func indices() {
    #expect(Partition(index: -1) == nil)
    #expect(Partition(index: 0)?.index == 0)
    #expect(Partition(index: 1023)?.index == 1023)
    #expect(Partition(index: 1024) == nil)
  }

  /// By hand: the product modulo 2^64 with 9e3779b97f4a7c15, in the comment, and its top ten bits.
  @Test(
    "A device's partition never changes",
    arguments: [
      (0, 0),
      (1, 632),  // 9e37…: 1001 1110 00
      (2, 241),  // 3c6e…: 0011 1100 01
      (3, 874),  // daa6…: 1101 1010 10
      (4, 483),  // 78dd…: 0111 1000 11
      (1000, 34),  // 08b3…: 0000 1000 10
      (0x0123_4567_89ab_cdef, 50),  // 0c93…: 0000 1100 10
      (0xfedc_ba98_7654_3210, 340),  // 5534…: 0101 0101 00
      (0xffff_ffff_ffff_ffff, 391),  // 61c8…: 0110 0001 11
      (0x8000_0000_0000_0000, 512),  // 8000…: 1000 0000 00
      (0x0040_0000_0000_0000, 21),  // 0540…: 0000 0101 01
    ] as [(UInt64, Int)])
  func vectors(device: UInt64, partition: Int) {
    #expect(Partition(of: DeviceID(device)).index == partition)
  }

  @Test(
    "Consecutive ids, wherever they begin, and ids with equal low or high bits spread evenly",
    arguments: [(0, 1), (0xdead_beef_0000, 1), (1 << 63, 1), (5, 1024), (0, 1 << 44)]
      as [(UInt64, UInt64)])
  func regular(first: UInt64, step: UInt64) {
    let counts = counts((0..<102_400).map { first &+ $0 &* step })
    #expect(counts.min() ?? 0 >= 95)
    #expect(counts.max() ?? .max <= 105)
  }

  @Test("Random ids spread as by chance")
  func random() {
    var random = SeededRandom(seed: 1)
    let counts = counts((0..<102_400).map { _ in random.next() })
    #expect(counts.min() ?? 0 >= 60)
    #expect(counts.max() ?? .max <= 150)
  }

  private func counts(_ ids: [UInt64]) -> [Int] {
    var counts = [Int](repeating: 0, count: 1024)
    for id in ids { counts[Partition(of: DeviceID(id)).index] += 1 }
    return counts
  }

  @Test("A message under an older epoch is dropped, each partition by its own")
  func epochs() {
    var guardian = EpochGuard()
    let judgements = [(1, 7), (3, 7), (3, 7), (2, 7), (1, 8), (3, 7), (4, 7)].map {
      guardian.judge(Epoch($0.0), of: Partition(integerLiteral: $0.1))
    }
    #expect(judgements == [.newer, .newer, .current, .stale, .newer, .current, .newer])
  }

  @Test("A map keeps the latest epoch of each row")
  func map() {
    var map = PartitionMap()
    let (old, new) = (
      PartitionRow(owner: NodeIncarnation("a", 1), epoch: Epoch(1)),
      PartitionRow(owner: NodeIncarnation("b", 1), epoch: Epoch(2))
    )
    let noted = [PartitionRow(), new, old, new].map { map.note($0, of: 5) }
    #expect(noted == [true, true, false, false])
    #expect(map[5] == new)
    #expect(map[6] == nil)
    #expect(Array(map.partitions) == [5])
  }
}
