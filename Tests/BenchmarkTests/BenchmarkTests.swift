import Foundation
import Testing

/// The scripts in `Benchmarks` and `scripts/test.py` have tests in Python; this runs them with all other tests.
@Suite("The tools of benchmarks and tests")
struct BenchmarkTests {
  @Test("Goals, spreads, comparisons and ceilings are evaluated correctly")
  func benchmarks() throws { try run("tools_tests.py", atLeast: 16) }

  @Test("The events of test processes give durations, failures and one verdict")
  func runner() throws { try run("runner_tests.py", atLeast: 7) }

  private func run(_ name: String, atLeast expected: Int) throws {
    let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: name)
    // Through a file: a pipe would be inherited by what other suites start meanwhile, and end with them.
    let output = FileManager.default.temporaryDirectory
      .appending(path: "apus-benchmarks-\(UUID().uuidString).txt")
    try Data().write(to: output)
    defer { try? FileManager.default.removeItem(at: output) }
    let handle = try FileHandle(forWritingTo: output)
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = ["python3", script.path]
    process.standardOutput = handle
    process.standardError = handle
    process.standardInput = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    let text = try String(contentsOf: output, encoding: .utf8)
    let count = text.firstMatch(of: #/Ran (\d+) tests? in /#).flatMap { Int($0.1) } ?? 0
    #expect(count >= expected && process.terminationStatus == 0, "\(text)")
  }
}
