import ApusHTTP2
import ApusModel
import Testing

@testable import ApusClient

@Suite("Connections are opened and closed with the load")
struct PoolTests {
  /// A bench whose first connection has answered one push, with one of its two streams permanently occupied.
  private func saturated(
    _ change: (inout DispatcherSettings) -> Void = { _ in }
  ) throws -> (Bench, ProviderSession) {
    let bench = Bench(change)
    try bench.send(1...1)
    let first = bench.connect(streams: 1)
    _ = bench.take(first)
    bench.give(first, Frames.ok(1))
    try bench.send(2...20)
    bench.fill()
    _ = bench.take(first)
    return (bench, first)
  }

  @Test("A second connection is opened only after pushes have waited")
  func grows() throws {
    let (bench, first) = try saturated()
    #expect(!bench.wantsConnection)
    bench.wait(milliseconds: 99)
    #expect(!bench.wantsConnection)
    bench.wait(milliseconds: 1)
    let second = bench.connect(streams: 1)
    #expect(Frames.opened(bench.take(second)) == [1])
    #expect(first.openCount == 1 && second.openCount == 1)
  }

  @Test("New connections must prove themselves, then their number may double")
  func doubles() throws {
    let (bench, _) = try saturated { $0.maximumConnections = 5 }
    bench.wait(milliseconds: 100)
    let second = bench.connect(streams: 1)
    _ = bench.take(second)
    bench.wait(milliseconds: 1000)
    #expect(!bench.wantsConnection, "the second has not answered yet")
    bench.give(second, Frames.ok(1))
    bench.wait(milliseconds: 100)
    #expect(bench.wantsConnection && bench.wantsConnection)
    #expect(!bench.wantsConnection, "only two have proved to work")
    for _ in 1...2 {
      let session = bench.dispatcher.connected(nowMilliseconds: bench.now)
      bench.give(session, Frames.settings(streams: 1))
      _ = bench.take(session)
      bench.give(session, Frames.ok(1))
    }
    bench.wait(milliseconds: 100)
    #expect(bench.wantsConnection)
    #expect(!bench.wantsConnection, "five is the limit")
  }

  @Test("Before the first token, a service's limit of one stream opens no other connection")
  func unproven() throws {
    let bench = Bench()
    try bench.send(1...10)
    let session = bench.connect(streams: 1)
    _ = bench.take(session)
    bench.wait(milliseconds: 1000)
    #expect(!bench.wantsConnection)
  }

  @Test("A failed additional connection does not affect waiting pushes")
  func growthFails() throws {
    let (bench, first) = try saturated()
    bench.wait(milliseconds: 100)
    #expect(bench.wantsConnection)
    bench.dispatcher.connectFailed("nobody there", isFinal: true, nowMilliseconds: bench.now)
    #expect(bench.outcomes.count == 1)
    #expect(!bench.wantsConnection, "a pause after a failure")
    bench.give(first, Frames.ok(3))
    #expect(bench.accepted(2))
  }

  @Test("Idle connections close after their time, except for one")
  func shrinks() throws {
    let (bench, first) = try saturated { $0.pingAfterMilliseconds = .max / 2 }
    bench.wait(milliseconds: 100)
    let second = bench.connect(streams: 100)
    _ = bench.take(second)
    for stream in stride(from: 1, through: 35, by: 2) as StrideThrough<UInt8> {
      bench.give(second, Frames.ok(stream))
    }
    bench.give(first, Frames.ok(3))
    #expect(bench.outcomes.count == 20)
    bench.wait(milliseconds: 59_999)
    #expect(!second.isDone)
    bench.wait(milliseconds: 1)
    #expect(second.isDone && !first.isDone)
    bench.wait(milliseconds: 3_600_000)
    #expect(!first.isDone)
  }

  @Test("A push goes to the first connection with room, so that the others become idle")
  func packs() throws {
    let (bench, first) = try saturated()
    bench.wait(milliseconds: 100)
    let second = bench.connect(streams: 100)
    _ = bench.take(second)
    #expect(second.openCount == 18)
    bench.give(first, Frames.ok(3), Frames.settings(streams: 100))
    try bench.send(21...21)
    bench.fill()
    #expect(Frames.opened(bench.take(first)) == [5])
  }

  @Test("Addresses with the fewest connections come first, then the resolver's order")
  func spread() {
    #expect(AddressSpread.order(["a", "b", "c"], inUse: []) == ["a", "b", "c"])
    #expect(AddressSpread.order(["a", "b", "c"], inUse: ["a", "a", "b"]) == ["c", "b", "a"])
    #expect(AddressSpread.order(["a", "b", "a"], inUse: ["a"]) == ["b", "a"])
    #expect(AddressSpread.order(["b", "a"], inUse: ["x"]) == ["b", "a"])
    #expect(AddressSpread.order([String](), inUse: ["x"]) == [])
  }
}

