import Foundation
import Testing

@testable import ApusLoop

@Suite("Inherited sockets", .timeLimit(.minutes(30)))
struct InheritedSocketTests {
  // MARK: The environment

  @Test(
    "Names are in the order of the descriptors",
    arguments: [
      ([:], []),
      (["LISTEN_FDS": "2"], []),
      (["LISTEN_FDS": "2", "LISTEN_PID": "8"], []),
      (["LISTEN_FDS": "2", "LISTEN_PID": "7"], ["unknown", "unknown"]),
      (["LISTEN_FDS": "2", "LISTEN_PID": "7", "LISTEN_FDNAMES": "http2:"], ["http2", ""]),
      (["LISTEN_FDS": "0", "LISTEN_PID": "7", "LISTEN_FDNAMES": ""], []),
    ])
  func names(environment: [String: String], expected: [String]) throws {
    #expect(try InheritedSockets.names(environment, process: 7) == expected)
  }

  @Test(
    "An invalid count is an error", arguments: ["", "-1", "two", "65", "99999999999999999999"])
  func badCount(text: String) {
    #expect(throws: InheritedSocketError.badCount(text)) {
      try InheritedSockets.names(["LISTEN_FDS": text, "LISTEN_PID": "7"], process: 7)
    }
  }

  @Test("More or fewer names than sockets are an error", arguments: ["a", "a:b:c"])
  func badNames(list: String) {
    #expect(throws: InheritedSocketError.badNames(list, count: 2)) {
      try InheritedSockets.names(
        ["LISTEN_FDS": "2", "LISTEN_PID": "7", "LISTEN_FDNAMES": list], process: 7)
    }
  }

  @Test("A listening socket is found with its address, and closed in child processes")
  func examined() throws {
    let listening = try Listening(.loopbackIPv4(port: 0))
    #expect(fcntl(listening.descriptor, F_SETFD, 0) == 0)
    let found = try InheritedSockets.take(
      ["LISTEN_FDS": "1", "LISTEN_PID": "7", "LISTEN_FDNAMES": "http2"], process: 7,
      first: listening.descriptor)
    #expect(
      found == [
        InheritedSocket(
          descriptor: listening.descriptor, name: "http2", address: listening.address)
      ])
    #expect(fcntl(listening.descriptor, F_GETFD) == FD_CLOEXEC)
  }

  @Test("An IPv6 socket reports whether it accepts IPv4 connections", arguments: [false, true])
  func bothFamilies(isBoth: Bool) throws {
    let listening = try Listening(.anyIPv6(port: 0), isIPv6Only: !isBoth)
    let found = try InheritedSockets.take(
      ["LISTEN_FDS": "1", "LISTEN_PID": "7"], process: 7, first: listening.descriptor)
    #expect(found.map(\.takesIPv4) == [isBoth])
  }

  @Test("A descriptor that is not a listening TCP socket is an error")
  func notListening() throws {
    let (near, far) = try socketPair()
    defer {
      close(near)
      close(far)
    }
    let unbound = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(unbound) }
    for descriptor in [near, unbound, -1] {
      #expect(throws: InheritedSocketError.notListening(descriptor: descriptor, name: "x")) {
        try InheritedSockets.take(
          ["LISTEN_FDS": "1", "LISTEN_PID": "7", "LISTEN_FDNAMES": "x"], process: 7,
          first: descriptor)
      }
    }
  }

  // MARK: Listening on them

  @Test("Loops that share a socket accept every connection once, and report IPv4 peers as such")
  func shared() async throws {
    let listening = try Listening(.anyIPv6(port: 0), isIPv6Only: false)
    try await withLoops("one", "two") { loops in
      let (stream, continuation) = AsyncStream.makeStream(of: SocketAddress.self)
      let kept = Confined<[Listener]>([])
      for loop in loops {
        try await loop.on {
          kept.value.append(
            try Listener(loop: loop, sharing: listening.descriptor) { descriptor, peer in
              close(descriptor)
              continuation.yield(peer)
            })
        }
      }
      let clients = try (0..<100).map { _ in
        try ListenerTests.connect(to: .loopbackIPv4(port: listening.address.port))
      }
      let names = clients.compactMap { client in
        SocketAddress { getsockname(client, $0, $1) }
      }
      let peers = await stream.first(100)
      #expect(Set(peers) == Set(names))
      #expect(peers.allSatisfy { $0.family == .ipv4 })
      for client in clients { close(client) }
      for loop in loops { try await loop.on { kept.value.removeFirst().close() } }
    }
  }

  @Test("Connections wait while no listener has the socket, and the next one gets them")
  func successor() async throws {
    let listening = try Listening(.loopbackIPv4(port: 0))
    try await withLoops("first", "second") { loops in
      let (stream, continuation) = AsyncStream.makeStream(of: SocketAddress.self)
      let kept = Confined<Listener?>(nil)
      let listen = { @Sendable (loop: EventLoop) throws in
        kept.value = try Listener(loop: loop, sharing: listening.descriptor) { descriptor, peer in
          close(descriptor)
          continuation.yield(peer)
        }
      }
      try await loops[0].on { try listen(loops[0]) }
      try await loops[0].on { kept.value?.close() }
      let clients = try (0..<3).map { _ in try ListenerTests.connect(to: listening.address) }
      let names = clients.compactMap { client in SocketAddress { getsockname(client, $0, $1) } }
      try await loops[1].on { try listen(loops[1]) }
      #expect(Set(await stream.first(3)) == Set(names))
      for client in clients { close(client) }
      try await loops[1].on { kept.value?.close() }
    }
  }

  @Test("An address is free only if no socket listens on it, not even one that would share it")
  func requireFree() throws {
    let loop = EventLoop(name: "free")
    let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0), reusePort: true) {
      _, _ in
    }
    let address = try #require(listener.localAddress)
    #expect(throws: SocketError.system(.bind, code: EADDRINUSE, address)) {
      try Listener.requireFree(address)
    }
    try Listener.requireFree(.loopbackIPv4(port: 0))
  }
}

/// A listening socket of a service manager.
private final class Listening: Sendable {
  let descriptor: Int32
  let address: SocketAddress

  init(_ wanted: SocketAddress, isIPv6Only: Bool = true) throws {
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    descriptor = socket(wanted.systemFamily, type, 0)
    if wanted.family == .ipv6 {
      let code = setSocketOption(
        descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, Int32(isIPv6Only ? 1 : 0))
      try #require(code == 0)
    }
    let descriptor = descriptor
    try #require(wanted.withSystemAddress { bind(descriptor, $0, $1) } == 0)
    try #require(listen(descriptor, 128) == 0)
    address = try #require(SocketAddress { getsockname(descriptor, $0, $1) })
  }

  deinit { close(descriptor) }
}
