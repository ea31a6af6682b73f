import CUV
import Glibc

/// Handles a socket's readiness. Level-triggered: called in every turn in which the condition holds.
package protocol SocketHandler: AnyObject {
  /// The socket is readable: bytes, the end of the stream, or an error.
  func socketReadable()
  /// The socket is writable, or has an error that a write will report. After `Socket.connect`: see `connectError()`.
  func socketWritable()
}

/// The result of reading or writing.
package enum IOResult: Equatable, Sendable {
  /// This many bytes were moved, at least one.
  case bytes(Int)
  /// Not now: wait for readiness.
  case wouldBlock
  /// The peer closed its sending side.
  case endOfStream
  /// `errno`. EBADF on a closed socket. When reading, ECONNRESET: the peer reset the connection, and recently written
  /// bytes may be lost; ETIMEDOUT: its machine does not respond.
  case failed(Int32)
}

/// A non-blocking stream socket on a loop. Confined.
///
/// An open socket retains its handler, so the pair lives until `close()`, `abort()`, `detach()` or the end of the
/// loop. The handler may call any of these from inside its calls; it is not called afterwards. Releasing a socket
/// closes it.
package final class Socket {
  package let loop: EventLoop
  /// Its slot in the loop's table; -1 once closed, detached or dormant.
  private var slot: Int32

  /// Takes ownership of a descriptor, new or from another loop's `detach()`, without changing its options. Reading and
  /// writing never block, whether or not the descriptor is non-blocking. No readiness is reported before
  /// `setInterest`.
  ///
  /// On failure, and on a stopped loop, the descriptor is closed.
  ///
  /// - Parameter goesFirst: Whether its readiness is reported before that of the loop's other sockets, which may be
  ///   many (`EventLoop.socketsPerTurn`). A simulated loop makes no difference.
  package init(
    adopting descriptor: Int32, loop: EventLoop, goesFirst: Bool = false
  ) throws(SocketError) {
    slot = try loop.adopt(descriptor, goesFirst: goesFirst)
    self.loop = loop
  }

  init(slot: Int32, loop: EventLoop) {
    self.slot = slot
    self.loop = loop
  }

  /// For a connection that another one carries: a socket that is closed.
  package static func none(on loop: EventLoop) -> Socket { Socket(slot: -1, loop: loop) }

  deinit { if slot >= 0 { loop.retire(slot) } }

  /// Begins to connect. Ask for interest in writing; at the first `socketWritable()`, `connectError()` returns the
  /// outcome.
  ///
  /// - Parameter source: The local address; nil for the system's choice. It may still be in use by a connection that
  ///   has just ended.
  package static func connect(
    to address: SocketAddress, from source: SocketAddress? = nil, loop: EventLoop
  ) throws(SocketError) -> Socket {
    if let system = loop.simulation?.system {
      return try Socket(adopting: system.connect(to: address), loop: loop)
    }
    let descriptor = try openStream(address)
    if let source { try bind(descriptor, to: source) }
    let code = unsafe address.withSystemAddress { pointer, length in
      unsafe Glibc.connect(descriptor, pointer, length) == 0 ? 0 : errno
    }
    // An interrupted connect continues in the background like any other.
    guard code == 0 || code == EINPROGRESS || code == EINTR else {
      Glibc.close(descriptor)
      throw .system(.connect, code: code, address)
    }
    let socket = try Socket(adopting: descriptor, loop: loop)
    socket.setNoDelay(true)
    return socket
  }

  /// Closes the descriptor on failure.
  private static func bind(_ descriptor: Int32, to source: SocketAddress) throws(SocketError) {
    var code = setSocketOption(descriptor, SOL_SOCKET, SO_REUSEADDR, Int32(1))
    if code == 0 {
      code = unsafe source.withSystemAddress { pointer, length in
        unsafe Glibc.bind(descriptor, pointer, length) == 0 ? 0 : errno
      }
    }
    guard code == 0 else {
      Glibc.close(descriptor)
      throw .system(.bind, code: code, source)
    }
  }

  /// -1 once closed, detached or dormant.
  package var descriptor: Int32 {
    slot < 0 ? -1 : unsafe max(-1, loop.sockets[slot].pointee.descriptor)
  }

  package var isOpen: Bool { descriptor >= 0 }

  package var handler: (any SocketHandler)? {
    get {
      guard isOpen, case .handler(let handler) = unsafe loop.sockets[slot].pointee.owner else {
        return nil
      }
      return handler
    }
    set {
      loop.preconditionConfined()
      guard isOpen else { return }
      let entry = unsafe loop.sockets[slot]
      // The previous owner is released at the end, because its release may access the socket.
      let before = unsafe entry.pointee.owner
      unsafe entry.pointee.owner = newValue.map { .handler($0) } ?? .nobody
      loop.arm(slot)
      withExtendedLifetime(before) {}
    }
  }

  /// Selects the events for the handler. Costs nothing if unchanged, otherwise at most one system call.
  package func setInterest(reading: Bool, writing: Bool) {
    let wanted = (reading ? Readiness.readable : 0) | (writing ? Readiness.writable : 0)
    guard isOpen else { return }
    let entry = unsafe loop.sockets[slot]
    guard unsafe wanted != entry.pointee.interest else { return }
    loop.preconditionConfined()
    unsafe entry.pointee.interest = wanted
    loop.arm(slot)
  }

  // MARK: Bytes

  /// Reads available bytes, at most the size of the buffer, which must not be empty.
  package func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    precondition(buffer.count > 0, "no room to read into looks like the end of the stream")
    if let simulation = loop.simulation {
      return unsafe simulation.system.read(descriptor, into: buffer)
    }
    while true {
      let count = unsafe recv(
        descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
      if count > 0 { return .bytes(count) }
      if count == 0 { return .endOfStream }
      let code = errno
      if code == EAGAIN { return .wouldBlock }
      if code != EINTR { return .failed(code) }
    }
  }

  /// Writes as much as the system accepts now. If the peer has closed the connection, the result is EPIPE, never
  /// SIGPIPE. Writing nothing returns `.bytes(0)`.
  package func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
    guard bytes.count > 0 else { return .bytes(0) }
    if let simulation = loop.simulation {
      return unsafe simulation.system.write(descriptor, bytes)
    }
    while true {
      let count = unsafe send(
        descriptor, bytes.baseAddress, bytes.count,
        Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
      if count >= 0 { return .bytes(count) }
      let code = errno
      if code == EAGAIN { return .wouldBlock }
      if code != EINTR { return .failed(code) }
    }
  }

  /// As `read(into: UnsafeMutableRawBufferPointer)`, for callers without unsafe memory.
  package func read(into buffer: inout MutableSpan<UInt8>) -> IOResult {
    unsafe buffer.withUnsafeMutableBytes { unsafe read(into: $0) }
  }

  /// As `write(_: UnsafeRawBufferPointer)`, for callers without unsafe memory.
  package func write(_ bytes: Span<UInt8>) -> IOResult {
    unsafe bytes.withUnsafeBytes { unsafe write($0) }
  }

  // MARK: Closing

  /// Tells the peer that no more will be sent; reading remains possible.
  package func shutdownWrite() {
    if let simulation = loop.simulation { return simulation.system.shutdownWrite(descriptor) }
    _ = shutdown(descriptor, Int32(SHUT_WR))
  }

  /// Closes at once; the system still sends what was written. Repeating it has no effect.
  package func close() {
    loop.preconditionConfined()
    if slot >= 0 { loop.close(giveUp(), resets: false) }
  }

  /// Closes with a reset: bytes written and not yet sent are dropped, and the peer sees an error.
  package func abort() {
    loop.preconditionConfined()
    if slot >= 0 { loop.close(giveUp(), resets: true) }
  }

  /// Returns the descriptor, open and with everything unread, for another loop to adopt. -1 if already closed.
  package func detach() -> Int32 {
    loop.preconditionConfined()
    return slot < 0 ? -1 : loop.release(giveUp())
  }

  /// Releases the slot first: whatever the handler does when it is released, it finds this socket closed.
  func giveUp() -> Int32 {
    let slot = slot
    self.slot = -1
    return slot
  }
}
