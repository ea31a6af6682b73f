import Foundation
import Testing

@testable import ApusLoop

/// Records its calls, and does what a test wants.
private final class DormantLog: DormantSocketHandler {
  var tags: [Int32] = []
  var act: (Int32) -> Void = { _ in }

  func dormantSocketReady(_ tag: Int32) {
    tags.append(tag)
    act(tag)
  }
}

/// Sockets watched without an object.
@Suite(.timeLimit(.minutes(30)))
struct DormantSocketTests {
  /// The event that makes a dormant socket ready.
  enum Cause: CaseIterable {
    case bytes, end, error
  }

  @Test(
    "A dormant socket is reported with its tag, and works as before once reclaimed",
    arguments: Cause.allCases)
  func wake(_ cause: Cause) async throws {
    let (near, far) = try connectedPair()
    try await withLoops("dormant") { loops in
      let loop = loops[0]
      let kept = Confined<(DormantLog, Socket?)>((DormantLog(), nil))
      let (results, result) = AsyncStream.makeStream(of: IOResult.self)
      try await loop.on {
        let log = kept.value.0
        loop.dormantSocketHandler = log
        let opened = try Socket(adopting: near, loop: loop)
        opened.handler = ClosureHandler(readable: { Issue.record("told its former handler") })
        opened.setInterest(reading: true, writing: false)
        let number = opened.becomeDormant(tag: 4711)
        #expect(!opened.isOpen)
        #expect(opened.becomeDormant(tag: 1) == -1)
        opened.close()
        log.act = { _ in
          let socket = Socket(dormant: number, loop: loop)
          #expect(socket.isOpen)
          #expect(socket.handler == nil)
          socket.handler = ClosureHandler(readable: {
            var room: [UInt8] = [0, 0, 0]
            var span = room.mutableSpan
            result.yield(socket.read(into: &span))
            socket.close()
          })
        }
      }
      try await loop.turns(3)
      #expect(try await loop.on { kept.value.0.tags } == [])
      switch cause {
      case .bytes: #expect(write(far, "ab", 2) == 2)
      case .end: shutdown(far, Int32(SHUT_WR))
      case .error:
        reset(far)
      }
      let expected: IOResult =
        switch cause {
        case .bytes: .bytes(2)
        case .end: .endOfStream
        case .error: .failed(ECONNRESET)
        }
      #expect(await results.first(1) == [expected])
      #expect(try await loop.on { kept.value.0.tags } == [4711])
    }
    if cause != .error { close(far) }
  }

  @Test("A dormant socket that stays ready is reported in each turn until it is closed")
  func levelTriggered() async throws {
    let (near, far) = try socketPair()
    try await withLoops("level") { loops in
      let loop = loops[0]
      let log = Confined(DormantLog())
      let (told, tell) = AsyncStream.makeStream(of: Int32.self)
      try await loop.on {
        loop.dormantSocketHandler = log.value
        let socket = try Socket(adopting: near, loop: loop)
        socket.handler = ClosureHandler()
        let number = socket.becomeDormant(tag: 7)
        log.value.act = { tag in
          guard log.value.tags.count == 5 else { return }
          Socket(dormant: number, loop: loop).close()
          tell.yield(tag)
        }
      }
      #expect(write(far, "x", 1) == 1)
      #expect(await told.first(1) == [7])
      try await loop.turns(3)
      #expect(try await loop.on { log.value.tags } == [7, 7, 7, 7, 7])
      var byte: UInt8 = 0
      #expect(read(far, &byte, 1) <= 0)
    }
    close(far)
  }

  @Test(
    "Becoming dormant ends the interest in writing, and a reclaimed socket has only interest in reading"
  )
  func interest() async throws {
    let (near, far) = try socketPair()
    try await withLoops("interest") { loops in
      let loop = loops[0]
      let log = Confined(DormantLog())
      let calls = Confined<[String]>([])
      let kept = Confined<Socket?>(nil)
      try await loop.on {
        loop.dormantSocketHandler = log.value
        let socket = try Socket(adopting: near, loop: loop)
        socket.handler = ClosureHandler()
        socket.setInterest(reading: false, writing: true)
        let number = socket.becomeDormant(tag: 3)
        kept.value = Socket(dormant: number, loop: loop)
        kept.value?.handler = ClosureHandler(
          readable: {
            calls.value.append("r")
            kept.value?.setInterest(reading: false, writing: true)
          },
          writable: {
            calls.value.append("w")
            kept.value?.close()
          })
      }
      try await loop.turns(3)
      #expect(try await loop.on { calls.value } == [])
      #expect(write(far, "x", 1) == 1)
      try await loop.turns(4)
      #expect(try await loop.on { calls.value } == ["r", "w"])
      #expect(try await loop.on { log.value.tags } == [])
    }
    close(far)
  }

