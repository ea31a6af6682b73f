import Foundation
import Testing

/// `apus store` as an operator runs it after `apus serve` has refused to start.
@Suite("apus store", .serialized)
struct StoreCommandTests {
  private func store(_ installation: Installation) -> URL {
    installation.directory.appending(path: "store")
  }

  /// A service that was killed with one stored notification in its log. Returns also the device's token.
  private func killed() throws -> (Installation, InstalledDevice, token: String) {
    let installation = try Installation()
    try installation.start()
    let device = try installation.device("phone")
    let token = try device.connect()
    device.disconnect()
    try installation.send(1, to: token, lifetimeSeconds: 3600)
    installation.service?.stop(SIGKILL)
    return (installation, device, token)
  }

  /// Changes a header in the log so that the engine would take the first record for its end.
  private func damageLog(of installation: Installation) throws -> String {
    let name = try #require(
      FileManager.default.contentsOfDirectory(atPath: store(installation).path)
        .filter { $0.hasSuffix(".log") }.max())
    let file = store(installation).appending(path: name)
    var content = try Data(contentsOf: file)
    try #require(content.count > 7)
    content[6] ^= 4
    try content.write(to: file)
    return name
  }

  @Test("A healthy store is counted, also after a kill")
  func healthy() throws {
    let (installation, _, _) = try killed()
    #expect(
      try installation.run(["store"]) == "The store is intact; it has 1 notification.\n")
    let made = try Programs.json(installation.run(["store", "--json"]))
    #expect(made["notifications"] as? Int == 1)
  }

  @Test("While the service runs its store is refused, and left alone")
  func running() throws {
    let (installation, _, _) = try killed()
    try installation.start()
    for arguments in [["store"], ["store", "--accept-loss"]] {
      let refusal = try installation.run(arguments, expecting: 4)
      #expect(refusal.contains("apus store: "), "\(refusal)")
    }
    installation.service?.stop()
    #expect(try installation.run(["store"]).contains("it has 1 notification."))
  }

  @Test("A damaged store is reported by both commands, and repaired when the loss is accepted")
  func damaged() throws {
    let (installation, device, token) = try killed()
    let name = try damageLog(of: installation)
    let before = try Data(contentsOf: store(installation).appending(path: name))
    for arguments in [["store"], ["serve", "--http2-listen", "127.0.0.1:0"]] {
      let refusal = try installation.run(arguments, expecting: 4)
      for words in ["is damaged", "apus store --accept-loss", "\n  \(name): damaged at byte 0, "] {
        #expect(refusal.contains(words), "\(refusal)")
      }
    }
    let failure = try Programs.json(
      #require(
        installation.run(["store", "--json"], expecting: 4).split(separator: "\n").last))
    #expect("\(failure)".contains("damaged at byte 0"), "\(failure)")
    // The checks changed nothing.
    #expect(try Data(contentsOf: store(installation).appending(path: name)) == before)

    let report = try installation.run(["store", "--accept-loss"])
    let lines = report.split(separator: "\n").map(String.init)
    #expect(lines[0] == "Repaired the store; it has 0 notifications.", "\(report)")
    let copy = try #require(lines[1].firstMatch(of: /files are in (.*)\.$/)?.1)
    #expect(lines[2].hasPrefix("  \(name): damaged at byte 0, "), "\(report)")
    #expect(try Data(contentsOf: URL(filePath: "\(copy)/\(name)")) == before)
    let audit = try String(
      contentsOf: installation.directory.appending(path: "audit.jsonl"), encoding: .utf8)
    #expect(audit.split(separator: "\n").last?.contains("store.loss-accepted") == true)

    #expect(try installation.run(["store"]).hasPrefix("The store is intact; "))
    try installation.start()
    #expect(try device.connect().count == token.count)
  }

  @Test("A missing store is reported, and made new when the loss is accepted")
  func missing() throws {
    let (installation, device, _) = try killed()
    try FileManager.default.removeItem(at: store(installation))
    let refusal = try installation.run(["store"], expecting: 4)
    #expect(refusal.contains("is missing or empty") && refusal.contains("--accept-loss"))
    let report = try installation.run(["store", "--accept-loss"])
    #expect(
      report
        == "Nothing could be recovered. The next start of the service makes a new store.\n")
    try installation.start()
    let token = try device.connect()
    device.disconnect()
    try installation.send(2, to: token, lifetimeSeconds: 3600)
    installation.service?.stop()
    #expect(try installation.run(["store"]).contains("it has 1 notification."))
  }
}
