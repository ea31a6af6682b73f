import Dispatch
import Foundation
import Synchronization
import Testing

@testable import ApusLoop

/// An actor on a loop, like the service's workers.
private actor Resident {
  let loop: EventLoop
  private(set) var calls = 0

  init(loop: EventLoop) { self.loop = loop }

  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  func call() -> Bool {
    calls += 1
    return loop.isOnLoop
  }

  /// Suspends repeatedly, and so enqueues on the loop from the loop.
  func callOneself(times: Int) async -> Int {
    for _ in 0..<times {
      let task = Task { self.call() }
      _ = await task.value
    }
    return calls
  }
}

private func assumeIsolatedHere(_ resident: Resident) {
  resident.assumeIsolated { _ in }
}

@Suite(.timeLimit(.minutes(30)))
struct EventLoopTests {
  @Test("An actor whose executor is a loop runs on the loop's thread")
  func actorRunsOnLoop() async throws {
    try await withLoops("resident") { loops in
      let resident = Resident(loop: loops[0])
      #expect(await resident.call())
      #expect(!loops[0].isOnLoop)
    }
  }

  @Test("The thread has the loop's name, as far as Linux keeps it")
  func threadName() async throws {
    try await withLoops("a-name-longer-than-15-bytes") { loops in
      let name = try await loops[0].on {
        try String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
      }
      #expect(name == "a-name-longer-t\n")
    }
  }

  @Test("A callback enters an actor of its loop with assumeIsolated")
  func assumeIsolated() async throws {
    try await withLoops("assume") { loops in
      let resident = Resident(loop: loops[0])
      let calls = try await loops[0].on {
        resident.assumeIsolated { resident in
          _ = resident.call()
          return resident.calls
        }
      }
      #expect(calls == 1)
    }
  }

  @Test("Off the loop, assumeIsolated traps")
  func assumeIsolatedElsewhere() async {
    await #expect(processExitsWith: .failure) {
      let loop = EventLoop(name: "elsewhere")
      loop.start()
      assumeIsolatedHere(Resident(loop: loop))
    }
  }

  @Test("An actor that enqueues on its loop from its loop makes progress")
  func enqueueFromOwnThread() async throws {
    try await withLoops("own") { loops in
      #expect(await Resident(loop: loops[0]).callOneself(times: 100) == 100)
    }
  }

  @Test("Two loops' actors call each other from many tasks without losing a call")
  func manyTasks() async throws {
    try await withLoops("left", "right") { loops in
      let residents = loops.map { Resident(loop: $0) }
      await withTaskGroup { group in
        for index in 0..<400 {
          group.addTask { _ = await residents[index % 2].call() }
        }
      }
      #expect(await residents[0].calls == 200)
      #expect(await residents[1].calls == 200)
    }
  }

  @Test("Bodies run in the order in which one thread queued them")
  func performOrder() async throws {
    try await withLoops("order") { loops in
      let seen = Confined<[Int]>([])
      for number in 0..<5000 { loops[0].perform { seen.value.append(number) } }
      let all = try await loops[0].on { seen.value }
      #expect(all == Array(0..<5000))
    }
  }

  @Test("Work that keeps queueing itself does not keep timers from firing")
  func endlessWork() async throws {
    try await withLoops("endless") { loops in
      let loop = loops[0]
      let isOver = Confined(false)
      await withCheckedContinuation { continuation in
        loop.perform {
          @Sendable func again() { if !isOver.value { loop.perform(again) } }
          again()
          let timer = Confined<LoopTimer?>(nil)
          timer.value = LoopTimer(loop: loop) {
            timer.value = nil
            isOver.value = true
            continuation.resume()
          }
          timer.value?.start(afterMilliseconds: 5)
        }
      }
    }
  }

  @Test("Work queued during the last item of a full turn does not wait for another event")
  func workAtTheLimit() async throws {
    try await withLoops("limit") { loops in
      let loop = loops[0]
      try await loop.turns(2)
      await withCheckedContinuation { continuation in
        // The first item of a turn; with it, the others fill the turn exactly.
        loop.perform {
          for _ in 2..<EventLoop.workPerTurn { loop.perform {} }
          loop.perform {
            let performed = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
              loop.perform { continuation.resume() }
              performed.signal()
            }
            performed.wait()
          }
        }
      }
    }
  }

  @Test("Work queued before the loop starts is done first")
  func workBeforeStart() async throws {
    let loop = EventLoop(name: "early")
    let seen = Confined<[Int]>([])
    loop.perform { seen.value.append(1) }
    loop.start()
    #expect(try await loop.on { seen.value } == [1])
    loop.stopAndJoin()
  }

  @Test("run() runs the loop on the calling thread until it is stopped")
  func runOnCallingThread() async throws {
    let loop = EventLoop(name: "caller")
    let isSame: Bool = await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        let caller = pthread_self()
        let isSame = Mutex(false)
        loop.perform {
          isSame.withLock { $0 = pthread_equal(caller, pthread_self()) != 0 && loop.isOnLoop }
          loop.stop()
        }
        loop.run()
        continuation.resume(returning: isSame.withLock { $0 })
      }
    }
    #expect(isSame)
    #expect(!loop.isOnLoop)
  }

  @Test("The monotonic clock does not go back and the wall clock is the system's")
  func clocks() async throws {
    try await withLoops("clock") { loops in
      let loop = loops[0]
      let (first, second) = try await loop.on {
        let first = loop.nowMilliseconds
        loop.updateNow()
        return (first, loop.nowMilliseconds)
      }
      #expect(first <= second)
    }
    let before = Int64(time(nil)) * 1000
    let now = EventLoop.wallClockMilliseconds()
    let after = Int64(time(nil)) * 1000 + 1000
    #expect(before...after ~= now)
  }
}

