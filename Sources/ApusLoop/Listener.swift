import CUV
import Glibc

/// Accepts connections on a loop. Confined. Releasing it closes it.
package final class Listener {
  private let socket: Socket
  private let acceptor: Acceptor

  /// Binds and listens.
  ///
  /// - Parameters:
  ///   - address: An IPv6 address accepts only IPv6 connections, so that both families can be bound side by side.
  ///   - backlog: Connections that may wait to be accepted; the system caps it at `net.core.somaxconn`. It ignores
  ///     further ones, and the peer tries again a second later, then after two, then four.
  ///   - reusePort: Whether several listeners, one per loop, share the address and the system spreads the connections.
  ///   - keepAlive: How silent connections are probed; nil for not at all.
  ///   - handler: Gets each connection as a non-blocking descriptor with TCP_NODELAY, and owns it.
  package init(
    loop: EventLoop, address: SocketAddress, backlog: Int32 = 4096, reusePort: Bool = false,
    keepAlive: TCPKeepAlive? = .standard,
    handler: @escaping (Int32, SocketAddress) -> Void
  ) throws(SocketError) {
    let descriptor = try Self.listen(
      address, backlog: backlog, reusePort: reusePort, keepAlive: keepAlive)
    socket = try Socket(adopting: descriptor, loop: loop)
    acceptor = Acceptor(
      descriptor: descriptor, loop: loop, handler: handler)
    begin()
  }

  /// Accepts on a socket that already listens, through a duplicate of its descriptor. Others may accept on it too:
  /// listeners of other loops, and the next process.
  ///
  /// All loops that share a socket wake up for a connection, and one of them gets it. EPOLLEXCLUSIVE would not change
  /// that: it has no effect on an epoll that another epoll watches, as the loop's is.
  package init(
    loop: EventLoop, sharing listening: Int32, keepAlive: TCPKeepAlive? = .standard,
    handler: @escaping (Int32, SocketAddress) -> Void
  ) throws(SocketError) {
    let descriptor = fcntl(listening, F_DUPFD_CLOEXEC, 0)
    guard descriptor >= 0 else { throw .system(.open, code: errno, nil) }
    guard fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0 else {
      let code = errno
      Glibc.close(descriptor)
      throw .system(.configure, code: code, nil)
    }
    try Self.configure(descriptor, keepAlive, nil)
    socket = try Socket(adopting: descriptor, loop: loop)
    acceptor = Acceptor(
      descriptor: descriptor, loop: loop, handler: handler)
    begin()
  }

  private func begin() {
    acceptor.socket = socket
    socket.handler = acceptor
    socket.setInterest(reading: true, writing: false)
  }

  /// The address, with the port that the system chose if port 0 was requested. Nil once closed.
  package var localAddress: SocketAddress? { socket.localAddress }

  /// Connections closed unserved because the process or the system had no descriptor for them.
  package var refusedForDescriptors: Int { acceptor.refusedForDescriptors }

  /// How often accepting has paused because the system lacked a resource, and nobody could even be refused.
  package var pauseCount: Int { acceptor.pauseCount }

  /// Leaves connections waiting in the backlog until `resume()`.
  package func pause() { acceptor.isPaused = true }

  package func resume() { acceptor.isPaused = false }

  /// Stops listening; the system resets the connections in the backlog, unless others share the socket. Repeating it
  /// has no effect.
  package func close() {
    acceptor.close()
    socket.close()
  }

  /// Throws if another socket listens on the address, even one that would share it (SO_REUSEPORT).
  package static func requireFree(_ address: SocketAddress) throws(SocketError) {
    Glibc.close(try bind(address, reusePort: false))
  }

  /// Sets options that accepted sockets inherit, which saves calls for each connection. Closes the socket on failure.
  private static func configure(
    _ descriptor: Int32, _ keepAlive: TCPKeepAlive?, _ address: SocketAddress?
  ) throws(SocketError) {
    var code = setSocketOption(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, Int32(1))
    for (level, option, value) in keepAlive?.options ?? [] where code == 0 {
      code = setSocketOption(descriptor, level, option, value)
    }
    guard code == 0 else {
      Glibc.close(descriptor)
      throw .system(.configure, code: code, address)
    }
  }

  private static func listen(
    _ address: SocketAddress, backlog: Int32, reusePort: Bool, keepAlive: TCPKeepAlive?
  ) throws(SocketError) -> Int32 {
    let descriptor = try bind(address, reusePort: reusePort)
    try configure(descriptor, keepAlive, address)
    guard Glibc.listen(descriptor, backlog) == 0 else {
      let code = errno
      Glibc.close(descriptor)
      throw .system(.listen, code: code, address)
    }
    return descriptor
  }

  private static func bind(
    _ address: SocketAddress, reusePort: Bool
  ) throws(SocketError) -> Int32 {
    let descriptor = try Socket.openStream(address)
    var code = setSocketOption(descriptor, SOL_SOCKET, SO_REUSEADDR, Int32(1))
    if code == 0, reusePort {
      code = setSocketOption(descriptor, SOL_SOCKET, SO_REUSEPORT, Int32(1))
    }
    if code == 0, address.family == .ipv6 {
      code = setSocketOption(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, Int32(1))
    }
    guard code == 0 else {
      Glibc.close(descriptor)
      throw .system(.configure, code: code, address)
    }
    code = unsafe address.withSystemAddress { pointer, length in
      unsafe Glibc.bind(descriptor, pointer, length) == 0 ? 0 : errno
    }
    guard code == 0 else {
      Glibc.close(descriptor)
      throw .system(.bind, code: code, address)
    }
    return descriptor
  }
}

