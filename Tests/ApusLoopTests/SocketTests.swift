import Foundation
import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct SocketTests {
  static let loopbacks = [SocketAddress.loopbackIPv4(port: 0), .loopbackIPv6(port: 0)]

  /// A listener on `loop` whose connections `serve` gets; returns its address.
  private func listen(
    _ address: SocketAddress = .loopbackIPv4(port: 0), on loop: EventLoop,
    keeping kept: Confined<[AnyObject]>, serve: @escaping @Sendable (Socket) -> Void
  ) async throws -> SocketAddress {
    try await loop.on {
      let listener = try Listener(loop: loop, address: address) { descriptor, _ in
        do {
          serve(try Socket(adopting: descriptor, loop: loop))
        } catch {
          Issue.record(error)
        }
      }
      kept.value.append(listener)
      return try #require(listener.localAddress)
    }
  }

  /// Connects, sends, and waits for the end.
  private func exchange(
    _ bytes: [UInt8], with address: SocketAddress, on loop: EventLoop
  ) async throws -> Peer.Ending {
    try await withCheckedThrowingContinuation { continuation in
      loop.perform {
        do {
          let socket = try Socket.connect(to: address, loop: loop)
          _ = Peer(socket, sends: bytes) { continuation.resume(returning: $0) }
        } catch {
          continuation.resume(throwing: error)
        }
      }
    }
  }

  @Test("An echo returns all bytes, even more than the system buffers", arguments: loopbacks)
  func echo(_ address: SocketAddress) async throws {
    try await withLoops("server", "client") { loops in
      let kept = Confined<[AnyObject]>([])
      let bound = try await listen(address, on: loops[0], keeping: kept) { _ = Echo($0) }
      let bytes = (0..<(8 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
      let ending = try await exchange(bytes, with: bound, on: loops[1])
      #expect(ending == .endOfStream(bytes))
      try await loops[0].on { kept.value = [] }
    }
  }

  @Test("A hundred simultaneous connections each get their own bytes")
  func manyConnections() async throws {
    try await withLoops("server", "client") { loops in
      let kept = Confined<[AnyObject]>([])
      let bound = try await listen(on: loops[0], keeping: kept) { _ = Echo($0) }
      let client = loops[1]
      try await withThrowingTaskGroup { group in
        for index in 0..<100 {
          group.addTask {
            let bytes = [UInt8](repeating: UInt8(index), count: 1000 + index)
            let ending = try await exchange(bytes, with: bound, on: client)
            #expect(ending == .endOfStream(bytes))
          }
        }
        try await group.waitForAll()
      }
      try await loops[0].on { kept.value = [] }
    }
  }

  @Test("After shutdownWrite() the answer still arrives")
  func halfClose() async throws {
    try await withLoops("server", "client") { loops in
      let kept = Confined<[AnyObject]>([])
      // Answers only after the end of the question.
      let bound = try await listen(on: loops[0], keeping: kept) { socket in
        let handler = ClosureHandler()
        var question: [UInt8] = []
        handler.readable = {
          var buffer = [UInt8](repeating: 0, count: 64)
          var span = buffer.mutableSpan
          switch socket.read(into: &span) {
          case .bytes(let count): question += buffer[..<count]
          case .endOfStream:
            #expect(question == Array("why?".utf8))
            #expect(socket.write(Array("because".utf8)) == .bytes(7))
            socket.close()
          case .wouldBlock, .failed: Issue.record("neither bytes nor an end")
          }
        }
        socket.handler = handler
        socket.setInterest(reading: true, writing: false)
      }
      let ending = try await exchange(Array("why?".utf8), with: bound, on: loops[1])
      #expect(ending == .endOfStream(Array("because".utf8)))
      try await loops[0].on { kept.value = [] }
    }
  }

  @Test("A refused connection is reported at the first writability", arguments: loopbacks)
  func refused(_ address: SocketAddress) async throws {
    try await withLoops("client") { loops in
      // Bound but not listening: no other socket can take the port meanwhile.
      let descriptor = try Socket.openStream(address)
      #expect(address.withSystemAddress { bind(descriptor, $0, $1) } == 0)
      let bound = try #require(SocketAddress { getsockname(descriptor, $0, $1) })
      #expect(try await exchange([], with: bound, on: loops[0]) == .failed(ECONNREFUSED))
      close(descriptor)
    }
  }

  @Test("abort() resets the connection")
  func abort() async throws {
    try await withLoops("server", "client") { loops in
      let kept = Confined<[AnyObject]>([])
      let bound = try await listen(on: loops[0], keeping: kept) { socket in
        socket.abort()
        socket.abort()
      }
      let ended = try await withCheckedThrowingContinuation { continuation in
        loops[1].perform {
          do {
            let socket = try Socket.connect(to: bound, loop: loops[1])
            _ = Peer(socket, thenShutsDown: false) { continuation.resume(returning: $0) }
          } catch {
            continuation.resume(throwing: error)
          }
        }
      }
      #expect(ended == .failed(ECONNRESET))
      try await loops[0].on { kept.value = [] }
    }
  }

  @Test("Writing to a closed peer fails with EPIPE and does not kill the process")
  func brokenPipe() async throws {
    let (near, far) = try socketPair()
    shutdown(far, Int32(SHUT_RDWR))
    close(far)
    try await withLoops("pipe") { loops in
      let loop = loops[0]
      try await loop.on {
        let socket = try Socket(adopting: near, loop: loop)
        #expect(socket.write([1]) == .failed(EPIPE))
        socket.close()
      }
    }
  }

  @Test("Reading distinguishes bytes, nothing yet, and the end")
  func readResults() async throws {
    let (near, far) = try socketPair()
    try await withLoops("reading") { loops in
      let loop = loops[0]
      try await loop.on {
        let socket = try Socket(adopting: near, loop: loop)
        var room = [UInt8](repeating: 0, count: 3)
        func read() -> IOResult {
          var span = room.mutableSpan
          return socket.read(into: &span)
        }
        #expect(read() == .wouldBlock)
        #expect(write(far, "abcd", 4) == 4)
        #expect(read() == .bytes(3))
        #expect(room == Array("abc".utf8))
        #expect(read() == .bytes(1))
        shutdown(far, Int32(SHUT_WR))
        #expect(read() == .endOfStream)
        #expect(socket.write([]) == .bytes(0))
        socket.close()
        #expect(read() == .failed(EBADF))
        #expect(!socket.isOpen)
        close(far)
      }
    }
  }

  @Test("A handler that closes its socket is not called again, and is released")
  func closeInside() async throws {
    try await withLoops("closing") { loops in
      let loop = loops[0]
      let (near, far) = try socketPair()
      let calls = Confined(0)
      let isReleased = Confined<() -> Bool>({ false })
      try await loop.on {
        let opened = try Socket(adopting: near, loop: loop)
        let handler = ClosureHandler(
          readable: {
            calls.value += 1
            opened.close()
            opened.close()
          }, writable: { calls.value += 1 })
        opened.handler = handler
        isReleased.value = { [weak handler] in handler == nil }
        opened.setInterest(reading: true, writing: true)
        // Readable and writable in one event: the first call closes, so the second must not happen.
        #expect(write(far, "x", 1) == 1)
      }
      try await loop.turns(3)
      #expect(try await loop.on { calls.value } == 1)
      #expect(try await loop.on { isReleased.value() })
      close(far)
    }
  }

  @Test("Without interest nothing is reported, and pending readiness is reported when it returns")
  func interest() async throws {
    let (near, far) = try socketPair()
    try await withLoops("interest") { loops in
      let loop = loops[0]
      let calls = Confined<[String]>([])
      let socket = Confined<Socket?>(nil)
      try await loop.on {
        let opened = try Socket(adopting: near, loop: loop)
        opened.handler = ClosureHandler(
          readable: {
            calls.value.append("r")
            opened.setInterest(reading: false, writing: true)
          },
          writable: {
            calls.value.append("w")
            opened.setInterest(reading: false, writing: false)
          })
        socket.value = opened
      }
      #expect(write(far, "x", 1) == 1)
      try await loop.turns(3)
      #expect(try await loop.on { calls.value } == [])
      try await loop.on { socket.value?.setInterest(reading: true, writing: false) }
      try await loop.turns(3)
      #expect(try await loop.on { calls.value } == ["r", "w"])
      try await loop.on { socket.value?.close() }
      close(far)
    }
  }

  @Test("A handler may be replaced in the middle")
  func handlerChange() async throws {
    let (near, far) = try socketPair()
    try await withLoops("handover") { loops in
      let loop = loops[0]
      let (stream, continuation) = AsyncStream.makeStream(of: String.self)
      try await loop.on {
        let socket = try Socket(adopting: near, loop: loop)
        let second = ClosureHandler(readable: {
          continuation.yield("second")
          socket.close()
        })
        socket.handler = ClosureHandler(readable: {
          continuation.yield("first")
          socket.handler = second
        })
        socket.setInterest(reading: true, writing: false)
      }
      #expect(write(far, "x", 1) == 1)
      #expect(await stream.first(2) == ["first", "second"])
      close(far)
    }
  }

  @Test("A connection moves to another loop with its unread bytes and all later ones")
  func detach() async throws {
    let (near, far) = try socketPair()
    try await withLoops("first", "second") { loops in
      let (first, second) = (loops[0], loops[1])
      let (parts, part) = AsyncStream.makeStream(of: String.self)
      #expect(write(far, "one", 3) == 3)
      let moved = try await withCheckedThrowingContinuation { continuation in
        first.perform {
          do {
            let socket = try Socket(adopting: near, loop: first)
            socket.handler = ClosureHandler(readable: {
              part.yield(text(from: socket))
              // Between reading and moving: these bytes must not be lost.
              #expect(write(far, "two", 3) == 3)
              let descriptor = socket.detach()
              #expect(socket.detach() == -1)
              #expect(!socket.isOpen)
              continuation.resume(returning: descriptor)
            })
            socket.setInterest(reading: true, writing: false)
          } catch {
            continuation.resume(throwing: error)
          }
        }
      }
      let kept = Confined<Socket?>(nil)
      try await second.on {
        let socket = try Socket(adopting: moved, loop: second)
        socket.handler = ClosureHandler(readable: { part.yield(text(from: socket)) })
        socket.setInterest(reading: true, writing: false)
        kept.value = socket
      }
      #expect(await parts.first(2) == ["one", "two"])
      #expect(write(far, "three", 5) == 5)
      #expect(await parts.first(1) == ["three"])
      try await second.on { kept.value?.close() }
      close(far)
    }
  }

  @Test("A detached descriptor can return to its loop within one call")
  func detachAndReturn() async throws {
    let (near, far) = try socketPair()
    try await withLoops("return") { loops in
      let loop = loops[0]
      let received = await withCheckedContinuation { continuation in
        loop.perform {
          do {
            let before = try Socket(adopting: near, loop: loop)
            before.handler = ClosureHandler()
            before.setInterest(reading: true, writing: true)
            let after = try Socket(adopting: before.detach(), loop: loop)
            after.handler = ClosureHandler(readable: {
              continuation.resume(returning: text(from: after))
              after.close()
            })
            after.setInterest(reading: true, writing: false)
            #expect(write(far, "back", 4) == 4)
          } catch {
            continuation.resume(returning: "\(error)")
          }
        }
      }
      #expect(received == "back")
      close(far)
    }
  }

  @Test("Connections have TCP_NODELAY on both sides, and know both addresses")
  func optionsAndAddresses() async throws {
    @Sendable func option(_ socket: Socket, _ level: Int32, _ name: Int32) -> Int32 {
      var value: Int32 = -1
      var length = socklen_t(4)
      _ = getsockopt(socket.descriptor, level, name, &value, &length)
      return value
    }
    let tcp: Int32 = 6  // IPPROTO_TCP
    try await withLoops("server", "client") { loops in
      let kept = Confined<[AnyObject]>([])
      let (accepted, accept) = AsyncStream.makeStream(of: SocketAddress?.self)
      let bound = try await listen(on: loops[0], keeping: kept) { socket in
        #expect(option(socket, tcp, TCP_NODELAY) != 0)
        #expect(fcntl(socket.descriptor, F_GETFD) & FD_CLOEXEC != 0)
        #expect(fcntl(socket.descriptor, F_GETFL) & O_NONBLOCK != 0)
        socket.setKeepAlive(idleSeconds: 40)
        #expect(option(socket, SOL_SOCKET, SO_KEEPALIVE) == 1)
        #expect(option(socket, tcp, TCP_KEEPIDLE) == 40)
        #expect(option(socket, tcp, TCP_KEEPINTVL) == 4)
        socket.setUserTimeout(milliseconds: 12345)
        #expect(option(socket, tcp, TCP_USER_TIMEOUT) == 12345)
        socket.setNoDelay(false)
        #expect(option(socket, tcp, TCP_NODELAY) == 0)
        accept.yield(socket.peerAddress)
      }
      let client = try await loops[1].on {
        let socket = try Socket.connect(to: bound, loop: loops[1])
        #expect(option(socket, tcp, TCP_NODELAY) != 0)
        #expect(socket.peerAddress == bound)
        kept.value.append(socket)
        return socket.localAddress
      }
      #expect(await accepted.first(1) == [client])
      try await loops[1].on { kept.value = [] }
    }
  }
}

private func text(from socket: Socket) -> String {
  var buffer = [UInt8](repeating: 0, count: 64)
  var span = buffer.mutableSpan
  guard case .bytes(let count) = socket.read(into: &span) else { return "?" }
  return String(decoding: buffer[..<count], as: UTF8.self)
}