@Suite(.timeLimit(.minutes(30)))
struct TurnTests {
  @Test("Work of one turn is followed by exactly one turn end")
  func workThenEnd() async throws {
    try await withLoops("turns") { loops in
      let loop = loops[0]
      let log = Confined<[String]>([])
      let (turns, turn) = AsyncStream.makeStream(of: [String].self)
      try await loop.on {
        // Read at the end of the turn: a read queued from here may run in the same turn as the work.
        loop.onTurnEnd = {
          log.value.append("end")
          turn.yield(log.value)
        }
        for name in ["a", "b", "c"] { loop.perform { log.value.append(name) } }
      }
      #expect(await turns.first(1) == [["a", "b", "c", "end"]])
    }
  }

  @Test("onWake is called before a socket's callback")
  func wakeThenCallbacks() async throws {
    let (near, far) = try socketPair()
    try await withLoops("wake") { loops in
      let loop = loops[0]
      let log = Confined<[String]>([])
      let (turns, turn) = AsyncStream.makeStream(of: [String].self)
      try await loop.on {
        let socket = try Socket(adopting: near, loop: loop)
        loop.onWake = { log.value = ["wake"] }
        socket.handler = ClosureHandler(readable: {
          turn.yield(log.value + ["socket"])
          socket.close()
        })
        socket.setInterest(reading: true, writing: false)
      }
      #expect(write(far, "x", 1) == 1)
      #expect(await turns.first(1) == [["wake", "socket"]])
    }
    close(far)
  }

  @Test("Work of a timer and of a socket is followed by a turn end")
  func callbacksThenEnd() async throws {
    let (near, far) = try socketPair()
    try await withLoops("callbacks") { loops in
      let loop = loops[0]
      let log = Confined<[String]>([])
      let kept = Confined<[AnyObject]>([])
      let (turns, turn) = AsyncStream.makeStream(of: [String].self)
      try await loop.on {
        loop.onTurnEnd = {
          guard !log.value.isEmpty else { return }
          turn.yield(log.value)
          log.value = []
        }
        let socket = try Socket(adopting: near, loop: loop)
        socket.handler = ClosureHandler(readable: {
          log.value.append("socket")
          socket.close()
        })
        socket.setInterest(reading: true, writing: false)
      }
      #expect(write(far, "x", 1) == 1)
      #expect(await turns.first(1) == [["socket"]])
      try await loop.on {
        let timer = LoopTimer(loop: loop) { log.value.append("timer") }
        timer.start(afterMilliseconds: 1)
        kept.value.append(timer)
      }
      #expect(await turns.first(1) == [["timer"]])
      try await loop.on { kept.value = [] }
    }
    close(far)
  }

  @Test("Work queued by a turn end is done without waiting for another event")
  func workFromEnd() async throws {
    try await withLoops("from-end") { loops in
      let loop = loops[0]
      await withCheckedContinuation { continuation in
        loop.perform {
          loop.onTurnEnd = {
            loop.onTurnEnd = nil
            loop.perform { continuation.resume() }
          }
        }
      }
    }
  }
}
