import ApusModel
import Testing

@testable import ApusServer

/// When an acceptor returns the memory of handshakes; seconds are the test's.
@Suite("Memory after a crowd")
struct HeapAfterCrowdTests {
  private var heap = HeapAfterCrowd()

  /// Handshake steps in each of some seconds.
  ///
  /// - Returns: The seconds in which memory was returned.
  private mutating func pass(_ seconds: Range<UInt64>, steps: Int) -> [UInt64] {
    seconds.filter { second in
      for _ in 0..<steps { heap.stepTaken() }
      return heap.turnEnded(nowSeconds: second)
    }
  }

  @Test(
    "It is returned within a minute after the crowd, whenever that ends", arguments: 0..<12)
  mutating func afterwards(offset: UInt64) {
    let end = 1060 + offset
    #expect(pass(1000..<end, steps: 500) == [])
    let returned = pass(end..<end + 600, steps: 0)
    // A second time where the crowd's last seconds were a small crowd themselves.
    #expect((1...2).contains(returned.count))
    #expect(returned.allSatisfy { $0 < end + 60 })
  }

  @Test("It is kept while the crowd lasts: the next handshakes take it")
  mutating func meanwhile() {
    #expect(pass(1000..<1600, steps: 500) == [])
  }

  @Test("A crowd that becomes a quarter has gone by")
  mutating func ebb() {
    #expect(pass(1000..<1060, steps: 400) == [])
    #expect(pass(1060..<1120, steps: 101) == [])
    #expect(pass(1120..<1180, steps: 100).count == 1)
  }

  @Test("A few handshakes leave nothing worth returning", arguments: [0, 1, 83])
  mutating func few(steps: Int) {
    // 83 a second are fewer than 1,000 in 12 seconds.
    #expect(steps * Limits.crowdSeconds < Limits.handshakesOfCrowd)
    #expect(pass(1000..<1100, steps: steps) == [])
    #expect(pass(1100..<1200, steps: 0) == [])
  }

  @Test("Each crowd returns its memory")
  mutating func again() {
    for start: UInt64 in [1000, 2000, 3000] {
      #expect(pass(start..<start + 30, steps: 500) == [])
      #expect(pass(start + 30..<start + 90, steps: 0).count == 1)
    }
  }
}
