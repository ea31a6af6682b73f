import Glibc
import Testing

@testable import ApusLoop

/// A system in which a test decides when a descriptor is ready.
private final class ScriptedSystem: SimulatedSystem {
  var readable: Set<Int32> = []
  var writable: Set<Int32> = []
  var closed: [Int32: Bool] = [:]
  var adopted: [Int32] = []
  var timeouts: [Int32: Int] = [:]

  var monotonicMilliseconds: UInt64 { 0 }
  var turnAgeMilliseconds: UInt64 { 0 }
  var wallClockMilliseconds: Int64 { 0 }
  func wake(_ loop: EventLoop) {}
  func connect(to address: SocketAddress) -> Int32 { 1_000_000 + Int32(address.port) }
  func connectError(_ descriptor: Int32) -> Int32 { descriptor - 1_000_000 }
  func setUserTimeout(_ descriptor: Int32, milliseconds: Int) {
    timeouts[descriptor] = milliseconds
  }
  func adopted(_ descriptor: Int32, by loop: EventLoop) { adopted.append(descriptor) }
  func isReadable(_ descriptor: Int32) -> Bool { readable.contains(descriptor) }
  func isWritable(_ descriptor: Int32) -> Bool { writable.contains(descriptor) }
  func read(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    readable.remove(descriptor) == nil ? .wouldBlock : .bytes(1)
  }
  func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> IOResult { .wouldBlock }
  func shutdownWrite(_ descriptor: Int32) {}
  func close(_ descriptor: Int32, resets: Bool) { closed[descriptor] = resets }
  func unacknowledgedByteCount(_ descriptor: Int32) -> Int? { nil }
}

private final class Log: SocketHandler, DormantSocketHandler {
  var calls: [String] = []
  var act: (String) -> Void = { _ in }

  private func note(_ call: String) {
    calls.append(call)
    act(call)
  }
  func socketReadable() { note("r") }
  func socketWritable() { note("w") }
  func dormantSocketReady(_ tag: Int32) { note("\(tag)") }
}

/// A simulated loop reports its sockets as a real one does.
struct SimulatedSocketTests {
  private let system = ScriptedSystem()
  private let log = Log()
  private let loop: EventLoop

  init() { loop = EventLoop(name: "simulated", simulated: system) }

  private func turns(_ count: Int) { for _ in 0..<count { _ = loop.takeTurn() } }

  @Test("The system makes connections, and knows how long they may be silent")
  func connecting() throws {
    let socket = try Socket.connect(to: .loopbackIPv4(port: 7), loop: loop)
    #expect(system.adopted == [1_000_007])
    #expect(socket.connectError() == 7)
    socket.setUserTimeout(milliseconds: 5000)
    #expect(system.timeouts == [1_000_007: 5000])
  }

  @Test("Readiness is reported while it lasts and is wanted")
  func levelTriggered() throws {
    let socket = try Socket(adopting: 1_000_001, loop: loop)
    #expect(system.adopted == [1_000_001])
    system.readable = [1_000_001]
    system.writable = [1_000_001]
    socket.handler = log
    turns(2)
    #expect(log.calls == [])
    socket.setInterest(reading: true, writing: false)
    turns(2)
    #expect(log.calls == ["r", "r"])
    socket.setInterest(reading: true, writing: true)
    log.act = { if $0 == "w" { socket.setInterest(reading: false, writing: false) } }
    turns(3)
    #expect(log.calls == ["r", "r", "r", "w"])
    log.act = { _ in }
    socket.close()
    #expect(system.closed == [1_000_001: false])
  }

  @Test(
    "A handler that closes its socket or makes it dormant is not called again",
    arguments: [false, true])
  func goesInside(isDormant: Bool) throws {
    let socket = try Socket(adopting: 1_000_001, loop: loop)
    loop.dormantSocketHandler = log
    system.readable = [1_000_001]
    system.writable = [1_000_001]
    log.act = { call in
      if call == "r" {
        if isDormant { _ = socket.becomeDormant(tag: 5) } else { socket.abort() }
      }
    }
    socket.handler = log
    socket.setInterest(reading: true, writing: true)
    turns(3)
    #expect(log.calls == (isDormant ? ["r", "5", "5"] : ["r"]))
    #expect(system.closed == (isDormant ? [:] : [1_000_001: true]))
    log.act = { _ in }
  }

  @Test("A dormant socket is reported until it is reclaimed, and may be closed without that")
  func dormant() throws {
    loop.dormantSocketHandler = log
    let first = try Socket(adopting: 1_000_001, loop: loop).becomeDormant(tag: 8)
    let second = try Socket(adopting: 1_000_002, loop: loop).becomeDormant(tag: 9)
    turns(2)
    #expect(log.calls == [])
    system.readable = [1_000_001]
    loop.look(at: 1_000_001)
    turns(2)
    #expect(log.calls == ["8", "8"])
    let socket = Socket(dormant: first, loop: loop)
    socket.handler = log
    turns(1)
    #expect(log.calls == ["8", "8", "r"])
    Socket(dormant: second, loop: loop).abort()
    #expect(system.closed == [1_000_002: true])
    #expect(socket.detach() == 1_000_001)
    turns(1)
    #expect(log.calls.count == 3)
    #expect(system.closed == [1_000_002: true])
  }

  @Test("Dormant sockets of a loop that is released are closed")
  func loopGoes() throws {
    let system = ScriptedSystem()
    do {
      let loop = EventLoop(name: "going", simulated: system)
      loop.dormantSocketHandler = log
      _ = try Socket(adopting: 1_000_003, loop: loop).becomeDormant(tag: 1)
    }
    #expect(system.closed == [1_000_003: false])
  }
}