  @Test("Readiness of a reclaimed socket without a handler is reported once it has one")
  func noHandlerYet() async throws {
    let (near, far) = try socketPair()
    try await withLoops("between") { loops in
      let loop = loops[0]
      let log = Confined(DormantLog())
      let kept = Confined<Socket?>(nil)
      try await loop.on {
        loop.dormantSocketHandler = log.value
        let socket = try Socket(adopting: near, loop: loop)
        let number = socket.becomeDormant(tag: 3)
        kept.value = Socket(dormant: number, loop: loop)
      }
      #expect(write(far, "x", 1) == 1)
      try await loop.turns(3)
      let (told, tell) = AsyncStream.makeStream(of: Int.self)
      try await loop.on {
        kept.value?.handler = ClosureHandler(readable: {
          tell.yield(1)
          kept.value?.close()
        })
      }
      #expect(await told.first(1) == [1])
      #expect(try await loop.on { log.value.tags } == [])
    }
    close(far)
  }

  @Test("The peer sees a reset as a reset, and a graceful close as the end")
  func closing() async throws {
    try await withLoops("closing") { loops in
      let loop = loops[0]
      for resets in [false, true] {
        let (near, far) = try connectedPair()
        try await loop.on {
          let log = DormantLog()
          loop.dormantSocketHandler = log
          let socket = try Socket(adopting: near, loop: loop)
          let dormant = Socket(dormant: socket.becomeDormant(tag: 0), loop: loop)
          if resets { dormant.abort() } else { dormant.close() }
        }
        var byte: UInt8 = 0
        let count = read(far, &byte, 1)
        let code = errno
        #expect(count == (resets ? -1 : 0))
        if resets { #expect(code == ECONNRESET) }
        close(far)
      }
    }
  }

  @Test("A loop closes dormant sockets when it ends, started or not", arguments: [true, false])
  func loopEnds(isStarted: Bool) async throws {
    let (near, far) = try socketPair()
    let log = Confined(DormantLog())
    do {
      let loop = EventLoop(name: "ends")
      loop.dormantSocketHandler = log.value
      _ = try Socket(adopting: near, loop: loop).becomeDormant(tag: 1)
      if isStarted {
        loop.start()
        try await loop.turns(2)
        loop.stopAndJoin()
      }
    }
    var byte: UInt8 = 0
    #expect(read(far, &byte, 1) == 0)
    close(far)
  }

  @Test("Thousands of sockets become dormant and are reclaimed, each with its own tag")
  func many() async throws {
    try await withLoops("many") { loops in
      let loop = loops[0]
      let pairs = try (0..<300).map { _ in try socketPair() }
      let log = Confined(DormantLog())
      let numbers = Confined<[Int32]>([])
      let (told, tell) = AsyncStream.makeStream(of: Int32.self)
      try await loop.on {
        loop.dormantSocketHandler = log.value
        // Ten generations of each slot, in another order each time.
        var sockets = try pairs.map { try Socket(adopting: $0.0, loop: loop) }
        for round in 0..<10 {
          let dormant = sockets.indices.map { sockets[$0].becomeDormant(tag: Int32($0)) }
          sockets = dormant.map { Socket(dormant: $0, loop: loop) }
          let index = round * 7
          let descriptor = sockets[index].detach()
          sockets[index] = try Socket(adopting: descriptor, loop: loop)
        }
        numbers.value = sockets.indices.map { sockets[$0].becomeDormant(tag: Int32($0)) }
        #expect(Set(numbers.value).count == pairs.count)
        log.value.act = { tag in
          Socket(dormant: numbers.value[Int(tag)], loop: loop).close()
          tell.yield(tag)
        }
      }
      for index in stride(from: 1, to: 300, by: 2) { #expect(write(pairs[index].1, "x", 1) == 1) }
      let tags = await told.first(150)
      #expect(tags.sorted() == Array(stride(from: 1, to: 300, by: 2)))
      for pair in pairs { close(pair.1) }
    }
  }
}
