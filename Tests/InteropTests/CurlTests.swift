import Foundation
import Testing

@Suite("curl, as the documentation prints it", .serialized)
struct CurlTests {
  /// The block of the document that ends in the curl command, with the port of the test's service.
  ///
  /// Read from the document itself: a documented command that does not work is a defect.
  static func block(port: Int) throws -> String {
    let page = try String(
      contentsOf: Programs.root.appending(path: "Documentation/providers.md"), encoding: .utf8)
    let blocks = page.components(separatedBy: "```").filter { $0.hasPrefix("sh\n") }
    guard let block = blocks.first(where: { $0.contains("curl --http2") }) else {
      throw Trouble("Documentation/providers.md has no block with curl --http2")
    }
    guard block.contains("localhost:2197") else {
      throw Trouble("the curl command of Documentation/providers.md does not go to localhost:2197")
    }
    return block.dropFirst(3).replacingOccurrences(of: "localhost:2197", with: "localhost:\(port)")
  }

  @Test("The printed commands deliver a push", .timeLimit(.minutes(30)))
  func document() throws {
    let installation = try Installation()
    try installation.start()
    let device = try installation.device("phone")
    let variables = [
      ("AUTHORITY", installation.authority), ("KEY", installation.text("key_file")),
      ("KEY_ID", installation.text("key_id")), ("TEAM", installation.text("team")),
      ("TOPIC", Installation.topic), ("TOKEN", try device.connect()),
    ]
    let script =
      variables.map { "\($0)='\($1)'\n" }.joined()
      + "set -e\n" + (try Self.block(port: installation.providerPort))
    #expect(try Programs.run(URL(filePath: "/bin/sh"), ["-c", script]) == "")
    let shown = try device.listener?.first("notification")
    let aps = (shown?["payload"] as? [String: Any])?["aps"] as? [String: Any]
    #expect(aps?["alert"] as? String == "Hello from Apus")
  }
}
