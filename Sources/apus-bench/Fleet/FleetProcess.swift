import ApusCommand
import ApusLoop
import Glibc

/// A part of a fleet in a child process, and its last report.
final class FleetProcess {
  let index: Int
  let link: ReportLink
  var status = FleetStatus()
  private(set) var isRunning = true
  var isRegistered = false
  /// Whether its response to SIGUSR1 is pending.
  var owesCut = false
  private var pid: pid_t = 0

  /// The descriptor of its end of the link, after the three standard ones.
  private static let linkPlace: Int32 = 3

  init(_ settings: FleetSettings, index: Int, loop: EventLoop) throws(CommandFailure) {
    self.index = index
    var ends: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    guard unsafe socketpair(AF_UNIX, type, 0, &ends) == 0 else {
      throw Self.failure("a socket pair", errno)
    }
    defer { close(ends[1]) }
    do throws(SocketError) { link = try ReportLink(adopting: ends[0], loop: loop) } catch {
      throw CommandFailure(.failed, "\(error)")
    }
    status[.devices] = UInt64(settings.numbers.count)
    try start(settings.arguments, linkEnd: ends[1])
  }

  private func start(_ arguments: [String], linkEnd: Int32) throws(CommandFailure) {
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    // If both are equal, this clears the close-on-exec flag (POSIX.1-2024).
    unsafe posix_spawn_file_actions_adddup2(&actions, linkEnd, Self.linkPlace)
    unsafe setenv(ReportLink.variable, "\(Self.linkPlace)", 1)
    defer { unsafe unsetenv(ReportLink.variable) }
    var words: [UnsafeMutablePointer<CChar>?] = unsafe (["apus-bench"] + arguments).map {
      unsafe strdup($0)
    }
    defer { unsafe words.forEach { unsafe free($0) } }
    unsafe words.append(nil)
    let code = unsafe posix_spawn(&pid, "/proc/self/exe", &actions, nil, words, environ)
    guard code == 0 else { throw Self.failure("another process", code) }
  }

  private static func failure(_ what: String, _ code: Int32) -> CommandFailure {
    CommandFailure(.failed, "cannot make \(what): \(unsafe String(cString: strerror(code)))")
  }

  func signal(_ signal: Int32) { if isRunning { kill(pid, signal) } }

  /// Call it once the link has ended, because the process then has ended or is about to. Returns a failure message; nil
  /// for success.
  func ended() -> String? {
    guard isRunning else { return nil }
    isRunning = false
    owesCut = false
    var status: Int32 = 0
    while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
    // The low seven bits are the signal, the byte above them is the exit status. Source: wait(2).
    if status & 0x7f != 0 { return "signal \(status & 0x7f) ended process \(index)" }
    let code = status >> 8 & 0xff
    return code == 0 ? nil : "process \(index) ended with \(code)"
  }
}
