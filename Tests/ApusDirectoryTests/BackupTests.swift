import ApusDirectory
import ApusStore
import ApusTesting
import Foundation
import Testing

@Suite("Backups")
struct BackupTests {
  private let directory: TestDirectory
  private let temporary = TemporaryDirectory()
  private var data: DataDirectory { directory.data }
  private var target: String { "\(temporary.path)/backup" }

  init() throws { directory = try TestDirectory() }

  private func makeStore() throws {
    let store = try data.openStore(RocksOptions())
    store.close()
  }

  @Test("A backup has every file with its content, and nothing that is made again")
  func complete() throws {
    try makeStore()
    try Data("keys".utf8).write(to: URL(filePath: data.ticketFile))
    try Data().write(to: URL(filePath: "\(data.path)/sealing.keys.new"))
    // Numbers of events that the service has given out since must not come again.
    try Files.makeDirectory("\(data.path)/webhooks")
    try Data().write(to: URL(filePath: "\(data.path)/webhooks/events-1.jsonl"))
    let backup = try data.backUp(to: target)
    let (saved, original) = (try tree("\(target)/data"), try tree(data.path))
    let left = original.keys.filter { saved[$0] == nil && !$0.hasPrefix("store/") }
    #expect(
      Set(left) == [
        "lock", "backup.lock", "ticket.keys", "sealing.keys.new", "webhooks/events-1.jsonl",
      ])
    for (name, content) in saved where !name.hasPrefix("store/") {
      #expect(original[name] == content, "\(name)")
    }
    #expect(saved.keys.contains("store/CURRENT") && saved.keys.contains("store/FORMAT"))
    #expect(backup.manifest.fileCount == saved.count)
    #expect(backup.manifest.byteCount == saved.values.reduce(0) { $0 + $1.count })
    #expect(try mode(target) == 0o700)
    #expect(try mode("\(target)/data/sealing.keys") == 0o600)
    try Backup(path: target).verify()
    // Neither the copy of the store nor the incomplete backup is left.
    #expect(!FileManager.default.fileExists(atPath: "\(data.storePath)/backup"))
    #expect(try FileManager.default.contentsOfDirectory(atPath: temporary.path) == ["backup"])
  }

  @Test("Nothing is overwritten")
  func existing() throws {
    try Data("mine".utf8).write(to: URL(filePath: target))
    let error = #expect(throws: DirectoryProblem.self) { try data.backUp(to: target) }
    #expect(error?.description.contains("exists") == true)
    #expect(try Data(contentsOf: URL(filePath: target)) == Data("mine".utf8))
  }

  @Test("A backup that failed leaves nothing, and one that was interrupted is replaced")
  func interrupted() throws {
    try makeStore()
    var lock: StoreLock? = try StoreLock(path: data.storePath)
    #expect(throws: CancellationError.self) { try data.backUp(to: target) }
    withExtendedLifetime(lock) {}
    lock = nil
    #expect(try FileManager.default.contentsOfDirectory(atPath: temporary.path).isEmpty)
    let partial = URL(filePath: "\(target).partial")
    try FileManager.default.createDirectory(at: partial, withIntermediateDirectories: true)
    try Data().write(to: partial.appending(path: "left"))
    #expect(throws: DirectoryProblem.self) { try Backup(path: partial.path) }
    try data.backUp(to: target)
    #expect(try FileManager.default.contentsOfDirectory(atPath: temporary.path) == ["backup"])
  }

  @Test("Two backups at once: the second one is refused")
  func twice() throws {
    try makeStore()
    let lock = try StoreLock(path: data.storePath)
    var refusal: String?
    _ = try? Backup.make(of: data, at: target, program: "1", nowSeconds: 0) {
      do { try data.backUp(to: "\(temporary.path)/second") } catch { refusal = "\(error)" }
      throw CancellationError()
    }
    #expect(refusal?.contains("another backup") == true)
    withExtendedLifetime(lock) {}
  }

  /// Each changes one thing of a backup, and names a word of the error.
  private static let damages: [(String, @Sendable (String) throws -> Void)] = [
    (
      "sealing.keys is not the file that was saved",
      { path in
        var bytes = try Data(contentsOf: URL(filePath: "\(path)/data/sealing.keys"))
        bytes[20] ^= 1
        try bytes.write(to: URL(filePath: "\(path)/data/sealing.keys"))
      }
    ),
    (
      "directory.conf: No such file",
      { path in try FileManager.default.removeItem(atPath: "\(path)/data/directory.conf") }
    ),
    (
      "not a complete backup",
      { try FileManager.default.removeItem(atPath: "\($0)/backup.manifest") }
    ),
    ("its first line is not", { try change($0) { _ in "" } }),
    ("has format 2", { try change($0) { $0.replacing("format 1", with: "format 2") } }),
    ("it is incomplete", { try change($0) { String($0.dropLast()) } }),
    (
      "counts other files",
      { path in
        try change(path) { text in
          text.split(separator: "\n").filter { !$0.hasSuffix(" sealing.keys") }
            .joined(separator: "\n") + "\n"
        }
      }
    ),
    (
      "is malformed", { try change($0) { $0.replacing(" sealing.keys", with: " ../sealing.keys") } }
    ),
    ("is malformed", { try change($0) { $0.replacing("folder keys", with: "folder ../keys") } }),
    ("is malformed", { try change($0) { $0.replacing(" sealing.keys", with: " /sealing.keys") } }),
  ]

  private static func change(_ path: String, _ body: (String) -> String) throws {
    let file = URL(filePath: "\(path)/backup.manifest")
    try Data(body(String(contentsOf: file, encoding: .utf8)).utf8).write(to: file)
  }

  @Test(
    "A damaged backup is refused with the file's name, and nothing is restored", arguments: 0..<10)
  func damaged(index: Int) throws {
    let (words, damage) = Self.damages[index]
    try data.backUp(to: target)
    try damage(target)
    let error = #expect(throws: DirectoryProblem.self) { try Backup(path: target).verify() }
    #expect(error?.description.contains(words) == true, "\(error as Any)")
    let other = DataDirectory(path: "\(temporary.path)/other")
    #expect(throws: DirectoryProblem.self) { try other.restore(target) }
    let left = (try? FileManager.default.contentsOfDirectory(atPath: other.path)) ?? []
    #expect(left.isEmpty || left == ["lock"])
    let before = try tree(data.path)
    #expect(throws: DirectoryProblem.self) { try data.restore(target) }
    #expect(try tree(data.path) == before)
  }
}