/// The accepting side of a listening socket.
private final class Acceptor: SocketHandler {
  /// Connections accepted before other work of the loop gets its turn; the rest is reported again. Each costs its
  /// handler some 15 microseconds, and 50 more if another one makes room for it. On a shared socket, a loop that took
  /// a whole burst would also leave the other loops idle.
  static let perTurn = 1
  /// How long accepting pauses when the system lacks a resource.
  static let pauseMilliseconds: UInt64 = 100

  /// Weak, because a listener may be released on any thread while this one accepts.
  weak var socket: Socket?
  var isPaused = false { didSet { update() } }
  private(set) var refusedForDescriptors = 0
  private(set) var pauseCount = 0

  private let descriptor: Int32
  private var handler: ((Int32, SocketAddress) -> Void)?
  /// A reserve: without a free descriptor a waiting connection can be neither accepted nor refused, and a
  /// level-triggered loop would spin on it.
  private var spare = openSpare()
  private var lacksResources = false { didSet { update() } }
  private var pauseTimer: LoopTimer?

  init(
    descriptor: Int32, loop: EventLoop,
    handler: @escaping (Int32, SocketAddress) -> Void
  ) {
    self.descriptor = descriptor
    self.handler = handler
    pauseTimer = LoopTimer(loop: loop) { [weak self] in self?.goOn()
    }
  }

  func close() {
    handler = nil
    socket = nil
    pauseTimer = nil
  }

  deinit { if spare >= 0 { Glibc.close(spare) } }

  func socketWritable() {}

  func socketReadable() {
    for _ in 0..<Self.perTurn {
      // Checked each time: the handler may pause or close the listener.
      guard !isPaused, let handler else { return }
      switch accept() {
      case .connection(let descriptor, let address): handler(descriptor, address)
      case .failed(EAGAIN): return
      case .failed(EMFILE), .failed(ENFILE):
        guard refuseOne() else { return pauseBriefly() }
      case .failed(let code):
        // accept(2): errors of the new connection are reported here too; the next one may be fine.
        guard Self.isOfConnection(code) else { return pauseBriefly() }
      }
    }
  }

  private enum Outcome {
    case connection(Int32, SocketAddress)
    case failed(Int32)
  }

  private func accept() -> Outcome {
    var accepted: Int32 = -1
    var code: Int32 = 0
    let flags = Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    let address = unsafe SocketAddress { pointer, length in
      accepted = unsafe cuv_accept4(descriptor, pointer, length, flags)
      code = errno
      return accepted
    }
    guard accepted >= 0 else { return .failed(code) }
    guard let address else {
      Glibc.close(accepted)
      return .failed(ECONNABORTED)
    }
    return .connection(accepted, address.unmapped)
  }

  /// Uses the spare descriptor to close the connection that has waited longest. False if there is no spare.
  private func refuseOne() -> Bool {
    guard spare >= 0 else { return false }
    Glibc.close(spare)
    spare = -1
    guard case .connection(let descriptor, _) = accept() else {
      // Another thread was faster, or the connection has ended.
      spare = Self.openSpare()
      return spare >= 0
    }
    refusedForDescriptors += 1
    Glibc.close(descriptor)
    spare = Self.openSpare()
    return true
  }

  private func pauseBriefly() {
    lacksResources = true
    pauseCount += 1
    pauseTimer?.start(afterMilliseconds: Self.pauseMilliseconds)
  }

  private func goOn() {
    if spare < 0 { spare = Self.openSpare() }
    lacksResources = false
  }

  private func update() {
    socket?.setInterest(reading: !isPaused && !lacksResources, writing: false)
  }

  private static func openSpare() -> Int32 {
    unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
  }

  private static func isOfConnection(_ code: Int32) -> Bool {
    switch code {
    case EINTR, ECONNABORTED, EPROTO, EPERM, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET,
      EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, ETIMEDOUT:
      true
    default: false
    }
  }
}
