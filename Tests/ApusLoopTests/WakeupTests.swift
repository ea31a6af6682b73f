import Glibc
import Synchronization
import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct WakeupTests {
  @Test("Each of a thousand calls from another thread wakes a sleeping loop")
  func wakes() async throws {
    try await withLoops("sleeper") { loops in
      let done = Atomic<Int>(0)
      for round in 1...1000 {
        let answer = try await loops[0].on { done.add(1, ordering: .relaxed).newValue }
        #expect(answer == round)
      }
    }
  }

  @Test("Nothing is lost if several threads wake a loop at once")
  func manyThreads() async throws {
    try await withLoops("woken", "one", "two", "three") { loops in
      let done = Atomic<Int>(0)
      for loop in loops.dropFirst() {
        loop.perform {
          for _ in 0..<10_000 { loops[0].perform { done.add(1, ordering: .relaxed) } }
        }
      }
      for loop in loops.dropFirst() { try await loop.on {} }
      try await loops[0].on {}
      #expect(done.load(ordering: .relaxed) == 30_000)
    }
  }

  @Test("A loop can be woken while it ends, and afterwards")
  func ending() async throws {
    for _ in 0..<200 {
      let (ending, other) = (EventLoop(name: "ending"), EventLoop(name: "other"))
      let done = Atomic<Int>(0)
      ending.start()
      other.start()
      other.perform {
        for _ in 0..<50 { ending.perform { done.add(1, ordering: .relaxed) } }
      }
      ending.stopAndJoin()
      try await other.on {}
      try await ending.on {}
      #expect(done.load(ordering: .relaxed) == 50)
      other.stopAndJoin()
    }
  }

  @Test("A loop uses seven descriptors, and frees all of them")
  func descriptors() async {
    // In a process of its own, where no other code opens or closes any.
    await #expect(processExitsWith: .success) {
      // The first one opens the process-wide ones.
      let first = EventLoop(name: "first")
      first.start()
      first.stopAndJoin()
      let before = openDescriptors()
      let loop = EventLoop(name: "second")
      let taken = openDescriptors() - before
      try #require(taken == 7, "\(taken)")
      loop.start()
      loop.stopAndJoin()
      try #require(openDescriptors() == before)
    }
  }
}

private func openDescriptors() -> Int {
  (Int32(0)..<256).count { fcntl($0, F_GETFD) >= 0 }
}
