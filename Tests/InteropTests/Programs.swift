import Foundation

/// Why a test cannot run.
struct Trouble: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

enum Programs {
  /// The checkout.
  static let root = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()

  /// A program of this package, built beside the tests.
  static func product(_ name: String) throws -> URL {
    let bundles = CommandLine.arguments.filter { $0.contains(".xctest") }
    let folders =
      bundles.map { URL(filePath: $0).deletingLastPathComponent() }
      + [root.appending(path: ".build/debug")]
    for folder in folders {
      let program = folder.appending(path: name)
      if FileManager.default.isExecutableFile(atPath: program.path) { return program }
    }
    throw Trouble("no program \(name); looked in \(folders.map(\.path))")
  }

  /// The Python with the third-party clients; `scripts/setup.sh test` installs it.
  static func python() throws -> URL {
    let program = root.appending(path: ".venv/bin/python")
    guard FileManager.default.isExecutableFile(atPath: program.path) else {
      throw Trouble("\(program.path) is missing: run `make test`, or `scripts/setup.sh test`")
    }
    return program
  }

  /// Python 2.7, which Debian no longer has since 2021; nil if neither the PATH nor pyenv has one.
  static let python2: URL? = {
    let environment = ProcessInfo.processInfo.environment
    let path = (environment["PATH"] ?? "").split(separator: ":").map { URL(filePath: String($0)) }
    let pyenv =
      environment["PYENV_ROOT"].map { URL(filePath: $0) }
      ?? FileManager.default.homeDirectoryForCurrentUser.appending(path: ".pyenv")
    let kept =
      (try? FileManager.default.contentsOfDirectory(
        at: pyenv.appending(path: "versions"), includingPropertiesForKeys: nil)) ?? []
    // pyenv puts a python2.7 on the PATH even if that version does not run.
    return (path + kept.map { $0.appending(path: "bin") })
      .map { $0.appending(path: "python2.7") }
      .filter { FileManager.default.isExecutableFile(atPath: $0.path) }
      .first { (try? bytes($0, ["-c", "import ssl; ssl.SSLContext"])) != nil }
  }()

  /// Runs a program to its end and returns what it printed.
  @discardableResult
  static func run(_ program: URL, _ arguments: [String]) throws -> String {
    String(decoding: try bytes(program, arguments), as: UTF8.self)
  }

  /// The same for a program whose output is not text.
  ///
  /// - Parameters:
  ///   - input: The file for its standard input.
  ///   - environment: Variables in addition to those of the tests.
  static func bytes(
    _ program: URL, _ arguments: [String], input: URL? = nil, environment: [String: String] = [:]
  ) throws -> Data {
    let process = Process()
    process.executableURL = program
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    process.standardInput =
      try input.map { try FileHandle(forReadingFrom: $0) } ?? FileHandle.nullDevice
    let printed = try start(process).readToEnd() ?? Data()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw Trouble(
        "\(program.lastPathComponent) \(arguments.first ?? "") ended with "
          + "\(process.terminationStatus): \(String(decoding: printed, as: UTF8.self))")
    }
    return printed
  }

  /// What `attempt` returns of a program's output.
  enum Output: String {
    case standard = ""
    case errors = "2>&1 > /dev/null"
    case both = "2>&1"
  }

  /// Runs a command of `apus` that may fail; returns its exit code and what it printed.
  static func attempt(
    _ arguments: [String], _ output: Output = .standard
  ) throws -> (code: Int, text: String) {
    let text = try run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"timeout 60 "$0" "$@" \#(output.rawValue); printf '\n%s' "$?""#,
        product("apus").path,
      ] + arguments)
    guard let end = text.lastIndex(of: "\n"), let code = Int(text[text.index(after: end)...])
    else { throw Trouble("no exit code after: \(text)") }
    return (code, String(text[..<end]))
  }

  // Suites run in parallel: a program started while another one's pipe is open here would inherit the pipe, so that the
  // output would end only when both programs have ended.
  private static let starting = NSLock()

  /// Starts a program without a `Process`, while no pipe of another program is open.
  static func startAlone<Result>(_ body: () throws -> Result) rethrows -> Result {
    try starting.withLock(body)
  }

  /// Starts the program and returns its output.
  static func start(_ process: Process) throws -> FileHandle {
    try starting.withLock {
      let output = Pipe()
      process.standardOutput = output
      try withUnblockedSignals { try process.run() }
      return output.fileHandleForReading
    }
  }

  /// A service in this process blocks signals. Children inherit that, and few programs undo it.
  private static func withUnblockedSignals(_ body: () throws -> Void) rethrows {
    var (none, former) = (sigset_t(), sigset_t())
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, &former)
    defer { pthread_sigmask(SIG_SETMASK, &former, nil) }
    try body()
  }

  static func json(_ text: some StringProtocol) throws -> [String: Any] {
    guard
      let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
    else { throw Trouble("not a JSON object: \(text)") }
    return object
  }
}

