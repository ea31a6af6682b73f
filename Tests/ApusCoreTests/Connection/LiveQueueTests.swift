import ApusCore
import Testing

@Suite("Queue of elements that may end early")
struct LiveQueueTests {
  @Test("It is as long as the elements since its oldest live one, however many came before")
  func bounded() {
    var queue = LiveQueue<Int>()
    // Always between one and ten are alive.
    for number in 0..<100_000 {
      queue.append(number) { $0 > number - 10 }
      #expect(queue.count <= 10)
    }
  }

  @Test("The first element is the oldest live one, and it stays")
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
