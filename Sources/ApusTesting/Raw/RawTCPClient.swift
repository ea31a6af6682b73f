package import ApusLoop
// Both, because a socket structure belongs to whichever module the compiler read first.
import Glibc

/// A blocking TCP client with deadlines, for tests about exact bytes.
@safe package final class RawTCPClient {
  package enum Received: Sendable, Equatable {
    case bytes([UInt8])
    case ended(RawEnd)
  }

  private var descriptor: Int32
  private static let chunkBytes = 65_536

  /// Connects to a loopback address.
  package init(_ address: SocketAddress, deadline: Deadline = Deadline()) throws(RawFault) {
    let family = address.family == .ipv4 ? AF_INET : AF_INET6
    let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    descriptor = socket(family, type, 0)
    guard descriptor >= 0 else { throw .system("socket", errno) }
    var isOn: Int32 = 1
    unsafe setsockopt(
      descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &isOn, socklen_t(MemoryLayout<Int32>.size))
    guard connectLoopback(address) == 0 || errno == EINPROGRESS else {
      throw .system("connect", errno)
    }
    try wait(Int16(POLLOUT), deadline, "the connection to be made")
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
    guard code == 0 else { throw .system("connect", code) }
  }

  deinit { close() }

  private func connectLoopback(_ address: SocketAddress) -> Int32 {
    func call<Address>(_ address: Address) -> Int32 {
      unsafe withUnsafePointer(to: address) { pointer in
        let raw = unsafe UnsafeRawPointer(pointer).assumingMemoryBound(to: sockaddr.self)
        return unsafe connect(descriptor, raw, socklen_t(MemoryLayout<Address>.size))
      }
    }
    switch address.family {
    case .ipv4:
      var system = sockaddr_in()
      system.sin_family = sa_family_t(AF_INET)
      system.sin_port = address.port.bigEndian
      system.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
      return call(system)
    case .ipv6:
      var system = sockaddr_in6()
      system.sin6_family = sa_family_t(AF_INET6)
      system.sin6_port = address.port.bigEndian
      system.sin6_addr = in6addr_loopback
      return call(system)
    }
  }

  private func wait(
    _ events: Int16, _ deadline: Deadline, _ what: @autoclosure () -> String
  ) throws(RawFault) {
    guard descriptor >= 0 else { throw .system("poll", EBADF) }
    while true {
      var entry = pollfd(fd: descriptor, events: events, revents: 0)
      let count = unsafe poll(&entry, 1, deadline.remainingMilliseconds)
      if count > 0 { return }
      if count == 0 { throw .timedOut(what()) }
      if errno != EINTR { throw .system("poll", errno) }
    }
  }

  /// Sends all of `bytes`. A peer that has closed is not an error, since its last bytes can still be read.
  package func send(_ bytes: [UInt8], deadline: Deadline = Deadline()) throws(RawFault) {
    var sent = 0
    while sent < bytes.count {
      let count = unsafe bytes.withUnsafeBytes { buffer in
        unsafe Glibc.send(
          descriptor, buffer.baseAddress?.advanced(by: sent), buffer.count - sent,
          Int32(MSG_NOSIGNAL))
      }
      if count >= 0 {
        sent += count
        continue
      }
      switch errno {
      case EINTR: continue
      case EAGAIN: try wait(Int16(POLLOUT), deadline, "the peer to take \(bytes.count) bytes")
      case EPIPE, ECONNRESET: return
      default: throw .system("send", errno)
      }
    }
  }

  /// The next bytes, or how the connection ended.
  package func receive(
    deadline: Deadline = Deadline(), awaiting what: @autoclosure () -> String = "more bytes"
  ) throws(RawFault) -> Received {
    var chunk = [UInt8](repeating: 0, count: Self.chunkBytes)
    while true {
      try wait(Int16(POLLIN), deadline, what())
      let count = unsafe chunk.withUnsafeMutableBytes { buffer in
        unsafe recv(descriptor, buffer.baseAddress, buffer.count, 0)
      }
      if count > 0 { return .bytes(Array(chunk[..<count])) }
      if count == 0 { return .ended(.endOfStream) }
      switch errno {
      case EINTR, EAGAIN: continue
      case ECONNRESET: return .ended(.reset)
      default: throw .system("recv", errno)
      }
    }
  }

  /// All bytes until the connection ends, and how it ended.
  package func receiveAll(
    deadline: Deadline = Deadline()
  ) throws(RawFault) -> (bytes: [UInt8], end: RawEnd) {
    var bytes: [UInt8] = []
    while true {
      switch try receive(deadline: deadline, awaiting: "the end of the connection") {
      case .bytes(let more): bytes += more
      case .ended(let end): return (bytes, end)
      }
    }
  }

  /// FIN: this side sends nothing more.
  package func shutdownWrite() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// Limits how much the kernel accepts from the peer.
  package func shrinkReceiveBuffer(to byteCount: Int32 = 4096) {
    var bytes = byteCount
    unsafe setsockopt(
      descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, socklen_t(MemoryLayout<Int32>.size))
  }

  /// RST: as if this machine had disappeared.
  package func reset() {
    var setting = linger(l_onoff: 1, l_linger: 0)
    unsafe setsockopt(
      descriptor, SOL_SOCKET, SO_LINGER, &setting, socklen_t(MemoryLayout<linger>.size))
    close()
  }

  package func close() {
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
  }
}