@Suite("A used-up window delays bodies, not the connection")
struct WindowTests {
  /// Pushes of 4,000 bytes: 16 of them fit into the initial 65,535 bytes of a connection (RFC 9113, 6.9.2).
  private func send(_ numbers: ClosedRange<UInt64>, on bench: Bench) throws {
    for number in numbers { try bench.send(number...number, payloadBytes: 4000) }
  }

  @Test("No more bodies are sent than the window allows, even with free streams")
  func held() throws {
    let bench = Bench()
    try send(1...20, on: bench)
    let session = bench.connect(streams: 100)
    bench.fill()
    #expect(session.openCount == 16)
    #expect(bench.dispatcher.hindrance == .window)
    _ = bench.take(session)
    bench.give(session, Frames.ok(1))
    #expect(session.openCount == 15, "an answer does not extend the window")
    bench.give(session, Frames.windowUpdate(0, by: 8000))
    #expect(session.openCount == 17)
  }

  @Test("Delayed pushes go to another connection")
  func elsewhere() throws {
    let bench = Bench()
    try send(1...20, on: bench)
    let first = bench.connect(streams: 100)
    _ = bench.take(first)
    bench.give(first, Frames.ok(1))
    bench.wait(milliseconds: 100)
    let second = bench.connect(streams: 100)
    #expect(second.openCount == 4)
  }

  @Test("A body larger than every window is sent alone, in parts")
  func tiny() throws {
    let bench = Bench()
    try send(1...2, on: bench)
    let session = bench.connect(streams: nil)
    bench.give(session, Frames.settings(streams: 100, window: 10))
    var frames = Frames.read(bench.take(session)).filter { $0.type == 0 }
    // The stream's window is small here; the connection's is not.
    #expect(frames.map(\.payload.count) == [10, 10])
    bench.give(session, Frames.windowUpdate(1, by: 3990))
    frames = Frames.read(bench.take(session)).filter { $0.type == 0 }
    #expect(frames.map(\.payload.count) == [3990])
    bench.give(session, Frames.ok(1))
    #expect(bench.accepted(1))
    // The second was never sent completely, so no service can have accepted it.
    bench.lose(session)
    #expect(bench.outcomes[2] == nil)
    let next = bench.connect()
    #expect(Frames.opened(bench.take(next)) == [1])
  }
}

@Suite("An idle connection is probed with a PING")
struct SilenceTests {
  private func quiet() throws -> (Bench, ProviderSession) {
    let bench = Bench()
    try bench.send(1...1)
    let session = bench.connect()
    _ = bench.take(session)
    bench.give(session, Frames.ok(1))
    bench.wait(milliseconds: 60_000)
    return (bench, session)
  }

  @Test("After a minute of silence a PING is sent, and no push before its answer")
  func ping() throws {
    let (bench, session) = try quiet()
    #expect(Frames.read(bench.take(session)).map(\.type) == [0x6])
    try bench.send(2...2)
    bench.fill()
    #expect(Frames.opened(bench.take(session)) == [])
    #expect(bench.dispatcher.hindrance == .silence)
    bench.give(session, Frames.pong)
    #expect(Frames.opened(bench.take(session)) == [3])
    bench.wait(milliseconds: 59_999)
    #expect(Frames.read(bench.take(session)).isEmpty)
  }

  @Test("Without an answer the connection is abandoned, and the push is sent once on another")
  func noPong() throws {
    let (bench, session) = try quiet()
    try bench.send(2...2)
    bench.fill()
    bench.wait(milliseconds: 4999)
    #expect(session.deathText == nil)
    bench.wait(milliseconds: 1)
    #expect(session.deathText != nil)
    bench.lose(session)
    #expect(bench.outcomes[2] == nil)
    let second = bench.connect()
    #expect(Frames.opened(bench.take(second)) == [1])
  }

  @Test("If the answer to the PING takes long, another connection is opened")
  func beside() throws {
    let (bench, _) = try quiet()
    try bench.send(2...2)
    bench.fill()
    #expect(!bench.wantsConnection)
    bench.wait(milliseconds: 100)
    #expect(bench.wantsConnection)
  }

  @Test("A service that sends no SETTINGS is abandoned like one that does not answer")
  func noSettings() throws {
    let bench = Bench()
    try bench.send(1...1)
    let session = bench.connect(streams: nil)
    bench.wait(milliseconds: 9999)
    #expect(session.deathText == nil)
    bench.wait(milliseconds: 1)
    #expect(session.deathText == "the service sent no SETTINGS")
    bench.lose(session)
    #expect(bench.outcomes.isEmpty)
    #expect(!bench.wantsConnection, "a pause, as after a failure")
  }
}
