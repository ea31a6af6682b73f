import ApusRandom
import ApusCore
import ApusModel
import ApusWire
import Testing

@Suite("Random walks over a binary connection")
struct BinaryWalkTests {
  @Test("The packets sent are those that the order of the frames requires", arguments: 0..<200)
  func walk(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let script = Script(random: &random)
    let peer = BinaryPeer(confirms: true)
    var rest = script.stream[...]
    var undecided: [Int] = []
    var said: [String] = []
    while !rest.isEmpty || !undecided.isEmpty {
      if !rest.isEmpty, undecided.isEmpty || random.below(2) == 0 {
        let count = min(rest.count, 1 + Int(random.below(200)))
        let before = peer.submitted.count
        peer.receive(Array(rest.prefix(count)))
        rest = rest.dropFirst(count)
        undecided.append(contentsOf: before..<peer.submitted.count)
      } else {
        let index = undecided.remove(at: Int(random.below(undecided.count)))
        if script.failing.contains(index) { peer.fail(index) } else { peer.accept(index) }
      }
      if random.below(3) == 0 { said += peer.effects() }
    }
    said += peer.effects()
    #expect(said == script.expected, "seed \(seed)")
    #expect(peer.submitted.count <= script.goodCount, "seed \(seed)")
  }
}

/// A stream of frames with their decisions, and the packets that the rule requires, computed independently.
private struct Script {
  var stream: [UInt8] = []
  var failing: Set<Int> = []
  var expected: [String] = []
  /// Frames before the first bad one.
  var goodCount = 0

  init(random: inout SeededRandom) {
    var isOver = false
    var isBad = false
    for _ in 0..<(1 + random.below(60)) {
      let identifier = UInt8(random.below(4))
      let hex = "0" + String(identifier, radix: 16)
      switch random.below(20) {
      case 0 where !isBad:
        stream += Frames.knownBad
        if !isOver { expected.append("end 080200000007") }
        isOver = true
        isBad = true
      case 1:
        stream += Frames.framed(identifier)
        guard !isBad else { continue }
        failing.insert(goodCount)
        goodCount += 1
        if !isOver { expected.append("end 0801000000" + hex) }
        isOver = true
      case 2, 3:
        stream += Frames.simple()
        if !isBad { goodCount += 1 }
      default:
        stream += random.below(2) == 0 ? Frames.enhanced(identifier) : Frames.framed(identifier)
        guard !isBad else { continue }
        goodCount += 1
        if !isOver { expected.append("0800000000" + hex) }
      }
    }
  }
}
