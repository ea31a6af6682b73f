import Foundation
import Testing

@testable import ApusLoop

private actor Survivor {
  let loop: EventLoop
  init(loop: EventLoop) { self.loop = loop }
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  func isOnLoop() async -> Bool {
    await Task.yield()
    return loop.isOnLoop
  }
}

/// A loop ends whatever is open on it. Each of these tests includes the loop's own check by `uv_loop_close`.
@Suite(.timeLimit(.minutes(30)))
struct EndTests {
  @Test("Work queued before stop() is done before the end")
  func workBeforeStop() async throws {
    let loop = EventLoop(name: "before")
    let seen = Confined(0)
    loop.start()
    for _ in 0..<3000 { loop.perform { seen.value += 1 } }
    loop.stopAndJoin()
    #expect(seen.value == 3000)
  }

  @Test("Stopping repeatedly, and after the end, has no further effect")
  func stopTwice() async throws {
    let loop = EventLoop(name: "twice")
    let kept = Confined<Socket?>(nil)
    let (near, far) = try socketPair()
    loop.start()
    loop.perform {
      kept.value = try? Socket(adopting: near, loop: loop)
      for _ in 0..<3 { loop.stop() }
    }
    loop.stopAndJoin()
    loop.stopAndJoin()
    var byte: UInt8 = 0
    #expect(read(far, &byte, 1) == 0)
    close(far)
    try await loop.on { kept.value = nil }
  }

  @Test("The last batch is flushed")
  func lastTurnEnd() async throws {
    let loop = EventLoop(name: "flush")
    let log = Confined<[String]>([])
    loop.onTurnEnd = { log.value.append("end") }
    loop.start()
    // From the loop itself, which cannot have ended before the second call.
    loop.perform {
      loop.stop()
      loop.perform { log.value.append("work") }
    }
    loop.stopAndJoin()
    #expect(log.value.contains("work") && log.value.last == "end")
  }

  @Test("A loop that was never started closes its handles")
  func neverStarted() throws {
    let (near, far) = try socketPair()
    do {
      let loop = EventLoop(name: "never")
      let timer = LoopTimer(loop: loop) {}
      timer.start(afterMilliseconds: 1)
      _ = try Socket(adopting: near, loop: loop)
    }
    var byte: UInt8 = 0
    #expect(read(far, &byte, 1) == 0)
    close(far)
  }

  @Test("stop() closes sockets, timers, listeners and watchers that were left open")
  func leftOpen() async throws {
    let (near, far) = try socketPair()
    let loop = EventLoop(name: "left-open")
    let kept = Confined<[AnyObject]>([])
    loop.start()
    let address = try await loop.on {
      let socket = try Socket(adopting: near, loop: loop)
      socket.handler = ClosureHandler()
      socket.setInterest(reading: true, writing: false)
      let timer = LoopTimer(loop: loop) {}
      timer.start(afterMilliseconds: 1, repeatMilliseconds: 1)
      let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) { _, _ in }
      let watcher = try SignalWatcher(loop: loop, signal: SIGURG) {}
      kept.value = [socket, timer, listener, watcher]
      return try #require(listener.localAddress)
    }
    loop.stopAndJoin()

    var byte: UInt8 = 0
    #expect(read(far, &byte, 1) == 0, "the socket was closed")
    close(far)
    // The address is free again, so it can be bound exclusively.
    let other = EventLoop(name: "other")
    _ = try Listener(loop: other, address: address) { _, _ in }
    // Objects that outlive their loop are closed and harmless.
    kept.value = []
  }

  @Test("Objects created on a stopped loop are closed from the start, and keep no descriptor")
  func afterTheEnd() async throws {
    let loop = EventLoop(name: "ended")
    let (near, far) = try socketPair()
    let (second, third) = try socketPair()
    let kept = Confined<(Socket, LoopTimer)?>(nil)
    loop.start()
    try await loop.on {
      kept.value = (try Socket(adopting: near, loop: loop), LoopTimer(loop: loop) {})
    }
    loop.stopAndJoin()
    try await loop.on {
      let (socket, timer) = try #require(kept.value)
      var room: [UInt8] = [0]
      var span = room.mutableSpan
      #expect(socket.read(into: &span) == .failed(EBADF))
      #expect(socket.write([1]) == .failed(EBADF))
      socket.setInterest(reading: true, writing: true)
      socket.close()
      timer.start(afterMilliseconds: 1)
      #expect(!timer.isActive)
      #expect(throws: SocketError.loopStopped) { try Socket(adopting: second, loop: loop) }
      LoopTimer(loop: loop) {}.start(afterMilliseconds: 1)
      kept.value = nil
    }
    var byte: UInt8 = 0
    #expect(read(third, &byte, 1) == 0, "the refused descriptor was closed")
    close(far)
    close(third)
  }

  @Test("A call to an actor whose loop has ended is still answered")
  func actorAfterTheEnd() async throws {
    let loop = EventLoop(name: "survivor")
    let survivor = Survivor(loop: loop)
    loop.start()
    #expect(await survivor.isOnLoop())
    loop.stopAndJoin()
    await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<50 { group.addTask { await survivor.isOnLoop() } }
      for await isOnLoop in group { #expect(isOnLoop) }
    }
  }

  @Test("Threads that call perform while the loop ends neither crash nor lose their work")
  func performDuringEnd() async throws {
    for _ in 0..<20 {
      let loop = EventLoop(name: "racing")
      loop.start()
      await withTaskGroup { group in
        for index in 0..<4 {
          group.addTask {
            for step in 0..<50 {
              if index == 0, step == 10 { loop.stop() }
              await withCheckedContinuation { continuation in
                loop.perform { continuation.resume() }
              }
            }
          }
        }
      }
      loop.stopAndJoin()
    }
  }

  @Test("Owners may be released on any thread while the loop uses their handles")
  func releaseElsewhere() async throws {
    try await withLoops("elsewhere") { loops in
      let loop = loops[0]
      for _ in 0..<50 {
        let (near, far) = try socketPair()
        let kept = Confined<[AnyObject]>([])
        try await loop.on {
          let timer = LoopTimer(loop: loop) {}
          timer.start(afterMilliseconds: 0, repeatMilliseconds: 1)
          let socket = try Socket(adopting: near, loop: loop)
          socket.handler = ClosureHandler()
          socket.setInterest(reading: true, writing: true)
          let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) { _, _ in }
          kept.value = [timer, socket, listener]
        }
        kept.value = []
        try await loop.turns(1)
        var byte: UInt8 = 0
        #expect(read(far, &byte, 1) == 0, "the release closed the socket")
        close(far)
      }
    }
  }
}
