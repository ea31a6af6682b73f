import ApusCommand
import ApusDirectory
import Glibc

/// The environment, terminal, clocks and limits of this process.
enum Process {
  /// The environment at the start; the program does not change it.
  static let environment: [String: String] = {
    let bytes = (try? Files.read("/proc/self/environ")) ?? []
    var variables: [String: String] = [:]
    for entry in bytes.split(separator: 0) {
      guard let equals = entry.firstIndex(of: UInt8(ascii: "=")) else { continue }
      let name = String(decoding: entry[..<equals], as: UTF8.self)
      variables[name] = String(decoding: entry[(equals + 1)...], as: UTF8.self)
    }
    return variables
  }()

  /// The width of the terminal in columns: `COLUMNS`, or else the terminal's own value.
  static var columns: Int? {
    if let columns = environment["COLUMNS"].flatMap({ Int($0) }) { return columns }
    var size = winsize()
    let code = unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size)
    return code == 0 && size.ws_col > 0 ? Int(size.ws_col) : nil
  }

  /// Ends the program without running exit handlers of libraries.
  ///
  /// A client's thread may still be closing its connections. OpenSSL's exit handler would free the same memory at the
  /// same time.
  static func end(_ code: ExitCode) -> Never {
    fflush(nil)
    _exit(code.rawValue)
  }

  /// Makes this process run the program anew, with the same arguments.
  static func beginAgain() -> Never {
    fflush(nil)
    var arguments = unsafe CommandLine.arguments.map { unsafe strdup($0) } + [nil]
    unsafe execv("/proc/self/exe", &arguments)
    let reason = unsafe String(cString: strerror(errno))
    Output.diagnostic("apus: cannot begin again: \(reason)\n")
    end(.unavailable)
  }

  /// Whether standard output is a terminal with bold text and the user has not disabled it (no-color.org).
  static var wantsStyle: Bool {
    isatty(STDOUT_FILENO) == 1 && environment["NO_COLOR", default: ""].isEmpty
      && environment["TERM", default: "dumb"] != "dumb"
  }

  /// Seconds since 1970.
  static var nowSeconds: Int64 { Int64(time(nil)) }

  /// Nanoseconds of the monotonic clock; its origin is arbitrary.
  static var nanoseconds: UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  static var milliseconds: Int64 { Int64(nanoseconds / 1_000_000) }

  static var hostName: String? {
    var name = [CChar](repeating: 0, count: Int(HOST_NAME_MAX) + 1)
    guard unsafe gethostname(&name, name.count) == 0 else { return nil }
    return String(
      decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Raises the soft limit of descriptors to the hard limit. The usual soft limit of 1,024 exists for programs that use
  /// `select`.
  static func raiseDescriptorLimit() {
    let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    guard unsafe getrlimit(files, &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
    limit.rlim_cur = limit.rlim_max
    unsafe setrlimit(files, &limit)
  }

  /// How many descriptors another process may have open; nil if this user may not know.
  static func descriptorLimit(of process: Int32) -> Int? {
    let text = try? Files.readText("/proc/\(process)/limits")
    let line = text?.split(separator: "\n").first { $0.hasPrefix("Max open files") }
    return line?.split(separator: " ").dropFirst(3).first.flatMap { Int($0) }
  }

  // MARK: Files

  /// The text of a file; nil if it does not exist.
  static func textIfPresent(_ path: String) throws(CommandFailure) -> String? {
    do throws(FileError) {
      return try Files.readText(path)
    } catch  where error.isMissing {
      return nil
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  /// The text of a file that the command requires.
  static func text(
    of path: String, for option: Option<String>, _ invocation: Invocation
  ) throws(CommandFailure) -> String {
    do throws(FileError) {
      return try Files.readText(path)
    } catch {
      throw invocation.failure(.configuration, about: option, "\(error)")
    }
  }

  /// Waits for the given time. Returns whether the user interrupted.
  static func isInterrupted(afterMilliseconds milliseconds: Int) -> Bool {
    var set = sigset_t()
    unsafe sigemptyset(&set)
    for signal in [SIGINT, SIGTERM] { unsafe sigaddset(&set, signal) }
    // From the first call on, signals are blocked and wait for this function.
    unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    var wait = timespec(
      tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
    return unsafe sigtimedwait(&set, nil, &wait) > 0
  }
}
