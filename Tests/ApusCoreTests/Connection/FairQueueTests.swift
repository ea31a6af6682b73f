import ApusCore
import Testing

@Suite("Queue with fair turns per key")
struct FairQueueTests {
  @Test("Elements of one key leave in the order of their arrival")
  func oneKey() {
    var queue = FairQueue<String, Int>()
    for number in 0..<5000 { queue.append(number, of: "a") }
    #expect((0..<5000).allSatisfy { queue.popFirst() == $0 })
    #expect(queue.popFirst() == nil)
    #expect(queue.isEmpty)
  }

  @Test("An element that arrives after a thousand of another key is second")
  func lateComer() {
    var queue = FairQueue<String, Int>()
    for number in 0..<1000 { queue.append(number, of: "crowd") }
    queue.append(-1, of: "single")
    #expect(queue.popFirst() == 0)
    #expect(queue.popFirst() == -1)
    #expect(queue.popFirst() == 1)
  }

  @Test("A key whose line was empty takes its next turn after the waiting keys")
  func comesBack() {
    var queue = FairQueue<String, String>()
    queue.append("a1", of: "a")
    queue.append("b1", of: "b")
    queue.append("b2", of: "b")
    #expect(queue.popFirst() == "a1")
    queue.append("a2", of: "a")
    #expect(queue.popFirst() == "b1")
    #expect(queue.popFirst() == "a2")
    #expect(queue.popFirst() == "b2")
    #expect(queue.isEmpty)
  }

  @Test("Every element leaves once, in any order of appending and removing")
  func all() {
    var queue = FairQueue<Int, Int>()
    var seen = Set<Int>()
    var state: UInt64 = 7
    var next = 0
    for _ in 0..<20_000 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      if state >> 62 == 0 {
        if let element = queue.popFirst() { #expect(seen.insert(element).inserted) }
      } else {
        queue.append(next, of: Int(state >> 33) % 17)
        next += 1
      }
    }
    while let element = queue.popFirst() { #expect(seen.insert(element).inserted) }
    #expect(seen.count == next)
  }
}
