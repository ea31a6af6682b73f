import ApusModel
import Foundation
import Testing

@testable import ApusDirectory

@Suite("The examination of a data directory")
struct DirectoryExaminationTests {
  private static let now: Int64 = 1_800_000_000

  /// Examines a new directory that `change` has changed, `days` later.
  private func findings(
    days: Int64 = 0, _ change: (DataDirectory) throws -> Void = { _ in }
  ) throws -> [DirectoryFinding] {
    let path = FileManager.default.temporaryDirectory.appending(path: "\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    let data = DataDirectory(path: path)
    _ = try data.initialize(
      names: ["localhost"], topic: "com.example.app", teamName: "Team", nowSeconds: Self.now)
    try change(data)
    return DirectoryExamination(data, nowSeconds: Self.now + days * 86_400).findings()
  }

  private func bad(_ findings: [DirectoryFinding]) -> [DirectoryFinding] {
    findings.filter { $0.state == .bad }
  }

  @Test("A new one is good")
  func good() throws {
    let found = try findings()
    #expect(bad(found).isEmpty, "\(found)")
    #expect(found.map(\.check) == ["files", "modes", "directory", "server", "disk"])
  }

  @Test(
    "The server's certificate expires, or is not valid yet",
    arguments: [(790, nil), (800, DirectoryFinding.State.notable), (826, .bad), (-2, .bad)]
      as [(Int64, DirectoryFinding.State?)])
  func certificate(days: Int64, state: DirectoryFinding.State?) throws {
    let found = try #require(try findings(days: days).first { $0.check == "server" })
    #expect(found.state == state ?? .good, "\(found)")
    if days > 825 { #expect(found.text.contains("expired on 2029-04-")) }
    if days < 0 { #expect(found.remedy.contains("clock")) }
  }

  @Test("Malformed lines among the names and tags of devices are counted")
  func labels() throws {
    let good = "0123456789abcdef\tkitchen\tfloor=2\n"
    func labels(_ text: String) throws -> DirectoryFinding? {
      try findings { try Files.write(text, to: $0.labelFile, isPrivate: true) }
        .first { $0.check == "labels" }
    }
    let fine = try #require(try labels(good))
    #expect(fine.state == .good && fine.text == "1 device with a name or tags")
    let found = try #require(try labels("hello\n" + good + "0123456789abcdee\t \n"))
    #expect(found.state == .bad && found.text.contains("devices.tsv"))
    #expect(found.text.hasSuffix("count for nothing: 1, 3") && !found.remedy.isEmpty, "\(found)")
    let many = try #require(try labels(String(repeating: "x\n", count: 12)))
    #expect(many.text.hasSuffix(": 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"), "\(many)")
  }

  @Test("Another key than the certificate's")
  func otherKey() throws {
    let found = bad(
      try findings { data in
        try Files.write(
          Files.readText(data.authorityKey(.service)), to: data.serverFiles.key, isPrivate: true)
      })
    #expect(found.map(\.check) == ["server"])
    #expect(found.first?.text.contains("server.key is not the key of") == true)
  }

  @Test(
    "Free space",
    arguments: [(0, .bad), (64 << 20, .notable), (1 << 30, .good)]
      as [(UInt64, DirectoryFinding.State)])
  func disk(bytes: UInt64, state: DirectoryFinding.State) {
    let found = DirectoryExamination.disk(freeBytes: bytes, "/data")
    #expect(found.state == state && found.text.hasSuffix("MB are free for /data"))
  }
}
