import Foundation
import Testing

@testable import ApusLoop

/// The kernel's events, and who gets them.
@Suite(.timeLimit(.minutes(30)))
struct WatchingTests {
  @Test("A loop that has ended has no descriptor, even if it is still referenced")
  func descriptors() async throws {
    var ended: EventLoop?
    try await withLoops("ended") { loops in
      #expect(loops[0].epoll.descriptor >= 0)
      ended = loops[0]
    }
    #expect(ended?.epoll.descriptor == -1)
    #expect(EventLoop(name: "never started").epoll.descriptor >= 0)
  }

  @Test(
    "An event of a socket closed in the same turn is dropped, even if its slot is in use again"
  )
  func staleEvent() async throws {
    let pairs = try (0..<3).map { _ in try socketPair() }
    try await withLoops("stale") { loops in
      let loop = loops[0]
      let sockets = Confined<[Socket?]>([])
      let calls = Confined<[Int]>([])
      try await loop.on {
        sockets.value = try (0..<2).map { index in
          let socket = try Socket(adopting: pairs[index].0, loop: loop)
          socket.handler = ClosureHandler(readable: {
            calls.value.append(index)
            // Whichever comes first closes the other one, and a new socket takes its slot.
            sockets.value[1 - index]?.close()
            guard let next = try? Socket(adopting: pairs[2].0, loop: loop) else { return }
            next.handler = ClosureHandler(
              readable: { calls.value.append(2) }, writable: { calls.value.append(3) })
            next.setInterest(reading: true, writing: false)
            sockets.value.append(next)
            sockets.value[index]?.close()
          })
          socket.setInterest(reading: true, writing: false)
          return socket
        }
        // Both at once, in one call of epoll.
        for index in 0..<2 { #expect(write(pairs[index].1, "x", 1) == 1) }
      }
      try await loop.turns(4)
      let called = try await loop.on { calls.value }
      #expect(called == [0] || called == [1])
      try await loop.on {
        #expect(loop.sockets.count == 2, "the new socket has the place of the one that was closed")
        for socket in sockets.value { socket?.close() }
      }
    }
    for pair in pairs { close(pair.1) }
  }

  @Test(
    "An error is reported as readable to readers, as writable to writers, and to no others"
  )
  func errors() async throws {
    for (reading, writing, expected) in [
      (true, true, ["r"]), (true, false, ["r"]), (false, true, ["w"]), (false, false, []),
    ] {
      try await withLoops("errors") { loops in
        let loop = loops[0]
        let (near, far) = try connectedPair()
        let calls = Confined<[String]>([])
        let kept = Confined<Socket?>(nil)
        // The loop looks only after the reset, so no readiness for writing comes before it.
        try await loop.on {
          let socket = try Socket(adopting: near, loop: loop)
          func note(_ call: String) {
            calls.value.append(call)
            socket.close()
          }
          socket.handler = ClosureHandler(readable: { note("r") }, writable: { note("w") })
          socket.setInterest(reading: reading, writing: writing)
          kept.value = socket
          reset(far)
          awaitError(near)
        }
        try await loop.turns(5)
        #expect(try await loop.on { calls.value } == expected)
        #expect(try await loop.on { loop.readySockets() } == 0, "nothing keeps the loop awake")
        guard !reading, !writing else { return }
        // It waited for interest.
        try await loop.on { kept.value?.setInterest(reading: true, writing: false) }
        try await loop.turns(2)
        #expect(try await loop.on { calls.value } == ["r"])
      }
    }
  }

  @Test("A hang-up without interest does not keep the loop awake")
  func hangUp() async throws {
    try await withLoops("hang-up") { loops in
      let loop = loops[0]
      let (near, far) = try socketPair()
      let kept = Confined<Socket?>(nil)
      try await loop.on { kept.value = try Socket(adopting: near, loop: loop) }
      shutdown(far, Int32(SHUT_RDWR))
      close(far)
      try await loop.turns(5)
      #expect(try await loop.on { loop.readySockets() } == 0)
      let (told, tell) = AsyncStream.makeStream(of: String.self)
      try await loop.on {
        kept.value?.handler = ClosureHandler(writable: {
          tell.yield("w")
          kept.value?.close()
        })
        kept.value?.setInterest(reading: false, writing: true)
      }
      #expect(await told.first(1) == ["w"])
    }
  }

  @Test(
    "A closed or detached socket is not watched, even if a copy of its descriptor stays open")
  func copies() async throws {
    try await withLoops("copies") { loops in
      let loop = loops[0]
      for detaches in [false, true] {
        let (near, far) = try socketPair()
        let copy = dup(near)
        let left = try await loop.on {
          let socket = try Socket(adopting: near, loop: loop)
          socket.handler = ClosureHandler(readable: { Issue.record("called") })
          socket.setInterest(reading: true, writing: false)
          let left = detaches ? socket.detach() : -1
          socket.close()
          return left
        }
        #expect(left == (detaches ? near : -1))
        #expect(write(far, "x", 1) == 1)
        try await loop.turns(2)
        #expect(try await loop.on { loop.readySockets() } == 0)
        for descriptor in [copy, far, left] where descriptor >= 0 { close(descriptor) }
      }
    }
  }

  @Test("Events beyond one turn's limit are reported in the next turns")
  func crowd() async throws {
    let count = Epoll.eventsPerTurn + 50
    try await withLoops("crowd") { loops in
      let loop = loops[0]
      let (told, tell) = AsyncStream.makeStream(of: Int.self)
      try await loop.on {
        for index in 0..<count {
          // Not connected, and so at its end from the start.
          let socket = try Socket(adopting: Socket.openStream(.loopbackIPv4(port: 0)), loop: loop)
          socket.handler = ClosureHandler(readable: {
            tell.yield(index)
            socket.close()
          })
          socket.setInterest(reading: true, writing: false)
        }
      }
      #expect(await told.first(count).sorted() == Array(0..<count))
    }
  }

  @Test(
    "A socket that goes first is served before many others, of which each turn serves a limited number"
  )
  func first() async throws {
    let crowd = try (0..<60).map { _ in try socketPair() }
    let (near, far) = try socketPair()
    try await withLoops("first") { loops in
      let loop = loops[0]
      let order = Confined<[Int]>([])
      let sockets = Confined<[Socket]>([])
      let (ended, end) = AsyncStream.makeStream(of: [Int].self)
      try await loop.on {
        loop.socketsPerTurn = 10
        loop.onWake = { order.value.append(-1) }
        for (index, descriptor) in (crowd.map(\.0) + [near]).enumerated() {
          let socket = try Socket(
            adopting: descriptor, loop: loop, goesFirst: descriptor == near)
          socket.handler = ClosureHandler(readable: {
            order.value.append(index)
            sockets.value[index].close()
            if order.value.count(where: { $0 >= 0 }) == 61 { end.yield(order.value) }
          })
          socket.setInterest(reading: true, writing: false)
          sockets.value.append(socket)
        }
        // The one that goes first is ready last.
        for pair in crowd { #expect(write(pair.1, "x", 1) == 1) }
        #expect(write(far, "x", 1) == 1)
      }
      let turns = await ended.first(1)[0].split(separator: -1)
      #expect(turns.first?.first == 60)
      #expect(turns.flatMap(\.self).sorted() == Array(0...60))
      #expect(turns.allSatisfy { turn in turn.count { $0 < 60 } <= 10 })
      try await loop.on { loop.onWake = nil }
    }
    for pair in crowd { close(pair.1) }
    close(far)
  }

  @Test("A socket that goes first can change its interest, and is not watched once it is closed")
  func firstInterest() async throws {
    try await withLoops("interest") { loops in
      let loop = loops[0]
      let (near, far) = try socketPair()
      let copy = dup(near)
      let calls = Confined<[String]>([])
      let kept = Confined<Socket?>(nil)
      try await loop.on {
        let socket = try Socket(adopting: near, loop: loop, goesFirst: true)
        socket.handler = ClosureHandler(
          readable: { calls.value.append("r") },
          writable: {
            calls.value.append("w")
            socket.setInterest(reading: false, writing: false)
          })
        socket.setInterest(reading: false, writing: true)
        kept.value = socket
      }
      #expect(write(far, "x", 1) == 1)
      try await loop.turns(3)
      #expect(try await loop.on { calls.value } == ["w"])
      try await loop.on { kept.value?.close() }
      try await loop.turns(2)
      #expect(try await loop.on { loop.readySockets() } == 0)
      // The slot's next socket does not go first.
      try await loop.on {
        kept.value = try Socket(
          adopting: Socket.openStream(.loopbackIPv4(port: 0)), loop: loop)
        #expect(loop.sockets.count == 1)
        #expect(unsafe !loop.sockets[0].pointee.goesFirst)
        kept.value?.close()
      }
      for descriptor in [copy, far] { close(descriptor) }
    }
  }

  @Test("A descriptor that cannot be watched is rejected and closed")
  func refused() async throws {
    try await withLoops("refused") { loops in
      let loop = loops[0]
      let file = open("/dev/null", O_RDONLY | O_CLOEXEC)
      try await loop.on {
        #expect(throws: SocketError.system(.watch, code: EPERM, nil)) {
          try Socket(adopting: file, loop: loop)
        }
        #expect(throws: SocketError.system(.watch, code: EBADF, nil)) {
          try Socket(adopting: -1, loop: loop)
        }
        // The slots are free again.
        _ = try Socket(adopting: Socket.openStream(.loopbackIPv4(port: 0)), loop: loop)
        #expect(loop.sockets.count == 1)
      }
    }
  }

