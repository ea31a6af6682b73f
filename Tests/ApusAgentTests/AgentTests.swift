import Foundation
import Testing

/// The agent as a program, with a real service: Tests/Agent/agent_tests.py, whose classes run beside each other.
@Suite("apus-agent")
struct AgentTests {
  @Test(
    "The tests in Python pass", .timeLimit(.minutes(10)),
    arguments: [
      ("RunTests", 4), ("KillTests", 3), ("TopicTests", 2), ("EnrolmentTests", 5),
      ("ProgramTests", 5),
      ("ConnectionTests", 2), ("ShowTests", 1),
    ])
  func python(suite: String, count: Int) throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    let script = root.appending(path: "Agent/agent_tests.py")
    // Through a file: a pipe would be inherited by what other suites start meanwhile, and end with them.
    let output = FileManager.default.temporaryDirectory
      .appending(path: "apus-agent-tests-\(UUID().uuidString).txt")
    try Data().write(to: output)
    defer { try? FileManager.default.removeItem(at: output) }
    let handle = try FileHandle(forWritingTo: output)
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = ["/usr/bin/python3", script.path, suite]
    process.environment = ProcessInfo.processInfo.environment.merging([
      "APUS_PROGRAMS": try Self.programs(root)
    ]) { $1 }
    process.standardOutput = handle
    process.standardError = handle
    process.standardInput = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    let text = try String(contentsOf: output, encoding: .utf8)
    let ran = text.firstMatch(of: #/Ran (\d+) tests? in /#).flatMap { Int($0.1) } ?? 0
    #expect(ran == count && process.terminationStatus == 0, "\(text)")
  }

  /// The folder of the programs that were built beside the tests.
  private static func programs(_ tests: URL) throws -> String {
    let bundles = CommandLine.arguments.filter { $0.contains(".xctest") }
    let folders =
      bundles.map { URL(filePath: $0).deletingLastPathComponent() }
      + [tests.deletingLastPathComponent().appending(path: ".build/debug")]
    return try #require(
      folders.map(\.path).first {
        FileManager.default.isExecutableFile(atPath: "\($0)/apus-agent")
      })
  }
}
