import Foundation
import Testing

@Suite("apus relay", .timeLimit(.minutes(5)))
struct RelayCommandTests {
  @Test("The operator sees what waits for an upstream that is away, and holds it")
  func operates() throws {
    let installation = try Installation()
    try installation.start()
    let status = #""$0" relay --data ."#
    #expect(try shell(status, in: installation).text == "Nothing was kept for an upstream.")
    // Nothing listens at port 9.
    let change = try shell(
      #""$0" app --data . --change com.example.app --upstream https://127.0.0.1:9 "#
        + "--upstream-key $(ls keys/*.p8) --upstream-key-id ABC123DEFG "
        + "--upstream-team DEF123GHIJ --upstream-spool on", in: installation)
    #expect(change.code == 0, "\(change)")
    let token = String(repeating: "ab", count: 32)
    var sent = (code: Int32(1), text: "")
    // Until the service knows of the change.
    for _ in 0..<20 where sent.code != 0 {
      sent = try shell(
        "\"$0\" send --data . --token \(token) --topic com.example.app --alert hi",
        in: installation)
    }
    #expect(sent.code == 0, "\(sent)")
    let waiting = try shell(status, in: installation)
    #expect(waiting.text.contains("com.example.app  "), "\(waiting)")
    #expect(waiting.text.contains("notifications=1"), "\(waiting)")

    let paused = try shell(#""$0" relay pause com.example.app --data ."#, in: installation)
    #expect(paused.code == 0, "\(paused)")
    #expect(try shell(status, in: installation).text.contains("held=paused"))
    let rows = try shell(status + " --json", in: installation).text.split(separator: "\n").map {
      try Programs.json(String($0))
    }
    #expect(rows.count == 2 && rows.allSatisfy { $0["hold"] as? String == "paused" })
    #expect(rows.reduce(0) { $0 + ($1["notifications"] as? Int ?? 0) } == 1)
    let unknown = try shell(#""$0" relay flush com.example.none --data ."#, in: installation)
    #expect(unknown.code == 4 && unknown.text.contains("does not exist"), "\(unknown)")
    let missing = try shell(#""$0" relay flush --data ."#, in: installation)
    #expect(missing.code == 2 && missing.text.contains("the topic is missing"), "\(missing)")
    let audit = try String(
      contentsOf: installation.directory.appending(path: "audit.jsonl"), encoding: .utf8)
    #expect(audit.contains("\"relay.commanded\""))
  }
}
