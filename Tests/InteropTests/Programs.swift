import Foundation

/// What keeps a test from running, in words.
struct Trouble: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

enum Programs {
  /// The checkout.
  static let root = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()

  /// A program of this package, which the build put beside the tests.
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

  /// The Python that has the third-party clients; `scripts/setup.sh test` makes it.
  static func python() throws -> URL {
    let program = root.appending(path: ".venv/bin/python")
    guard FileManager.default.isExecutableFile(atPath: program.path) else {
      throw Trouble("\(program.path) is missing: run `make test`, or `scripts/setup.sh test`")
    }
    return program
  }

  /// A Python 2.7, which no Debian has had since 2021; those who need one keep it with pyenv.
  static let python2: URL? = {
    let environment = ProcessInfo.processInfo.environment
    let path = (environment["PATH"] ?? "").split(separator: ":").map { URL(filePath: String($0)) }
    let pyenv =
      environment["PYENV_ROOT"].map { URL(filePath: $0) }
      ?? FileManager.default.homeDirectoryForCurrentUser.appending(path: ".pyenv")
    let kept =
      (try? FileManager.default.contentsOfDirectory(
        at: pyenv.appending(path: "versions"), includingPropertiesForKeys: nil)) ?? []
    // pyenv puts a program of that name on the PATH for every version that it keeps, whether or not it would run.
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

  /// The same for one that prints no text.
  ///
  /// - Parameters:
  ///   - input: The file that it reads.
  ///   - environment: Variables on top of those of the tests.
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

  // A program that is started while the pipe of another one is open here inherits it, and then its output does not end
  // before both have: suites run side by side.
  private static let starting = NSLock()

  /// Starts a program otherwise than by a `Process`, while no pipe of another one is open.
  static func startAlone<Result>(_ body: () throws -> Result) rethrows -> Result {
    try starting.withLock(body)
  }

  /// Starts the program and returns its output.
  static func start(_ process: Process) throws -> FileHandle {
    try starting.withLock {
      let output = Pipe()
      process.standardOutput = output
      try process.run()
      return output.fileHandleForReading
    }
  }

  static func json(_ text: some StringProtocol) throws -> [String: Any] {
    guard
      let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
    else { throw Trouble("not a JSON object: \(text)") }
    return object
  }
}

/// A program that runs beside the test and prints a JSON object on each line.
final class Companion: @unchecked Sendable {
  private let process = Process()
  private let condition = NSCondition()
  private var lines: [[String: Any]] = []
  private var partial = Data()
  private var hasEnded = false
  private let name: String

  init(_ program: URL, _ arguments: [String], name: String) throws {
    self.name = name
    process.executableURL = program
    process.arguments = arguments
    process.standardInput = FileHandle.nullDevice
    let output = try Programs.start(process)
    // Its own thread, not a `readabilityHandler`: the tests block the threads that such a handler would need.
    Thread.detachNewThread { [self] in
      while take(output.availableData) {}
    }
  }

  /// False at the end.
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

  /// Waits until `found` makes something of the lines so far.
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

  /// Its exit code; nil while it runs.
  var status: Int32? { process.isRunning ? nil : process.terminationStatus }

  /// Sends it a signal that does not end it.
  func signal(_ signal: Int32) { if process.isRunning { kill(process.processIdentifier, signal) } }

  /// Stops the program in the way that `signal` does and waits for its end.
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
