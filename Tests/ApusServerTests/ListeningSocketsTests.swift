import ApusAdmin
import ApusLoop
import ApusModel
import ApusTesting
import Glibc
import Synchronization
import Testing

@testable import ApusServer

/// A worker's listeners when connections exceed the limit.
@Suite("Listeners at the connection limit")
struct ListeningSocketsTests {
  /// On a loop that only the test uses.
  private final class Crowd: @unchecked Sendable {
    let loop = EventLoop(name: "listeners")
    let listeners: ListeningSockets
    let accepted = Atomic<Int>(0)
    let acceptedAtRest = Atomic<Int>(0)

    init() { listeners = ListeningSockets(loop: loop) }

    /// Adds a listener; returns its address.
    func listen() throws -> SocketAddress {
      let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) {
        [unowned self] descriptor, _ in
        close(descriptor)
        accepted.add(1, ordering: .relaxed)
        if listeners.isPaused { acceptedAtRest.add(1, ordering: .relaxed) }
      }
      listeners.append(listener, of: .provider)
      return try #require(listener.localAddress)
    }

    func on<Result: Sendable>(
      _ body: @Sendable @escaping (Crowd) throws -> Result
    ) async throws -> Result {
      try await withCheckedThrowingContinuation { continuation in
        loop.perform { continuation.resume(with: Swift.Result { try body(self) }) }
      }
    }

    /// Adds one listener and makes it rest. Returns when that was.
    func rest() async throws -> (address: SocketAddress, atMilliseconds: UInt64) {
      try await on { crowd in
        let address = try crowd.listen()
        while !crowd.listeners.isPaused { crowd.listeners.noteCrowded() }
        return (address, crowd.loop.nowMilliseconds)
      }
    }

    func end() {
      loop.stop()
      loop.join()
    }
  }

  private func waitForEndOfRest(_ crowd: Crowd) async throws {
    try await waitUntil("the end of the rest") { try await crowd.on { !$0.listeners.isPaused } }
  }

  private func waitUntil(_ what: String, _ isTrue: () async throws -> Bool) async throws {
    let deadline = Deadline(seconds: 30)
    while try await !isTrue() {
      try #require(deadline.remainingMilliseconds > 0, "waited too long for \(what)")
      await Task.yield()
    }
  }

  @Test("At the limit all listeners rest, even new ones, and then accept waiting connections")
  func rest() async throws {
    let crowd = Crowd()
    crowd.loop.start()
    defer { crowd.end() }
    // One turn of the loop, during which the time does not change.
    let (addresses, began) = try await crowd.on { crowd in
      var addresses = [try crowd.listen()]
      for _ in 0..<Limits.crowdedAtOnce { crowd.listeners.noteCrowded() }
      try #require(!crowd.listeners.isPaused)
      crowd.listeners.noteCrowded()
      try #require(crowd.listeners.isPaused)
      try #require(crowd.listeners.pauses.crowded == 1)
      addresses.append(try crowd.listen())
      // More attempts during the rest change nothing.
      crowd.listeners.noteCrowded()
      return (addresses, crowd.loop.nowMilliseconds)
    }
    let clients = try addresses.map { try RawTCPClient($0) }
    defer { for client in clients { client.close() } }
    try await waitUntil("both listeners") {
      crowd.accepted.load(ordering: .relaxed) == addresses.count
    }
    let ended = try await crowd.on { $0.loop.nowMilliseconds }
    #expect(ended >= began + Limits.crowdedPauseMilliseconds)
    #expect(crowd.acceptedAtRest.load(ordering: .relaxed) == 0)
    #expect(try await crowd.on { $0.listeners.pauses.crowded } == 1)
  }

  @Test("After a rest a few more connections are accepted, in proportion to the time")
  func refill() async throws {
    let crowd = Crowd()
    crowd.loop.start()
    defer { crowd.end() }
    let emptied = try await crowd.rest().atMilliseconds
    try await waitForEndOfRest(crowd)
    let (count, now) = try await crowd.on { crowd in
      var count = 0
      while !crowd.listeners.isPaused {
        crowd.listeners.noteCrowded()
        count += 1
      }
      return (count - 1, crowd.loop.nowMilliseconds)
    }
    let worth = Int(now - emptied) * Limits.crowdedPerSecond / 1000
    #expect(count == min(worth, Limits.crowdedAtOnce))
  }

  @Test("Closed listeners do not reopen after a rest")
  func closed() async throws {
    let crowd = Crowd()
    crowd.loop.start()
    defer { crowd.end() }
    let address = try await crowd.rest().address
    try await crowd.on { $0.listeners.close { $0 == .provider } }
    try await waitForEndOfRest(crowd)
    #expect(throws: (any Error).self) { try RawTCPClient(address) }
  }
}
