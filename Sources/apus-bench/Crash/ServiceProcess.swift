import ApusCommand
import Glibc

/// A service in a child process, to be killed. Its output is appended to a file.
final class ServiceProcess {
  private var pid: pid_t = 0

  init(_ program: String, _ arguments: [String], log: String) throws(CommandFailure) {
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
    unsafe posix_spawn_file_actions_addopen(
      &actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    unsafe posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
    var words: [UnsafeMutablePointer<CChar>?] = unsafe ([program] + arguments).map {
      unsafe strdup($0)
    }
    defer { unsafe words.forEach { unsafe free($0) } }
    unsafe words.append(nil)
    let code = unsafe posix_spawn(&pid, program, &actions, nil, words, environ)
    guard code == 0 else {
      throw CommandFailure(
        .configuration, "cannot start \(program): \(unsafe String(cString: strerror(code)))")
    }
  }

  /// Sends a signal, if the service runs.
  func signal(_ signal: Int32) { if pid > 0 { kill(pid, signal) } }

  /// Waits for its end. Returns the exit status, or the negative number of the signal that ended it.
  @discardableResult
  func wait() -> Int32 {
    guard pid > 0 else { return 0 }
    var status: Int32 = 0
    while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
    pid = 0
    return Self.code(status)
  }

  /// The exit code, if the service has ended on its own.
  func ended() -> Int32? {
    var status: Int32 = 0
    guard pid > 0, unsafe waitpid(pid, &status, WNOHANG) == pid else { return nil }
    pid = 0
    return Self.code(status)
  }

  /// The low seven bits are the signal, the byte above them is the exit status. Source: wait(2).
  private static func code(_ status: Int32) -> Int32 {
    status & 0x7f == 0 ? status >> 8 & 0xff : -(status & 0x7f)
  }
}

enum LocalPort {
  /// Whether a process listens on the port.
  static func accepts(_ port: UInt16) -> Bool {
    unsafe withSocket { descriptor, address, length in
      unsafe address.pointee.sin_port = port.bigEndian
      return unsafe connect(descriptor, UnsafePointer(rebound(address)), length) == 0
    }
  }

  /// Below the ports for outgoing connections (ip(7), `ip_local_port_range`), which another connection could take while
  /// the service is dead.
  private static let candidates: Range<UInt16> = 10_000..<32_000

  /// Ports that are free and that the system does not assign to outgoing connections.
  static func free(_ count: Int) throws(CommandFailure) -> [UInt16] {
    var found: Set<UInt16> = []
    for _ in 0..<1000 {
      let port = UInt16.random(in: candidates)
      if isFree(port) { found.insert(port) }
      if found.count == count { return Array(found) }
    }
    throw CommandFailure(.configuration, "no \(count) ports from \(candidates) are free")
  }

  private static func isFree(_ port: UInt16) -> Bool {
    unsafe withSocket { descriptor, address, length in
      unsafe address.pointee.sin_port = port.bigEndian
      return unsafe bind(descriptor, UnsafePointer(rebound(address)), length) == 0
    }
  }

  private static func rebound(
    _ address: UnsafeMutablePointer<sockaddr_in>
  ) -> UnsafeMutablePointer<sockaddr> {
    unsafe UnsafeMutableRawPointer(address).assumingMemoryBound(to: sockaddr.self)
  }

  private static func withSocket<Result>(
    _ body: (Int32, UnsafeMutablePointer<sockaddr_in>, socklen_t) -> Result
  ) -> Result {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
    return unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe body(descriptor, pointer, socklen_t(MemoryLayout<sockaddr_in>.size))
    }
  }
}