/// A program that runs during the test and prints a JSON object on each line.
final class Companion: @unchecked Sendable {
  private let process = Process()
  private let condition = NSCondition()
  private var lines: [[String: Any]] = []
  private var partial = Data()
  private var hasEnded = false
  private let name: String

  /// - Parameter environment: Variables in addition to those of the tests.
  init(
    _ program: URL, _ arguments: [String], name: String, environment: [String: String] = [:]
  ) throws {
    self.name = name
    process.executableURL = program
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    process.standardInput = FileHandle.nullDevice
    let output = try Programs.start(process)
    // A thread, not a `readabilityHandler`: the tests block the threads that a handler would need.
    Thread.detachNewThread { [self] in
      while take(output.availableData) {}
    }
  }

  /// False at the end of the output.
  private func take(_ data: Data) -> Bool {
    condition.lock()
    defer {
      condition.broadcast()
      condition.unlock()
    }
    guard !data.isEmpty else {
      hasEnded = true
      return false
    }
    partial.append(data)
    while let end = partial.firstIndex(of: 0x0a) {
      if let line = try? Programs.json(String(decoding: partial[..<end], as: UTF8.self)) {
        lines.append(line)
      }
      partial = Data(partial[(end + 1)...])
    }
    return true
  }

  /// Waits until `found` returns a value for the lines so far.
  func wait<Found>(
    for what: String, seconds: Double = 60, _ found: ([[String: Any]]) -> Found?
  ) throws -> Found {
    let deadline = Date(timeIntervalSinceNow: seconds)
    condition.lock()
    defer { condition.unlock() }
    while true {
      if let value = found(lines) { return value }
      if hasEnded { throw Trouble("\(name) ended while waiting for \(what)") }
      guard condition.wait(until: deadline) else {
        throw Trouble("\(name): no \(what) in \(Int(seconds)) s; \(lines.count) lines so far")
      }
    }
  }

  func first(_ event: String, seconds: Double = 60) throws -> [String: Any] {
    try wait(for: event, seconds: seconds) { lines in
      lines.first { $0["event"] as? String == event }
    }
  }

  func all(_ event: String) -> [[String: Any]] {
    condition.lock()
    defer { condition.unlock() }
    return lines.filter { $0["event"] as? String == event }
  }

  /// The exit code; nil while the program runs.
  var status: Int32? { process.isRunning ? nil : process.terminationStatus }

  var identifier: Int32 { process.processIdentifier }

  /// Sends a signal that does not end the program.
  func signal(_ signal: Int32) { if process.isRunning { kill(process.processIdentifier, signal) } }

  /// Stops the program with `signal` and waits for its end.
  func stop(_ signal: Int32 = SIGTERM) {
    guard process.isRunning else { return }
    kill(process.processIdentifier, signal)
    let deadline = Date(timeIntervalSinceNow: 40)
    condition.lock()
    while !hasEnded, condition.wait(until: deadline) {}
    let isLate = !hasEnded
    condition.unlock()
    if isLate { kill(process.processIdentifier, SIGKILL) }
    process.waitUntilExit()
  }
}
