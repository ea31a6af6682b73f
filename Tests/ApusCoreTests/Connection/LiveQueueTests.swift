import ApusCore
import Testing

@Suite("A queue of what may be over before it is the first")
struct LiveQueueTests {
  @Test("It is as long as what came since its oldest living element, however many came before")
  func bounded() {
    var queue = LiveQueue<Int>()
    // Ten are alive at a time, and never none.
    for number in 0..<100_000 {
      queue.append(number) { $0 > number - 10 }
      #expect(queue.count <= 10)
    }
  }

  @Test("Its first is the oldest one that is not over, and stays")
  func oldest() {
    var queue = LiveQueue<Int>()
    for number in 1...5 { queue.append(number) { _ in true } }
    #expect(queue.first { $0 != 1 } == 2)
    #expect(queue.first { $0 > 3 } == 4)
    #expect(queue.first { $0 > 3 } == 4)
    #expect(queue.first { _ in false } == nil)
    #expect(queue.count == 0)
  }
}
