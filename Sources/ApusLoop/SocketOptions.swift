import CUV
import Glibc

/// When the system probes a silent peer. A dead peer is detected (ETIMEDOUT) `idleSeconds + intervalSeconds *
/// probeCount` after its last bytes.
package struct TCPKeepAlive: Sendable, Equatable {
  /// Silence before the first probe.
  package var idleSeconds: Int
  /// Time between two unanswered probes.
  package var intervalSeconds: Int
  /// Unanswered probes after which the connection is given up.
  package var probeCount: Int

  package init(idleSeconds: Int, intervalSeconds: Int, probeCount: Int) {
    self.idleSeconds = idleSeconds
    self.intervalSeconds = intervalSeconds
    self.probeCount = probeCount
  }

  /// Seven minutes. A provider's healthy connection may be idle for hours and must be kept, so silence of the
  /// application proves nothing; a dead one (its host lost power, a NAT forgot it) must not be kept for hours. Only
  /// the peer's kernel can tell them apart. Five minutes of silence are also below the time after which middleboxes
  /// forget a connection.
  package static let standard = TCPKeepAlive(idleSeconds: 300, intervalSeconds: 30, probeCount: 4)

  /// The options in the order in which they are set.
  var options: [(level: Int32, option: Int32, value: Int32)] {
    [
      (Int32(IPPROTO_TCP), TCP_KEEPIDLE, Int32(clamping: idleSeconds)),
      (Int32(IPPROTO_TCP), TCP_KEEPINTVL, Int32(clamping: intervalSeconds)),
      (Int32(IPPROTO_TCP), TCP_KEEPCNT, Int32(clamping: probeCount)),
      (SOL_SOCKET, SO_KEEPALIVE, 1),
    ]
  }
}

extension Socket {
  /// The peer's address; nil if not connected.
  package var peerAddress: SocketAddress? {
    unsafe SocketAddress { unsafe getpeername(descriptor, $0, $1) }
  }

  /// The local address.
  package var localAddress: SocketAddress? {
    unsafe SocketAddress { unsafe getsockname(descriptor, $0, $1) }
  }

  /// The `errno` of connecting, 0 for success. Call it at the first `socketWritable()`; the call clears it.
  package func connectError() -> Int32 {
    if let system = loop.simulation?.system { return system.connectError(descriptor) }
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    guard unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) == 0 else {
      return errno
    }
    return code
  }

  /// Whether small writes are sent at once (TCP_NODELAY). On for sockets from `connect` and from `Listener`.
  package func setNoDelay(_ isOn: Bool) {
    setOption(Int32(IPPROTO_TCP), TCP_NODELAY, Int32(isOn ? 1 : 0))
  }

  /// Probes a silent peer after a time, then three times at a tenth of it, and gives the connection up (ETIMEDOUT).
  package func setKeepAlive(idleSeconds: Int) {
    setKeepAlive(
      TCPKeepAlive(
        idleSeconds: idleSeconds, intervalSeconds: max(1, idleSeconds / 10), probeCount: 3))
  }

  /// Nil: never probes silence, for a peer whose radio a probe would wake.
  package func setKeepAlive(_ keepAlive: TCPKeepAlive?) {
    guard let keepAlive else { return setOption(SOL_SOCKET, SO_KEEPALIVE, Int32(0)) }
    for (level, option, value) in keepAlive.options { setOption(level, option, value) }
  }

  /// Written bytes that the peer's kernel has not acknowledged, sent or not (SIOCOUTQ); the end of the stream counts
  /// as one. Nil on a closed socket.
  ///
  /// 0 means that the peer's machine has everything, not that its application has read it.
  package var unacknowledgedByteCount: Int? {
    if let simulation = loop.simulation {
      return simulation.system.unacknowledgedByteCount(descriptor)
    }
    var count: Int32 = 0
    guard unsafe ioctl(descriptor, UInt(TIOCOUTQ), &count) == 0 else { return nil }
    return Int(count)
  }

  /// Whether the peer closed its sending side, or the connection is broken: known before earlier bytes are read,
  /// whereas reading reports it only after them. One system call; false on a closed socket, and in a simulation.
  package var hasPeerFinished: Bool {
    guard loop.simulation == nil else { return false }
    // Linux has the same bits for both calls; the name without the E requires GNU's extensions.
    var entry = pollfd(
      fd: descriptor, events: Int16(truncatingIfNeeded: EPOLLRDHUP.rawValue), revents: 0)
    return unsafe poll(&entry, 1, 0) > 0
  }

  /// How long written bytes may stay unacknowledged before the connection is given up (TCP_USER_TIMEOUT).
  package func setUserTimeout(milliseconds: Int) {
    if let system = loop.simulation?.system {
      return system.setUserTimeout(descriptor, milliseconds: milliseconds)
    }
    setOption(Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, Int32(clamping: milliseconds))
  }

  /// Acknowledges received bytes now and not with the next answer (TCP_QUICKACK, which applies only for the moment).
  ///
  /// For a peer that sends one message in two small writes: its kernel holds back the second until the first is
  /// acknowledged (RFC 896), and ours waits up to 40 ms for data to send the acknowledgement with.
  package func acknowledgeNow() {
    setOption(Int32(IPPROTO_TCP), TCP_QUICKACK, Int32(1))
  }

  /// Options improve a connection but are not essential, so a refusal (a Unix socket has no TCP options) is not an
  /// error.
  func setOption<Value: BitwiseCopyable>(_ level: Int32, _ option: Int32, _ value: Value) {
    guard loop.simulation == nil else { return }
    _ = setSocketOption(descriptor, level, option, value)
  }

  /// A new TCP socket, non-blocking and closed in child processes.
  static func openStream(_ address: SocketAddress) throws(SocketError) -> Int32 {
    let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(address.systemFamily, type, 0)
    guard descriptor >= 0 else { throw .system(.open, code: errno, address) }
    return descriptor
  }
}

/// The `errno`, or 0.
func setSocketOption<Value: BitwiseCopyable>(
  _ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Value
) -> Int32 {
  var value = value
  let size = socklen_t(MemoryLayout<Value>.size)
  return unsafe setsockopt(descriptor, level, option, &value, size) == 0 ? 0 : errno
}
