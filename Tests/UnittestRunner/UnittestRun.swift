package import Foundation

/// A finished run of Python's unittest.
package struct UnittestRun {
  /// The number of tests run.
  package var count: Int
  /// The exit code of the program; nil where only its output is known.
  package var status: Int32?
  package var output: String

  /// Reads the output: failures, then "Ran 52 tests in 40.1s" and "OK".
  package init(output: String, status: Int32? = nil) {
    count = output.firstMatch(of: #/Ran (\d+) tests? in /#).flatMap { Int($0.1) } ?? 0
    self.status = status
    self.output = output
  }

  package var isGood: Bool { count > 0 && output.hasSuffix("OK\n") }

  /// The failures, with their reasons.
  package var report: String {
    let failures = output.firstRange(of: "\n======").map { String(output[$0.lowerBound...]) }
    return failures ?? String(output.suffix(4000))
  }

  /// Runs a script to its end.
  ///
  /// The output goes to a file: programs that other suites start meanwhile would inherit a pipe and keep it open.
  ///
  /// - Parameter environment: Variables besides those of this process.
  package init(
    _ script: URL, _ arguments: [String] = [], python: String = "python3",
    environment: [String: String] = [:]
  ) throws {
    let output = FileManager.default.temporaryDirectory.appending(
      path: "apus-unittest-\(UUID().uuidString).txt")
    try Data().write(to: output)
    defer { try? FileManager.default.removeItem(at: output) }
    let handle = try FileHandle(forWritingTo: output)
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = [python, script.path] + arguments
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    process.standardOutput = handle
    process.standardError = handle
    process.standardInput = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    self.init(
      output: try String(contentsOf: output, encoding: .utf8), status: process.terminationStatus)
  }
}

/// The folder of the programs that were built beside the tests; nil if it has no program of this name.
///
/// - Parameter root: The project's folder.
package func builtPrograms(with name: String, root: URL) -> URL? {
  let bundles = CommandLine.arguments.filter { $0.contains(".xctest") }
  let folders =
    bundles.map { URL(filePath: $0).deletingLastPathComponent() }
    + [root.appending(path: ".build/debug")]
  return folders.first {
    FileManager.default.isExecutableFile(atPath: $0.appending(path: name).path)
  }
}
