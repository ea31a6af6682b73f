import Foundation
import Testing

@testable import ApusLoop

/// What a socket knows of the machine at the other end.
@Suite(.timeLimit(.minutes(30)))
struct PeerStateTests {
  /// A connection accepted by a listener on `loop`, and a plain blocking descriptor at its other end.
  private func connected(
    on loop: EventLoop, keepAlive: TCPKeepAlive? = .standard, peerReceiveBufferBytes: Int32? = nil
  ) async throws -> (Confined<Socket>, Int32) {
    let (accepted, accept) = AsyncStream.makeStream(of: Int32.self)
    let listener = Confined<Listener?>(nil)
    let address = try await loop.on {
      let opened = try Listener(
        loop: loop, address: .loopbackIPv4(port: 0), keepAlive: keepAlive
      ) { descriptor, _ in accept.yield(descriptor) }
      listener.value = opened
      return try #require(opened.localAddress)
    }
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    let far = socket(address.systemFamily, type, 0)
    try #require(far >= 0)
    if let peerReceiveBufferBytes {
      try #require(setSocketOption(far, SOL_SOCKET, SO_RCVBUF, peerReceiveBufferBytes) == 0)
    }
    try #require(address.withSystemAddress { Glibc.connect(far, $0, $1) } == 0)
    let near = try #require(await accepted.first(1).first)
    let socket = Confined<Socket?>(nil)
    try await loop.on {
      listener.value = nil
      socket.value = try Socket(adopting: near, loop: loop)
    }
    return (Confined(try #require(socket.value)), far)
  }

  private static func option(_ descriptor: Int32, _ level: Int32, _ name: Int32) -> Int32 {
    var value: Int32 = -1
    var length = socklen_t(4)
    _ = getsockopt(descriptor, level, name, &value, &length)
    return value
  }

  @Test("Written bytes count as unacknowledged until the peer's machine has them")
  func unacknowledged() async throws {
    try await withLoops("unacknowledged") { loops in
      let loop = loops[0]
      // Far less than this side can buffer.
      let (near, far) = try await connected(on: loop, peerReceiveBufferBytes: 4096)
      let (bytes, byte) = AsyncStream.makeStream(of: IOResult.self)
      let written = try await loop.on {
        let socket = near.value
        #expect(socket.unacknowledgedByteCount == 0)
        let block = [UInt8](repeating: 7, count: 65536)
        var written = 0
        while case .bytes(let count) = socket.write(block) { written += count }
        let waiting = try #require(socket.unacknowledgedByteCount)
        // The window of the peer, which does not read, is below 64 KiB.
        #expect(waiting <= written)
        #expect(waiting >= written - 65536)
        #expect(waiting > 0)
        socket.handler = ClosureHandler(readable: {
          var room: [UInt8] = [0]
          var span = room.mutableSpan
          byte.yield(socket.read(into: &span))
          socket.setInterest(reading: false, writing: false)
        })
        socket.setInterest(reading: true, writing: false)
        return written
      }
      var room = [UInt8](repeating: 0, count: 65536)
      var received = 0
      while received < written {
        let count = read(far, &room, room.count)
        try #require(count > 0)
        received += count
      }
      // The answer carries the acknowledgement of everything before it.
      #expect(write(far, "!", 1) == 1)
      #expect(await bytes.first(1) == [.bytes(1)])
      try await loop.on {
        #expect(near.value.unacknowledgedByteCount == 0)
        near.value.close()
        #expect(near.value.unacknowledgedByteCount == nil)
      }
      close(far)
    }
  }

  @Test(
    "Accepted connections are probed when they are silent",
    arguments: [
      TCPKeepAlive.standard, TCPKeepAlive(idleSeconds: 7, intervalSeconds: 3, probeCount: 2),
    ])
  func keepAlive(_ keepAlive: TCPKeepAlive) async throws {
    try await withLoops("keep-alive") { loops in
      let loop = loops[0]
      let (near, far) = try await connected(on: loop, keepAlive: keepAlive)
      try await loop.on {
        let tcp: Int32 = 6  // IPPROTO_TCP
        let descriptor = near.value.descriptor
        #expect(Self.option(descriptor, SOL_SOCKET, SO_KEEPALIVE) == 1)
        #expect(Int(Self.option(descriptor, tcp, TCP_KEEPIDLE)) == keepAlive.idleSeconds)
        #expect(Int(Self.option(descriptor, tcp, TCP_KEEPINTVL)) == keepAlive.intervalSeconds)
        #expect(Int(Self.option(descriptor, tcp, TCP_KEEPCNT)) == keepAlive.probeCount)
        near.value.setKeepAlive(nil)
        #expect(Self.option(descriptor, SOL_SOCKET, SO_KEEPALIVE) == 0)
        near.value.close()
      }
      close(far)
    }
  }

  @Test("The standard probes start after five minutes of silence, and give up after seven")
  func standard() {
    let keepAlive = TCPKeepAlive.standard
    #expect(keepAlive.idleSeconds == 300)
    #expect(keepAlive.idleSeconds + keepAlive.intervalSeconds * keepAlive.probeCount == 420)
  }

  @Test("A listener may disable probes")
  func noKeepAlive() async throws {
    try await withLoops("silent") { loops in
      let (near, far) = try await connected(on: loops[0], keepAlive: nil)
      try await loops[0].on {
        #expect(Self.option(near.value.descriptor, SOL_SOCKET, SO_KEEPALIVE) == 0)
        near.value.close()
      }
      close(far)
    }
  }

  @Test(
    "A closed peer is detected before its earlier bytes are read",
    arguments: [Departure.none, .shutdown, .close, .reset])
  func finished(_ departure: Departure) async throws {
    try await withLoops("finished") { loops in
      let loop = loops[0]
      let (near, far) = try await connected(on: loop)
      #expect(write(far, "abc", 3) == 3)
      let (readable, isReadable) = AsyncStream.makeStream(of: Void.self)
      try await loop.on {
        #expect(!near.value.hasPeerFinished)
        near.value.handler = ClosureHandler(readable: {
          near.value.setInterest(reading: false, writing: false)
          isReadable.yield()
        })
        near.value.setInterest(reading: true, writing: false)
      }
      _ = await readable.first(1)
      switch departure {
      case .none: break
      case .shutdown: #expect(shutdown(far, Int32(SHUT_WR)) == 0)
      case .close: close(far)
      case .reset:
        var linger = linger(l_onoff: 1, l_linger: 0)
        let size = socklen_t(MemoryLayout<linger>.size)
        #expect(setsockopt(far, SOL_SOCKET, SO_LINGER, &linger, size) == 0)
        close(far)
      }
      // For a loopback connection the other end knows at once.
      try await loop.on {
        #expect(near.value.hasPeerFinished == (departure != .none))
        guard departure != .reset else { return near.value.close() }
        var room = [UInt8](repeating: 0, count: 64)
        var span = room.mutableSpan
        #expect(near.value.read(into: &span) == .bytes(3))
        near.value.close()
        #expect(!near.value.hasPeerFinished)
      }
      if departure == .none || departure == .shutdown { close(far) }
    }
  }

  enum Departure: CaseIterable { case none, shutdown, close, reset }

  @Test("A reset differs from the end of the stream, and bytes before it are not lost")
  func resetOrEnd() async throws {
    try await withLoops("ends") { loops in
      let loop = loops[0]
      for leavesUnread in [false, true] {
        let (near, far) = try await connected(on: loop)
        let (results, result) = AsyncStream.makeStream(of: IOResult.self)
        try await loop.on {
          let socket = near.value
          #expect(socket.write(Array("?".utf8)) == .bytes(1))
          socket.handler = ClosureHandler(readable: {
            var room = [UInt8](repeating: 0, count: 64)
            var span = room.mutableSpan
            let read = socket.read(into: &span)
            result.yield(read)
            if case .bytes = read { return }
            socket.close()
          })
          socket.setInterest(reading: true, writing: false)
        }
        // RFC 2525, section 2.17: a close with unread data must reset.
        let peek: Int32 = 2  // MSG_PEEK
        var question: UInt8 = 0
        #expect(recv(far, &question, 1, leavesUnread ? peek : 0) == 1)
        #expect(write(far, "abc", 3) == 3)
        close(far)
        #expect(
          await results.first(2) == [
            .bytes(3), leavesUnread ? .failed(ECONNRESET) : .endOfStream,
          ])
      }
    }
  }
}
