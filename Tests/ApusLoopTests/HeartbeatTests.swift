import Dispatch
import Testing

@testable import ApusLoop

@Suite("Signs of life of loops", .timeLimit(.minutes(30)))
struct HeartbeatTests {
  @Test("A loop that does not go on stops them, until it does")
  func stuck() async throws {
    try await withLoops("first", "second") { loops in
      let heartbeat = Heartbeat()
      #expect(heartbeat.beat(loops))
      // The answers of a round come before those to later questions.
      for loop in loops { try await loop.on {} }
      let (hasBegun, mayGoOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      loops[1].perform {
        hasBegun.signal()
        mayGoOn.wait()
      }
      hasBegun.wait()
      #expect(heartbeat.beat(loops), "the first round is over")
      try await loops[0].on {}
      #expect(!heartbeat.beat(loops), "one of two has answered")
      mayGoOn.signal()
      for loop in loops { try await loop.on {} }
      #expect(heartbeat.beat(loops))
    }
  }
}
