import Foundation
import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct ListenerTests {
  /// Connects to a listener on the loopback, blocking: a plain descriptor.
  static func connect(to address: SocketAddress) throws -> Int32 {
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(address.systemFamily, type, 0)
    try #require(descriptor >= 0)
    try #require(address.withSystemAddress { Glibc.connect(descriptor, $0, $1) } == 0)
    return descriptor
  }

  @Test("Both families can be bound to one port side by side")
  func bothFamilies() throws {
    let loop = EventLoop(name: "families")
    let six = try Listener(loop: loop, address: .loopbackIPv6(port: 0)) { _, _ in }
    let port = try #require(six.localAddress?.port)
    #expect(port != 0)
    let four = try Listener(loop: loop, address: .anyIPv4(port: port)) { _, _ in }
    #expect(four.localAddress == .anyIPv4(port: port))
  }

  @Test("An address in use is reported with the address and the reason")
  func inUse() throws {
    let loop = EventLoop(name: "in-use")
    let first = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) { _, _ in }
    let address = try #require(first.localAddress)
    let error = #expect(throws: SocketError.self) {
      try Listener(loop: loop, address: address) { _, _ in }
    }
    #expect(error == .system(.bind, code: EADDRINUSE, address))
    #expect(error?.description == "cannot bind \(address): address already in use")
    first.close()
    first.close()
    #expect(first.localAddress == nil)
    // A child that another test is spawning has a copy of the closed descriptor until it executes its program.
    var again: Listener?
    for _ in 0..<1000 where again == nil {
      again = try? Listener(loop: loop, address: address) { _, _ in }
      if again == nil { usleep(10_000) }
    }
    #expect(again?.localAddress == address)
  }

  @Test("Listeners of several loops share a port if all of them ask for it")
  func reusePort() async throws {
    try await withLoops("one", "two") { loops in
      let kept = Confined<[Listener]>([])
      let (stream, continuation) = AsyncStream.makeStream(of: Int32.self)
      var address = SocketAddress.loopbackIPv4(port: 0)
      for loop in loops {
        address = try await loop.on { [address] in
          let listener = try Listener(loop: loop, address: address, reusePort: true) { fd, _ in
            continuation.yield(fd)
          }
          kept.value.append(listener)
          return try #require(listener.localAddress)
        }
      }
      let clients = try (0..<32).map { _ in try Self.connect(to: address) }
      for descriptor in await stream.first(32) + clients { close(descriptor) }
      kept.value = []
    }
  }

  @Test("More connections than one turn takes are all accepted, with their addresses")
  func manyAtOnce() async throws {
    try await withLoops("many") { loops in
      let loop = loops[0]
      let kept = Confined<Listener?>(nil)
      let (stream, continuation) = AsyncStream.makeStream(of: SocketAddress.self)
      let address = try await loop.on {
        let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) { fd, peer in
          continuation.yield(peer)
          close(fd)
        }
        listener.pause()
        kept.value = listener
        return try #require(listener.localAddress)
      }
      let clients = try (0..<150).map { _ in try Self.connect(to: address) }
      let names = clients.compactMap { client in
        SocketAddress { getsockname(client, $0, $1) }
      }
      try await loop.on { kept.value?.resume() }
      #expect(Set(await stream.first(150)) == Set(names))
      for client in clients { close(client) }
      try await loop.on { kept.value = nil }
    }
  }

  @Test("A paused listener leaves connections in the backlog")
  func pause() async throws {
    try await withLoops("pausing") { loops in
      let loop = loops[0]
      let kept = Confined<Listener?>(nil)
      let accepted = Confined(0)
      let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
      let address = try await loop.on {
        let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) { fd, _ in
          close(fd)
          accepted.value += 1
          // Pausing inside the handler takes effect before the next connection.
          kept.value?.pause()
          continuation.yield()
        }
        listener.pause()
        kept.value = listener
        return try #require(listener.localAddress)
      }
      let clients = try (0..<3).map { _ in try Self.connect(to: address) }
      try await loop.turns(3)
      #expect(try await loop.on { accepted.value } == 0)
      for expected in 1...3 {
        try await loop.on { kept.value?.resume() }
        _ = await stream.first(1)
        try await loop.turns(3)
        #expect(try await loop.on { accepted.value } == expected)
      }
      for client in clients { close(client) }
      try await loop.on { kept.value?.close() }
    }
  }

  @Test("Without descriptors connections are refused and counted, and later ones are served")
  func descriptorsExhausted() async {
    // In a process of its own: the limit applies to the whole process.
    await #expect(processExitsWith: .success) {
      let loop = EventLoop(name: "exhausted")
      loop.start()
      let kept = Confined<Listener?>(nil)
      let address = try await loop.on {
        let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) { fd, _ in
          var greeting: UInt8 = 1
          _ = write(fd, &greeting, 1)
        }
        kept.value = listener
        return try #require(listener.localAddress)
      }
      var limit = rlimit(rlim_cur: 64, rlim_max: 64)
      try #require(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
      var held: [Int32] = []
      /// Connects and reads: true if it was greeted, false if it was closed. Nil without a descriptor for trying.
      func isServed() throws -> Bool? {
        let client = socket(address.systemFamily, Int32(SOCK_STREAM.rawValue), 0)
        guard client >= 0 else { return nil }
        held.append(client)
        try #require(address.withSystemAddress { Glibc.connect(client, $0, $1) } == 0)
        var patience = timeval(tv_sec: 60, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        try #require(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, size) == 0)
        var byte: UInt8 = 0
        let count = read(client, &byte, 1)
        try #require(count >= 0)
        return count == 1
      }
      try #require(try isServed() == true)

      // One descriptor for the client, none for the server's side. The process's other threads briefly open files of
      // their own, and free a descriptor or take the last one: then the next attempt decides.
      var isRefused = false
      for _ in 0..<50 where !isRefused {
        while case let descriptor = open("/dev/null", O_RDONLY), descriptor >= 0 {
          held.append(descriptor)
        }
        close(held.removeLast())
        isRefused = try isServed() == false
      }
      try #require(isRefused)
      try #require(try await loop.on { kept.value?.refusedForDescriptors } == 1)

      for _ in 0..<8 { close(held.removeLast()) }
      try #require(try isServed() == true)
      try #require(try await loop.on { kept.value?.refusedForDescriptors } == 1)
    }
  }
}
