import Foundation
import Testing
import UnittestRunner

/// The agent as a program, with a real service: Tests/Agent/agent_tests.py, whose classes run beside each other.
@Suite("apus-agent")
struct AgentTests {
  @Test(
    "The tests in Python pass", .timeLimit(.minutes(10)),
    arguments: [
      ("RunTests", 4), ("KillTests", 3), ("TopicTests", 2), ("EnrolmentTests", 6),
      ("ProgramTests", 5), ("ConnectionTests", 2), ("ShowTests", 1),
    ])
  func python(suite: String, count: Int) throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let programs = try #require(builtPrograms(with: "apus-agent", root: root))
    // Debian's own Python: the tests need nothing that it lacks.
    let run = try UnittestRun(
      root.appending(path: "Tests/Agent/agent_tests.py"), [suite], python: "/usr/bin/python3",
      environment: ["APUS_PROGRAMS": programs.path])
    #expect(run.count == count && run.status == 0, "\(run.output)")
  }
}
