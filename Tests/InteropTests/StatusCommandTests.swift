import Foundation
import Testing

@Suite("apus status")
struct StatusCommandTests {
  @Test("Stale trust data is a problem of a service that is ready", .timeLimit(.minutes(30)))
  func stale() throws {
    let installation = try Installation()
    try installation.start()
    func status(_ extra: String...) throws -> String {
      try Programs.run(
        installation.apus, ["status", "--data", installation.directory.path] + extra)
    }
    /// The row with the problem, without its title.
    func problem() throws -> String? {
      try status().split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        .first { $0.hasPrefix("problem ") }
        .map { $0.dropFirst("problem".count).trimmingCharacters(in: .whitespaces) }
    }
    func awaitProblem(_ isThere: Bool) throws -> String? {
      let deadline = Date(timeIntervalSinceNow: 60)
      while true {
        let problem = try problem()
        if (problem != nil) == isThere { return problem }
        guard Date() < deadline else { throw Trouble("problem: \(problem ?? "none")") }
        usleep(100_000)
      }
    }
    #expect(try problem() == nil)
    let file = installation.directory.appending(path: "directory.conf")
    let text = try String(contentsOf: file, encoding: .utf8)
    try Data("\(text)\n[key\n".utf8).write(to: file, options: .atomic)
    let shown = try #require(try awaitProblem(true))
    #expect(shown.hasPrefix("trust data is stale since ") && shown.contains(file.path), "\(shown)")
    let json = try Programs.json(status("--json"))
    #expect(json["ready"] as? Bool == true && json["problem"] as? String == shown)
    try Data(text.utf8).write(to: file, options: .atomic)
    _ = try awaitProblem(false)
  }
}
