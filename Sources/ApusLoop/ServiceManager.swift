import CUV
import Glibc

/// The service manager that started the process, if it wants to be told how the process is (sd_notify(3)).
///
/// Messages are datagrams of lines `NAME=value`. None is answered, and a manager that does not read loses them: the
/// process never waits for it.
package struct ServiceManager: Sendable {
  private let address: sockaddr_un
  private let addressByteCount: socklen_t
  /// How often the manager expects `WATCHDOG=1`, in milliseconds; nil if it does not watch this process.
  package let watchdogMilliseconds: UInt64?

  /// Nil without `NOTIFY_SOCKET`, or if it is neither an absolute path nor the name of an abstract socket ("@…").
  package init?(_ environment: [String: String], process: Int32 = getpid()) {
    guard let name = environment["NOTIFY_SOCKET"], let first = name.utf8.first,
      first == UInt8(ascii: "/") || first == UInt8(ascii: "@")
    else { return nil }
    var address = sockaddr_un()
    let capacity = MemoryLayout.size(ofValue: address.sun_path)
    guard name.utf8.count < capacity else { return nil }
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { path in
      unsafe path.copyBytes(from: name.utf8)
      // The first byte of an abstract name is zero.
      if first == UInt8(ascii: "@") { unsafe path[0] = 0 }
    }
    self.address = address
    let start = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 2
    addressByteCount = socklen_t(start + name.utf8.count)
    watchdogMilliseconds = Self.watchdog(environment, process)
  }

  private static func watchdog(_ environment: [String: String], _ process: Int32) -> UInt64? {
    guard let microseconds = environment["WATCHDOG_USEC"].flatMap({ UInt64($0) }),
      microseconds >= 1000
    else { return nil }
    // A child inherits the variables, but only the process that they name is watched.
    if let watched = environment["WATCHDOG_PID"], watched != "\(process)" { return nil }
    return microseconds / 1000
  }

  /// The process serves; `status` is shown by `systemctl status`.
  package func ready(_ status: String) { send("READY=1\nSTATUS=\(Self.line(status))") }

  /// The process reads its configuration again; `ready` ends that.
  package func reloading(monotonicMicroseconds: UInt64) {
    send("RELOADING=1\nMONOTONIC_USEC=\(monotonicMicroseconds)")
  }

  package func stopping() { send("STOPPING=1\nSTATUS=shutting down") }

  /// The process is alive. Due within each `watchdogMilliseconds`.
  package func isAlive() { send("WATCHDOG=1") }

  private static func line(_ text: String) -> String {
    String(text.map { $0.isNewline ? " " : $0 })
  }

  private func send(_ message: String) {
    let socket = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard socket >= 0 else { return }
    defer { close(socket) }
    var address = address
    let bytes = Array(message.utf8)
    unsafe withUnsafePointer(to: &address) { address in
      unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        _ = unsafe sendto(
          socket, bytes, bytes.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL), address,
          addressByteCount)
      }
    }
  }
}
