import Foundation

/// The result of a run of Python's unittest.
struct Outcome {
  /// The number of tests run.
  var count: Int
  var isGood: Bool
  /// The failures, with their reasons.
  var report: String

  /// `unittest` prints failures, then "Ran 52 tests in 40.1s" and "OK".
  init(_ text: String) {
    count = text.firstMatch(of: #/Ran (\d+) tests? in /#).flatMap { Int($0.1) } ?? 0
    isGood = count > 0 && text.hasSuffix("OK\n")
    let failures = text.firstRange(of: "\n======").map { String(text[$0.lowerBound...]) }
    report = failures ?? String(text.suffix(4000))
  }
}

/// The scripts of the folder Browser.
enum Python {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "Browser")
  private static let root = folder.deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  /// The Python with the third-party clients; `scripts/setup.sh test` installs it.
  static let withClients = root.appending(path: ".venv/bin/python").path

  /// The program of this package, built beside the tests.
  static var apus: String {
    let bundles = CommandLine.arguments.filter { $0.contains(".xctest") }
    let folders =
      bundles.map { URL(filePath: $0).deletingLastPathComponent() }
      + [root.appending(path: ".build/debug")]
    let programs = folders.map { $0.appending(path: "apus").path }
    return programs.first(where: FileManager.default.isExecutableFile) ?? "apus"
  }

  /// Runs a script of the folder to its end.
  ///
  /// The output goes to a file: programs that other suites start meanwhile would inherit a pipe and keep it open.
  static func run(
    _ script: String, _ arguments: [String] = [], python: String = "python3"
  ) throws -> Outcome {
    let output = FileManager.default.temporaryDirectory.appending(
      path: "apus-console-\(UUID().uuidString).txt")
    try Data().write(to: output)
    defer { try? FileManager.default.removeItem(at: output) }
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = [python, folder.appending(path: script).path] + arguments
    let handle = try FileHandle(forWritingTo: output)
    process.standardOutput = handle
    process.standardError = handle
    process.standardInput = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    return Outcome(try String(contentsOf: output, encoding: .utf8))
  }
}
