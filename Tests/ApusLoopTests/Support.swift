import Glibc
import Testing

@testable import ApusLoop

/// Carries objects of a loop through `@Sendable` closures that run there.
final class Confined<Value>: @unchecked Sendable {
  var value: Value
  init(_ value: Value) { self.value = value }
}

extension EventLoop {
  /// Runs `body` on the loop and waits for its result.
  @discardableResult
  func on<Result: Sendable>(
    _ body: @Sendable @escaping () throws -> Result
  ) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
      perform { continuation.resume(with: Swift.Result { try body() }) }
    }
  }

  /// Lets `count` whole turns pass. Several pieces of work may run in one; after a timer's start, sockets are checked
  /// before it fires.
  func turns(_ count: Int) async throws {
    for _ in 0..<count {
      await withCheckedContinuation { continuation in
        perform {
          let kept = Confined<LoopTimer?>(nil)
          let timer = LoopTimer(loop: self) {
            kept.value = nil
            continuation.resume()
          }
          kept.value = timer
          timer.start(afterMilliseconds: 1)
        }
      }
    }
  }

  /// Sockets with an event, apart from the wake-up for the call that asks.
  func readySockets() -> Int {
    (0..<epoll.fetch(limit: .max)).count { epoll.event($0).key != Epoll.wakeKey }
      + firstEpoll.fetch(limit: .max)
  }

  func stopAndJoin() {
    stop()
    waitForEnd()
  }

  /// Blocks, which tests may do: the loop's thread does not depend on theirs.
  nonisolated private func waitForEnd() { join() }
}

/// Runs `body` with loops that are started before, and afterwards stopped, joined and checked for open handles.
func withLoops<Result>(
  _ names: String..., body: ([EventLoop]) async throws -> Result
) async throws -> Result {
  let loops = names.map { EventLoop(name: $0) }
  for loop in loops { loop.start() }
  do {
    let result = try await body(loops)
    for loop in loops { loop.stopAndJoin() }
    return result
  } catch {
    for loop in loops { loop.stopAndJoin() }
    throw error
  }
}

extension Socket {
  /// For `#expect`, which does not support spans.
  func write(_ bytes: [UInt8]) -> IOResult { write(bytes.span) }
}

extension AsyncStream where Element: Sendable {
  /// The next `count` elements.
  func first(_ count: Int) async -> [Element] {
    var taken: [Element] = []
    for await element in self {
      taken.append(element)
      if taken.count == count { break }
    }
    return taken
  }
}

/// A connected pair of sockets of the system, not yet on any loop and both blocking.
///
/// A child process that another test spawns has copies until it executes its program, so the other end may see a close
/// a moment later: wait for it by reading, or shut down first.
func socketPair() throws -> (Int32, Int32) {
  var pair: [Int32] = [-1, -1]
  let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
  try #require(socketpair(AF_UNIX, type, 0, &pair) == 0)
  return (pair[0], pair[1])
}

/// A connected pair over TCP, both blocking, which supports resets.
func connectedPair() throws -> (near: Int32, far: Int32) {
  let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
  let listening = socket(AF_INET, type, 0)
  defer { close(listening) }
  let address = SocketAddress.loopbackIPv4(port: 0)
  try #require(address.withSystemAddress { bind(listening, $0, $1) } == 0)
  try #require(listen(listening, 1) == 0)
  let bound = try #require(SocketAddress { getsockname(listening, $0, $1) })
  let near = socket(AF_INET, type, 0)
  try #require(bound.withSystemAddress { connect(near, $0, $1) } == 0)
  return (near, accept(listening, nil, nil))
}

/// Waits until the kernel has an error for a descriptor.
///
/// A reset does not reach the other end before the call that sends it returns: a busy processor leaves packets to
/// ksoftirqd, and a child process being spawned has a copy of the closed end.
func awaitError(_ descriptor: Int32) {
  var request = pollfd(fd: descriptor, events: 0, revents: 0)
  while poll(&request, 1, -1) < 1 {}
  #expect(request.revents & Int16(POLLERR) != 0)
}

/// Closes one end of a `connectedPair()` so that the other sees ECONNRESET, a moment later: see `awaitError`.
func reset(_ descriptor: Int32) {
  _ = setSocketOption(descriptor, SOL_SOCKET, SO_LINGER, linger(l_onoff: 1, l_linger: 0))
  close(descriptor)
}

/// Sends given bytes, collects received ones until the end, and reports them.
///
/// It owns its socket, which retains it until the end.
final class Peer: SocketHandler {
  enum Ending: Equatable, Sendable {
    case endOfStream([UInt8])
    case failed(Int32)
  }

  let socket: Socket
  private var outgoing: ArraySlice<UInt8>
  private let shutsDown: Bool
  private var incoming: [UInt8] = []
  private let ended: (Ending) -> Void

  init(
    _ socket: Socket, sends: [UInt8] = [], thenShutsDown: Bool = true,
    ended: @escaping (Ending) -> Void = { _ in }
  ) {
    self.socket = socket
    outgoing = sends[...]
    shutsDown = thenShutsDown
    self.ended = ended
    socket.handler = self
    socket.setInterest(reading: true, writing: true)
  }

  func socketWritable() {
    let code = socket.connectError()
    guard code == 0 else { return end(.failed(code)) }
    while !outgoing.isEmpty {
      switch socket.write(outgoing.span) {
      case .bytes(let count): outgoing = outgoing.dropFirst(count)
      case .wouldBlock: return
      case .failed(let code): return end(.failed(code))
      case .endOfStream: return end(.failed(EPROTO))
      }
    }
    if shutsDown { socket.shutdownWrite() }
    socket.setInterest(reading: true, writing: false)
  }

  func socketReadable() {
    var buffer = [UInt8](repeating: 0, count: 65536)
    while true {
      var span = buffer.mutableSpan
      switch socket.read(into: &span) {
      case .bytes(let count): incoming += buffer[..<count]
      case .wouldBlock: return
      case .endOfStream: return end(.endOfStream(incoming))
      case .failed(let code): return end(.failed(code))
      }
    }
  }

  private func end(_ ending: Ending) {
    socket.close()
    ended(ending)
  }
}

/// Echoes bytes, and closes once the other side has shut down and received everything.
final class Echo: SocketHandler {
  let socket: Socket
  private var pending: [UInt8] = []
  private var sawEnd = false

  init(_ socket: Socket) {
    self.socket = socket
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  func socketReadable() {
    var buffer = [UInt8](repeating: 0, count: 16384)
    var span = buffer.mutableSpan
    switch socket.read(into: &span) {
    case .bytes(let count): pending += buffer[..<count]
    case .wouldBlock: return
    case .endOfStream: sawEnd = true
    case .failed: return socket.close()
    }
    socketWritable()
  }

  func socketWritable() {
    if !pending.isEmpty {
      switch socket.write(pending.span) {
      case .bytes(let count): pending.removeFirst(count)
      case .wouldBlock: break
      case .endOfStream, .failed: return socket.close()
      }
    }
    if pending.isEmpty, sawEnd { return socket.close() }
    socket.setInterest(reading: !sawEnd && pending.isEmpty, writing: !pending.isEmpty)
  }
}

/// A handler made of closures.
final class ClosureHandler: SocketHandler {
  var readable: () -> Void
  var writable: () -> Void

  init(readable: @escaping () -> Void = {}, writable: @escaping () -> Void = {}) {
    self.readable = readable
    self.writable = writable
  }

  func socketReadable() { readable() }
  func socketWritable() { writable() }
}
