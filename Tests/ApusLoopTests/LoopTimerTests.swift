import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct LoopTimerTests {
  @Test("Timers fire in the order of their times, not of their starts")
  func order() async throws {
    try await withLoops("timers") { loops in
      let loop = loops[0]
      let timers = Confined<[LoopTimer]>([])
      let (stream, continuation) = AsyncStream.makeStream(of: UInt64.self)
      try await loop.on {
        for delay: UInt64 in [30, 10, 20, 0] {
          let timer = LoopTimer(loop: loop) { continuation.yield(delay) }
          timer.start(afterMilliseconds: delay)
          timers.value.append(timer)
        }
      }
      #expect(await stream.first(4) == [0, 10, 20, 30])
      try await loop.on { timers.value = [] }
    }
  }

  @Test("A timer does not fire before its time")
  func notEarly() async throws {
    try await withLoops("early") { loops in
      let loop = loops[0]
      let timer = Confined<LoopTimer?>(nil)
      let elapsed = await withCheckedContinuation { continuation in
        loop.perform {
          let start = loop.nowMilliseconds
          timer.value = LoopTimer(loop: loop) {
            continuation.resume(returning: loop.nowMilliseconds - start)
          }
          timer.value?.start(afterMilliseconds: 25)
        }
      }
      #expect(elapsed >= 25)
      try await loop.on { timer.value = nil }
    }
  }

  @Test("A repeating timer fires until its handler closes it")
  func repeating() async throws {
    try await withLoops("repeating") { loops in
      let loop = loops[0]
      let timer = Confined<LoopTimer?>(nil)
      let fired = Confined(0)
      await withCheckedContinuation { continuation in
        loop.perform {
          timer.value = LoopTimer(loop: loop) {
            fired.value += 1
            guard fired.value == 5 else { return }
            timer.value?.close()
            timer.value?.close()
            timer.value?.start(afterMilliseconds: 0)
            continuation.resume()
          }
          timer.value?.start(afterMilliseconds: 1, repeatMilliseconds: 1)
        }
      }
      await delay(on: loop, milliseconds: 5)
      #expect(try await loop.on { fired.value } == 5)
      try await loop.on { timer.value = nil }
    }
  }

  @Test("A stopped timer does not fire, and can be started again")
  func stopAndRestart() async throws {
    try await withLoops("stopping") { loops in
      let loop = loops[0]
      let timer = Confined<LoopTimer?>(nil)
      let fired = Confined(0)
      try await loop.on {
        timer.value = LoopTimer(loop: loop) { fired.value += 1 }
        timer.value?.start(afterMilliseconds: 1)
        #expect(timer.value?.isActive == true)
        timer.value?.stop()
        #expect(timer.value?.isActive == false)
      }
      await delay(on: loop, milliseconds: 5)
      #expect(try await loop.on { fired.value } == 0)
      try await loop.on { timer.value?.start(afterMilliseconds: 1) }
      await delay(on: loop, milliseconds: 5)
      #expect(try await loop.on { fired.value } == 1)
      try await loop.on { timer.value = nil }
    }
  }

  @Test("A timer that is released, even by its handler, fires no more and releases its handler")
  func release() async throws {
    final class Token: Sendable {}
    try await withLoops("released") { loops in
      let loop = loops[0]
      let timer = Confined<LoopTimer?>(nil)
      let fired = Confined(0)
      let isReleased = Confined<() -> Bool>({ false })
      try await loop.on {
        let held = Token()
        isReleased.value = { [weak held] in held == nil }
        timer.value = LoopTimer(loop: loop) {
          withExtendedLifetime(held) { fired.value += 1 }
          timer.value = nil
        }
        timer.value?.start(afterMilliseconds: 0, repeatMilliseconds: 1)
      }
      await delay(on: loop, milliseconds: 5)
      #expect(try await loop.on { fired.value } == 1)
      #expect(try await loop.on { isReleased.value() })
    }
  }

  /// Waits for a later timer of the same loop: libuv fires timers in the order of their times.
  private func delay(on loop: EventLoop, milliseconds: UInt64) async {
    let timer = Confined<LoopTimer?>(nil)
    await withCheckedContinuation { continuation in
      loop.perform {
        loop.updateNow()
        timer.value = LoopTimer(loop: loop) {
          timer.value = nil
          continuation.resume()
        }
        timer.value?.start(afterMilliseconds: milliseconds)
      }
    }
  }
}
