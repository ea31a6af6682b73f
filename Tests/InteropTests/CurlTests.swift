import Foundation
import Testing

@Suite("The curl command of the README", .serialized)
struct CurlTests {
  /// The block of the README that ends in the curl command, at the port of the test's own service.
  ///
  /// Read from the README itself: a command that is printed there and does not work is a defect of this project.
  static func block(port: Int) throws -> String {
    let readme = try String(
      contentsOf: Programs.root.appending(path: "README.md"), encoding: .utf8)
    let blocks = readme.components(separatedBy: "```").filter { $0.hasPrefix("sh\n") }
    guard let block = blocks.first(where: { $0.contains("curl --http2") }) else {
      throw Trouble("the README has no block with curl --http2")
    }
    guard block.contains("localhost:2197") else {
      throw Trouble("the README's curl command does not go to localhost:2197")
    }
    return block.dropFirst(3).replacingOccurrences(of: "localhost:2197", with: "localhost:\(port)")
  }

  @Test("The printed commands deliver a push", .timeLimit(.minutes(30)))
  func readme() throws {
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
