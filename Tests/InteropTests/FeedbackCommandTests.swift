import Foundation
import Testing

/// `apus feedback`, as the operator of a legacy sender runs it.
@Suite("The list of invalid tokens on the command line", .timeLimit(.minutes(30)))
struct FeedbackCommandTests {
  /// Runs the command with a certificate whose file contains its key; returns the exit code and output.
  private func feedback(
    _ installation: Installation, to address: String, _ extra: [String] = []
  ) throws -> (code: Int, text: String) {
    let certificate = try installation.providerCertificate()
    return try Programs.attempt(
      [
        "feedback", "--to", address, "--data", installation.directory.path, "--certificate",
        certificate,
      ] + extra)
  }

  @Test("A token that became invalid for a legacy sender is listed once, with its time")
  func list() throws {
    let installation = try Installation()
    try installation.start()
    let address = "localhost:\(installation.feedbackPort)"
    let start = Int(Date().timeIntervalSince1970)
    let removed = try installation.device("removed")
    let token = try removed.connect()
    let none = try feedback(installation, to: address)
    #expect(none.code == 0 && none.text.isEmpty)
    try removed.removeApp()
    try installation.waitUntilUnregistered(token)
    let frames = HandMadeFrameTests.command2(token, 1) + HandMadeFrameTests.knownBad
    #expect(try HandMadeFrameTests().answer(frames, installation) == "080200000007")
    let list = try feedback(installation, to: address, ["--json"])
    #expect(list.code == 0)
    let rows = try list.text.split(separator: "\n").map { try Programs.json($0) }
    #expect(rows.map { $0["token"] as? String } == [token])
    let time = try #require(rows.first?["time"] as? Int)
    #expect((start...Int(Date().timeIntervalSince1970)).contains(time))
    // One more entry for the push to the dead token may be written after the first read; then the list stays empty.
    var again = try feedback(installation, to: address)
    for _ in 0..<20 where !again.text.isEmpty { again = try feedback(installation, to: address) }
    #expect(again.code == 0 && again.text.isEmpty)
  }

  @Test("The exit code reports a missing list")
  func noService() throws {
    let installation = try Installation()
    let result = try feedback(installation, to: "127.0.0.1:1")
    #expect(result.code == 3 && result.text.isEmpty)
  }
}
