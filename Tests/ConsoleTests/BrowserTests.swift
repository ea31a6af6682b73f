import Foundation
import Testing

/// The page in Chromium. What is tested, and how, stands in the Python files of the folder Browser.
@Suite("The console in a browser", .serialized)
struct BrowserTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "Browser")

  /// What a run of Python's unittest comes to.
  struct Outcome {
    /// Tests that were run.
    var count: Int
    var isGood: Bool
    /// What failed, and why.
    var report: String

    /// `unittest` ends with "Ran 52 tests in 40.1s" and "OK", and prints what failed before that.
    init(_ text: String) {
      count = text.firstMatch(of: #/Ran (\d+) tests? in /#).flatMap { Int($0.1) } ?? 0
      isGood = count > 0 && text.hasSuffix("OK\n")
      let failures = text.firstRange(of: "\n======").map { String(text[$0.lowerBound...]) }
      report = failures ?? String(text.suffix(4000))
    }
  }

  @Test(
    "Against a mock of the API, with ten thousand pushes and with bad input",
    .timeLimit(.minutes(15)))
  func page() throws {
    let outcome = try Self.run("run.py")
    #expect(outcome.count > 40)
    #expect(outcome.isGood, "\(outcome.report)")
  }

  @Test(
    "A run that fails, and one that runs nothing, is not good",
    arguments: [
      ("FAIL: a\n\nRan 3 tests in 0.1s\n\nFAILED (failures=1)\n", 3, false),
      ("\nRan 0 tests in 0.0s\n\nOK\n", 0, false), ("Traceback: no chromium\n", 0, false),
      ("a ... ok\n\nRan 2 tests in 0.1s\n\nOK\n", 2, true),
    ])
  func outcomes(text: String, count: Int, isGood: Bool) {
    let outcome = Outcome(text)
    #expect(outcome.count == count)
    #expect(outcome.isGood == isGood)
  }

  /// Runs a script of the folder to its end.
  ///
  /// Through a file: a pipe would be inherited by what other suites start meanwhile, and end with them.
  private static func run(_ script: String, _ arguments: [String] = []) throws -> Outcome {
    let output = FileManager.default.temporaryDirectory.appending(
      path: "apus-console-\(UUID().uuidString).txt")
    _ = FileManager.default.createFile(atPath: output.path, contents: nil)
    defer { try? FileManager.default.removeItem(at: output) }
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = ["python3", folder.appending(path: script).path] + arguments
    let handle = try FileHandle(forWritingTo: output)
    process.standardOutput = handle
    process.standardError = handle
    process.standardInput = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    return Outcome(try String(contentsOf: output, encoding: .utf8))
  }
}
