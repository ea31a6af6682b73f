import CUV
import Glibc

/// Hears of a socket's readiness. Level-triggered: called in every turn in which the condition holds.
package protocol SocketHandler: AnyObject {
  /// There is something to read: bytes, the end of the stream, or an error.
  func socketReadable()
  /// There is room to write, or an error that a write will report. After `Socket.connect`: see `connectError()`.
  func socketWritable()
}

/// What came of reading or writing.
package enum IOResult: Equatable, Sendable {
  /// This many bytes were moved, at least one.
  case bytes(Int)
  /// Not now: wait for readiness.
  case wouldBlock
  /// The peer will send no more.
  case endOfStream
  /// `errno`. On a closed socket EBADF. From reading, ECONNRESET: the peer reset the connection, and what was written
  /// to it lately may be lost; ETIMEDOUT: its machine does not answer.
  case failed(Int32)
}

/// A non-blocking stream socket on a loop. Confined.
///
/// While the socket is open it holds its handler, so the pair lives until `close()`, `abort()`, `detach()` or the end
/// of the loop. The handler may do any of these from inside its calls; it is not called afterwards. A socket that is
/// released is closed.
@safe
package final class Socket {
  package let loop: EventLoop
  private let cell: UnsafeMutablePointer<PollCell>

  /// Takes over a descriptor, here or from another loop's `detach()`: makes it non-blocking and leaves its options as
  /// they are. No readiness is reported before `setInterest`.
  ///
  /// On failure, and on a loop that was stopped, the descriptor is closed.
  package init(adopting descriptor: Int32, loop: EventLoop) throws(SocketError) {
    loop.preconditionConfined()
    self.loop = loop
    unsafe cell = .allocate(capacity: 1)
    unsafe cell.initialize(to: PollCell(uv: uv_poll_t()))
    if let simulation = loop.simulation {
      unsafe Handles.markUnborn(Handles.base(cell))
      unsafe cell.pointee.descriptor = descriptor
      unsafe simulation.adopt(descriptor, cell, loop)
      return
    }
    guard loop.takesHandles else {
      unsafe Handles.markUnborn(Handles.base(cell))
      Glibc.close(descriptor)
      throw .loopStopped
    }
    let poll = unsafe UnsafeMutableRawPointer(cell).assumingMemoryBound(to: uv_poll_t.self)
    let code = unsafe uv_poll_init(loop.uv, poll, descriptor)
    guard code == 0 else {
      unsafe Handles.markUnborn(Handles.base(cell))
      Glibc.close(descriptor)
      throw .system(.watch, code: -code, nil)
    }
    unsafe cell.pointee.descriptor = descriptor
  }

  deinit {
    if let simulation = loop.simulation { unsafe simulation.close(cell, resets: false) }
    unsafe loop.retire(Handles.base(cell))
  }

  /// Begins to connect. Ask for interest in writing; at the first `socketWritable()`, `connectError()` tells how it
  /// went.
  ///
  /// - Parameter source: Where to connect from; nil: the system's choice. The place may still be marked by a connection
  ///   that ended a moment ago.
  package static func connect(
    to address: SocketAddress, from source: SocketAddress? = nil, loop: EventLoop
  ) throws(SocketError) -> Socket {
    let descriptor = try openStream(address)
    if let source { try bind(descriptor, to: source) }
    let code = unsafe address.withSystemAddress { pointer, length in
      unsafe Glibc.connect(descriptor, pointer, length) == 0 ? 0 : errno
    }
    // An interrupted connect goes on in the background like any other.
    guard code == 0 || code == EINPROGRESS || code == EINTR else {
      Glibc.close(descriptor)
      throw .system(.connect, code: code, address)
    }
    let socket = try Socket(adopting: descriptor, loop: loop)
    socket.setNoDelay(true)
    return socket
  }

  /// Closes the descriptor where that fails.
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

  /// -1 once closed or detached.
  package var descriptor: Int32 { unsafe cell.pointee.descriptor }

  package var isOpen: Bool { descriptor >= 0 }

  package var handler: (any SocketHandler)? {
    get { unsafe cell.pointee.handler }
    set {
      loop.preconditionConfined()
      guard isOpen else { return }
      unsafe cell.pointee.handler = newValue
      arm()
    }
  }

  private func arm() {
    guard loop.simulation == nil else { return loop.look(at: descriptor) }
    unsafe PollCell.arm(cell)
  }

  /// Chooses what the handler hears of. Costs nothing when unchanged, else one or two system calls.
  package func setInterest(reading: Bool, writing: Bool) {
    let wanted = (reading ? Readiness.readable : 0) | (writing ? Readiness.writable : 0)
    guard unsafe wanted != cell.pointee.interest, isOpen else { return }
    loop.preconditionConfined()
    unsafe cell.pointee.interest = wanted
    arm()
  }

  // MARK: Bytes

  /// Reads what is there, at most as much as there is room (which must not be none).
  package func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    precondition(buffer.count > 0, "no room to read into looks like the end of the stream")
    if let simulation = loop.simulation {
      return unsafe simulation.system.read(descriptor, into: buffer)
    }
    while true {
      let count = unsafe recv(descriptor, buffer.baseAddress, buffer.count, 0)
      if count > 0 { return .bytes(count) }
      if count == 0 { return .endOfStream }
      let code = errno
      if code == EAGAIN { return .wouldBlock }
      if code != EINTR { return .failed(code) }
    }
  }

  /// Writes as much as the system takes now. A peer that is gone gives EPIPE, never SIGPIPE. Nothing to write gives
  /// `.bytes(0)`.
  package func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
    guard bytes.count > 0 else { return .bytes(0) }
    if let simulation = loop.simulation {
      return unsafe simulation.system.write(descriptor, bytes)
    }
    while true {
      let count = unsafe send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
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

  // MARK: Ends

  /// Tells the peer that no more will come; reading goes on.
  package func shutdownWrite() {
    if let simulation = loop.simulation { return simulation.system.shutdownWrite(descriptor) }
    _ = shutdown(descriptor, Int32(SHUT_WR))
  }

  /// Closes at once; the system still sends what was written. Repeating it does nothing.
  package func close() {
    loop.preconditionConfined()
    if let simulation = loop.simulation { return unsafe simulation.close(cell, resets: false) }
    unsafe Handles.close(Handles.base(cell))
  }

  /// Closes with a reset: what was written and not yet sent is dropped, and the peer sees an error.
  package func abort() {
    guard isOpen else { return }
    if let simulation = loop.simulation { return unsafe simulation.close(cell, resets: true) }
    let linger = Glibc.linger(l_onoff: 1, l_linger: 0)
    setOption(SOL_SOCKET, SO_LINGER, linger)
    close()
  }

  /// Gives the descriptor up, open and with everything unread, for another loop to adopt. -1 when already closed.
  package func detach() -> Int32 {
    loop.preconditionConfined()
    let descriptor = self.descriptor
    if let simulation = loop.simulation {
      unsafe simulation.release(cell)
      return descriptor
    }
    unsafe cell.pointee.descriptor = -1
    // libuv takes the descriptor out of epoll here, before this call returns.
    unsafe Handles.close(Handles.base(cell))
    return descriptor
  }
}

