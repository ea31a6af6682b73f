import CMicroHTTPD
import Glibc

/// A connection of a daemon.
///
/// Waiting requests are suspended; libmicrohttpd handles them again once they are resumed. The daemon must not be
/// stopped while one of its connections is suspended, so suspended connections are counted.
@safe final class Connection: @unchecked Sendable {
  let peer: WebPeer
  private let handle: OpaquePointer
  private unowned let daemon: WebDaemon
  let descriptor: Int32

  init(_ handle: OpaquePointer, _ daemon: WebDaemon) {
    unsafe self.handle = handle
    self.daemon = daemon
    descriptor = unsafe cmhd_descriptor(handle)
    peer = unsafe Self.peer(handle, descriptor)
  }

  private static func peer(_ handle: OpaquePointer, _ descriptor: Int32) -> WebPeer {
    let address = unsafe cmhd_peer(handle)
    switch unsafe address.map({ unsafe Int32($0.pointee.sa_family) }) {
    case AF_INET:
      return unsafe address?.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { address in
        unsafe withUnsafeBytes(of: address.pointee.sin_addr) {
          unsafe .address(Array($0), port: UInt16(bigEndian: address.pointee.sin_port))
        }
      } ?? .address([0, 0, 0, 0], port: 0)
    case AF_INET6:
      return unsafe address?.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { address in
        unsafe withUnsafeBytes(of: address.pointee.sin6_addr) { bytes in
          let port = unsafe UInt16(bigEndian: address.pointee.sin6_port)
          let bytes = unsafe Array(bytes)
          // Maps ::ffff:192.0.2.1 to 192.0.2.1.
          let isMapped = bytes[..<10].allSatisfy { $0 == 0 } && bytes[10...11] == [0xff, 0xff]
          return .address(isMapped ? Array(bytes[12...]) : bytes, port: port)
        }
      } ?? .address([0, 0, 0, 0], port: 0)
    default:
      var (user, process) = (UInt32.max, Int32(0))
      _ = unsafe cmhd_peer_credentials(descriptor, &user, &process)
      return .local(user: user, process: process)
    }
  }

  /// Call on the daemon's thread. Returns false once the daemon stops: then nothing may be suspended.
  func suspend() -> Bool {
    guard daemon.mayFallAsleep() else { return false }
    unsafe cmhd_suspend(handle)
    return true
  }

  /// Call once for each suspension.
  func resume() {
    unsafe cmhd_resume(handle)
    daemon.wokeUp()
  }
}
