import ApusLoop
import ApusModel
import ApusTesting
import Foundation
import Synchronization
import Testing

@testable import ApusLog
@testable import ApusDirectory
@testable import ApusServer

@Suite("The audit log")
struct AuditLogTests {
  let folder = FileManager.default.temporaryDirectory.appending(path: "audit-\(UUID().uuidString)")
  var path: String { folder.appending(path: "audit.jsonl").path }

  init() throws {
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }

  private func lines() throws -> [[String: Any]] {
    try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map { line in
      try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }
  }

  @Test("A change is one line with its time, kind, actor and subject, readable by the owner only")
  func change() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let log = AuditLog(path: path)
    #expect(log.record(.keyRevoked, actor: "uid 7", subject: "key \"A\n\"", .number("keys", 3)))
    log.record(.deviceRetired, actor: "uid 7", subject: "device 1")
    let lines = try lines()
    #expect(lines.count == 2)
    #expect(lines[0]["event"] as? String == "key.revoked")
    #expect(lines[0]["actor"] as? String == "uid 7")
    #expect(lines[0]["subject"] as? String == "key \"A\n\"")
    #expect(lines[0]["keys"] as? Int == 3)
    #expect((lines[0]["time"] as? String)?.hasSuffix("Z") == true)
    let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
    #expect(mode as? Int == 0o600)
  }

  @Test("The number of lines that could not be written is logged when no more follow")
  func unwritten() {
    defer { try? FileManager.default.removeItem(at: folder) }
    let said = Mutex<[String]>([])
    let log = Log(minimumLevel: .info, sink: { line in said.withLock { $0.append(line) } })
    // full(4): each write fails as on a full disk.
    let audit = AuditLog(path: "/dev/full", log: log)
    for _ in 0..<Limits.logLinesPerWindow + 5 {
      #expect(!audit.record(.deviceRetired, actor: "uid 7", subject: "device 1"))
    }
    let window = UInt64(Limits.logWindowSeconds) * 1000
    log.tellSuppressed(atMilliseconds: EventLoop.monotonicMilliseconds() + window + 1)
    let last = said.withLock { $0.last }
    #expect(last == #"lines suppressed kind="audit line not written" more_suppressed=5"#)
  }

  @Test("A flood of rejections leaves a bounded number of lines, which count the omitted ones")
  func flood() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let log = AuditLog(path: path)
    let start: Int64 = 1_800_000_000_000
    // A hundred a second, for an hour.
    for index in 0..<360_000 {
      log.recordRefusal(
        .deviceRefused, actor: "192.0.2.1", reason: "no certificate",
        nowMilliseconds: start + Int64(index) * 10)
    }
    log.recordRefusal(.deviceRefused, actor: "192.0.2.1", reason: "expired", nowMilliseconds: start)
    let lines = try lines()
    let flood = lines.filter { $0["reason"] as? String == "no certificate" }
    // The burst, plus one for each minute.
    #expect(flood.count == AuditLog.burst + 59)
    let omitted = flood.reduce(0) { $0 + ($1["omitted_before"] as? Int ?? 0) }
    // Every rejection is counted, except those after the last line.
    #expect((360_000 - 6_000..<360_000).contains(flood.count + omitted))
    #expect(lines.contains { $0["reason"] as? String == "expired" })
  }

  @Test("The security page has the numbers of a class of refusals")
  func documented() throws {
    let page = try DocumentationPage.text("security")
    let row = "lines of one class of refusals in `audit.jsonl` | "
    #expect(
      page.contains(
        "\n| \(row)\(AuditLog.burst) at once, \(60 / AuditLog.intervalSeconds) a minute | "))
    #expect(60.isMultiple(of: AuditLog.intervalSeconds))
  }

  @Test("Changes are never omitted")
  func changes() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let log = AuditLog(path: path)
    for index in 0..<300 { log.record(.certificateIssued, actor: "uid 0", subject: "\(index)") }
    #expect(try lines().count == 300)
  }

  @Test("A file that was moved away is left alone, and a new one is created")
  func rotation() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let log = AuditLog(path: path)
    log.record(.teamAdded, actor: "uid 0", subject: "A")
    try FileManager.default.moveItem(atPath: path, toPath: path + ".1")
    log.record(.teamAdded, actor: "uid 0", subject: "B")
    #expect(try lines().map { $0["subject"] as? String } == ["B"])
    // Removed, or replaced by another file.
    try FileManager.default.removeItem(atPath: path)
    log.record(.teamAdded, actor: "uid 0", subject: "C")
    #expect(try lines().map { $0["subject"] as? String } == ["C"])
    try FileManager.default.removeItem(atPath: path)
    try Data().write(to: URL(filePath: path))
    log.record(.teamAdded, actor: "uid 0", subject: "D")
    #expect(try lines().map { $0["subject"] as? String } == ["D"])
    // Unchanged, with two lines that belong together.
    log.record(.teamAdded, actor: "uid 0", subject: "E")
    #expect(try lines().map { $0["subject"] as? String } == ["D", "E"])
  }

  @Test("The file stays open between lines, and two writers do not mix their lines")
  func open() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let logs = [AuditLog(path: path), AuditLog(path: path)]
    func descriptors() throws -> Int {
      try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == path
      }
    }
    DispatchQueue.concurrentPerform(iterations: 400) { index in
      logs[index % 2].record(
        .teamAdded, actor: "uid 0", subject: String(repeating: "x", count: index))
    }
    #expect(try descriptors() == 2)
    #expect(Set(try lines().compactMap { ($0["subject"] as? String)?.count }).count == 400)
  }

  @Test("A line that cannot be written goes to the log, and the caller gets an error")
  func unwritable() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let said = Collected()
    let log = AuditLog(
      path: folder.path + "/missing/audit.jsonl", log: Log(sink: { said.append($0) }))
    #expect(!log.record(.keyAdded, actor: "uid 0", subject: "key X"))
    #expect(said.lines.count == 1)
    #expect(said.lines[0].contains("key X") && said.lines[0].contains("missing"))
  }
}

/// Collects log lines.
private final class Collected: @unchecked Sendable {
  private let lock = NSLock()
  private var list: [String] = []

  func append(_ line: String) { lock.withLock { list.append(line) } }
  var lines: [String] { lock.withLock { list } }
}