/// Bits of `PollCell.interest`.
enum Readiness {
  static let readable = Int32(UV_READABLE.rawValue)
  static let writable = Int32(UV_WRITABLE.rawValue)
}

/// See `Handles`. The C struct comes first.
@unsafe struct PollCell {
  var uv: uv_poll_t
  var descriptor: Int32 = -1
  /// What the owner wants to hear of.
  var interest: Int32 = 0
  /// What libuv watches.
  var armed: Int32 = 0
  var handler: (any SocketHandler)?

  /// After `uv_close`, when the descriptor is out of epoll.
  static func clear(_ cell: UnsafeMutablePointer<PollCell>) {
    let descriptor = unsafe cell.pointee.descriptor
    if descriptor >= 0 { Glibc.close(descriptor) }
    unsafe cell.pointee.descriptor = -1
    unsafe cell.pointee.interest = 0
    unsafe cell.pointee.armed = 0
    unsafe Handles.take(&cell.pointee.handler)
  }

  /// Brings libuv in line with the interest. Without a handler nothing is watched, since nobody would end it.
  static func arm(_ cell: UnsafeMutablePointer<PollCell>) {
    let wanted = unsafe cell.pointee.handler == nil ? 0 : cell.pointee.interest
    guard unsafe wanted != cell.pointee.armed else { return }
    unsafe cell.pointee.armed = wanted
    let poll = unsafe UnsafeMutableRawPointer(cell).assumingMemoryBound(to: uv_poll_t.self)
    if wanted == 0 {
      unsafe uv_poll_stop(poll)
    } else {
      check(unsafe uv_poll_start(poll, wanted, socketReady), "uv_poll_start")
    }
  }

  fileprivate static func ready(
    _ cell: UnsafeMutablePointer<PollCell>, status: Int32, events: Int32
  ) {
    var events = events
    if status < 0 {
      // On POLLERR libuv stops watching and names no events. The error itself is for the next call on the socket to
      // fetch: one that the owner was waiting to make.
      unsafe cell.pointee.armed = 0
      events =
        unsafe cell.pointee.interest & Readiness.readable != 0
        ? Readiness.readable : Readiness.writable
    }
    if events & Readiness.readable != 0, unsafe cell.pointee.interest & Readiness.readable != 0 {
      let handler = unsafe cell.pointee.handler
      handler?.socketReadable()
    }
    // The first call may have closed the socket, changed the interest or the handler.
    if events & Readiness.writable != 0, unsafe cell.pointee.interest & Readiness.writable != 0 {
      let handler = unsafe cell.pointee.handler
      handler?.socketWritable()
    }
    if status < 0, unsafe cell.pointee.descriptor >= 0 { unsafe arm(cell) }
  }
}

private func socketReady(
  _ poll: UnsafeMutablePointer<uv_poll_t>?, _ status: Int32, _ events: Int32
) {
  guard let poll = unsafe poll else { return }
  let cell = unsafe UnsafeMutableRawPointer(poll).assumingMemoryBound(to: PollCell.self)
  unsafe PollCell.ready(cell, status: status, events: events)
}