  @Test("A socket created before the loop's start is reported after it")
  func beforeStart() async throws {
    let (near, far) = try socketPair()
    let loop = EventLoop(name: "early")
    let (told, tell) = AsyncStream.makeStream(of: Int.self)
    let socket = try Socket(adopting: near, loop: loop)
    socket.handler = ClosureHandler(readable: {
      tell.yield(1)
      socket.close()
    })
    socket.setInterest(reading: true, writing: false)
    #expect(write(far, "x", 1) == 1)
    loop.start()
    #expect(await told.first(1) == [1])
    loop.stopAndJoin()
    close(far)
  }

  @Test("Reading and writing never block, even with a blocking descriptor")
  func blockingDescriptor() async throws {
    let (near, far) = try socketPair()
    try await withLoops("blocking") { loops in
      let loop = loops[0]
      try await loop.on {
        let socket = try Socket(adopting: near, loop: loop)
        #expect(fcntl(near, F_GETFL) & O_NONBLOCK == 0)
        var room: [UInt8] = [0]
        var span = room.mutableSpan
        #expect(socket.read(into: &span) == .wouldBlock)
        let bytes = [UInt8](repeating: 0, count: 1 << 16)
        var result = IOResult.bytes(0)
        while case .bytes = result { result = socket.write(bytes) }
        #expect(result == .wouldBlock)
        socket.close()
      }
    }
    close(far)
  }

  @Test("An entry of the table takes 24 bytes")
  func size() {
    #expect(MemoryLayout<SocketTable.Entry>.stride == 24)
  }
}
