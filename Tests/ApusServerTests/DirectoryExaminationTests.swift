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
