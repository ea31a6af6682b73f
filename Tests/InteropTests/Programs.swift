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

  /// Runs a program to its end and returns what it printed.
  @discardableResult
  static func run(_ program: URL, _ arguments: [String]) throws -> String {
    let process = Process()
    let output = Pipe()
    process.executableURL = program
    process.arguments = arguments
    process.standardOutput = output
    process.standardInput = FileHandle.nullDevice
    try process.run()
    let printed = try output.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    let text = String(decoding: printed, as: UTF8.self)
    guard process.terminationStatus == 0 else {
      throw Trouble(
        "\(program.lastPathComponent) \(arguments.first ?? "") ended with "
          + "\(process.terminationStatus): \(text)")
    }
    return text
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
    let output = Pipe()
    process.executableURL = program
    process.arguments = arguments
    process.standardOutput = output
    process.standardInput = FileHandle.nullDevice
    output.fileHandleForReading.readabilityHandler = { [unowned self] handle in
      take(handle.availableData, from: handle)
    }
    try process.run()
  }

  private func take(_ data: Data, from handle: FileHandle) {
    condition.lock()
    defer {
      condition.broadcast()
      condition.unlock()
    }
    guard !data.isEmpty else {
      hasEnded = true
      handle.readabilityHandler = nil
      return
    }
    partial.append(data)
    while let end = partial.firstIndex(of: 0x0a) {
      if let line = try? Programs.json(String(decoding: partial[..<end], as: UTF8.self)) {
        lines.append(line)
      }
      partial = Data(partial[(end + 1)...])
    }
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
