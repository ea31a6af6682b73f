import Foundation
import Testing

@Suite("Backups of a running service", .timeLimit(.minutes(2)))
struct BackupTests {
  private let scratch: Scratch
  private let installation: Installation

  init() throws {
    scratch = try Scratch()
    installation = try Installation()
  }

  private func apus(_ arguments: String...) throws -> [String: Any] {
    try Programs.json(Programs.run(installation.apus, arguments + ["--json"]))
  }

  @Test("It is backed up while it runs, checked, and restored elsewhere")
  func roundTrip() throws {
    defer { scratch.remove() }
    try installation.start()
    let backup = "\(scratch.path)/backup"
    let made = try apus("backup", backup, "--data", installation.directory.path)
    #expect(made["backup"] as? String == backup)
    let found = try apus("check", "--backup", backup)
    #expect(found["files"] as? Int == made["files"] as? Int)
    #expect((found["files"] as? Int ?? 0) > 15)

    // The running service is not restored, and its store is not read.
    let checked = try Programs.run(
      installation.apus, ["check", "--data", installation.directory.path])
    #expect(checked.contains("note  store: not read, because the service runs"))
    let refused = try Programs.attempt(
      ["restore", backup, "--data", installation.directory.path], .errors)
    #expect(refused.code == 4 && refused.text.contains("shut it down first"))

    let other = URL(filePath: "\(scratch.path)/other")
    let restored = try apus("restore", backup, "--data", other.path)
    #expect(restored["age_seconds"] as? Int ?? -1 >= 0)
    #expect(restored["ended_tokens"] as? Int == 0)
    let whole = try Programs.run(installation.apus, ["check", "--data", other.path])
    #expect(whole.contains("ok  store: intact, with 0 notifications and 0 devices"))
    let second = try Installation(existing: other)
    try second.start()
    let status = try apus("status", "--data", other.path)
    #expect(status["ready"] as? Bool == true)
    second.service?.stop()
    let audit = try String(contentsOf: other.appending(path: "audit.jsonl"), encoding: .utf8)
    #expect(audit.contains("backup.restored"))
  }

  @Test("A service without a store is not backed up while it runs")
  func ephemeral() throws {
    defer { scratch.remove() }
    // It had a store before.
    try installation.start()
    installation.service?.stop()
    try installation.start(["--ephemeral"])
    let made = try apus("backup", "\(scratch.path)/backup", "--data", installation.directory.path)
    #expect((made["files"] as? Int ?? 0) > 15)
  }

  @Test("Without its administration a running service cannot be backed up, which says so")
  func noAdministration() throws {
    defer { scratch.remove() }
    try installation.start(["--admin", "off"])
    let refused = try Programs.attempt(
      ["backup", "\(scratch.path)/backup", "--data", installation.directory.path], .errors)
    #expect(refused.code == 3 && refused.text.contains("without --admin off"))
    let left = try FileManager.default.contentsOfDirectory(atPath: scratch.path)
    #expect(left.isEmpty)
  }
}
