import Foundation
import Testing

/// `apus token` and `apus doctor`, as an operator runs them.
@Suite("Explanations of what keeps a provider from sending", .timeLimit(.minutes(30)))
struct SendTroubleTests {
  private func check(
    _ installation: Installation, _ token: String, _ extra: String...
  ) throws -> (good: Bool, problems: [String]) {
    let (code, text) = try Programs.attempt(
      ["token", "check", token, "--data", installation.directory.path, "--json"] + extra)
    let report = try Programs.json(text)
    let problems = (report["problems"] as? [[String: Any]] ?? []).compactMap {
      $0["problem"] as? String
    }
    let good = try #require(report["good"] as? Bool)
    #expect(code == (good ? 0 : 1) && good == problems.isEmpty)
    // The signature, after the second full stop, must not be printed.
    if let signature = token.split(separator: ".").dropFirst(2).first, signature.count > 20 {
      #expect(!text.contains(signature))
    }
    return (good, problems)
  }

  private func make(_ installation: Installation, _ extra: String...) throws -> String {
    let arguments = ["token", "make", "--data", installation.directory.path] + extra
    return try Programs.run(installation.apus, arguments).trimmingCharacters(in: .newlines)
  }

  @Test("A token made here is valid, and an invalid one is explained")
  func tokens() throws {
    let (here, other) = (try Installation(), try Installation())
    let token = try make(here)
    #expect(try check(here, token).good)
    #expect(try check(here, "Bearer \(token)", "--key", here.text("key_file")).good)
    #expect(try check(here, "authorization: bearer \(token)\n").good)
    let foreign = try check(here, token, "--key", other.text("key_file"))
    #expect(
      foreign.problems.count == 1 && foreign.problems[0].contains("did not make the signature"))
    let old = try check(here, make(here, "--issued-at", "61m"))
    #expect(old.problems.count == 1 && old.problems[0].contains("older than an hour"))
    #expect(try check(here, make(here, "--issued-at", "59m")).good)
    let early = try check(here, make(here, "--issued-at", "2999-01-01T00:00:00Z"))
    #expect(early.problems.first?.contains("in the future") == true)
    let id = try check(here, token, "--key-id", "AAAAAAAAAA", "--team", "BBBBBBBBBB")
    #expect(id.problems.count == 2)
    let parts = token.split(separator: ".")
    let signature = (parts[2].first == "A" ? "B" : "A") + parts[2].dropFirst()
    let changed = try check(here, "\(parts[0]).\(parts[1]).\(signature)")
    #expect(
      changed.problems.count == 1 && changed.problems[0].contains("did not make the signature"))
  }

  @Test(
    "Each invalid part is named",
    arguments: [
      ("abc", "x", "have three parts"),
      (#"{"alg":"HS256","kid":"ABC123DEFG"}"#, #"{"iss":"TEAM123456","iat":1}"#, "alg"),
      (#"{"alg":"ES256"}"#, #"{"iss":"TEAM123456","iat":1}"#, "kid"),
      (#"{"alg":"ES256","kid":"ABC"}"#, #"{"iss":"TEAM123456","iat":1}"#, "kid"),
      (#"{"alg":"ES256","kid":"ABC123DEFG"}"#, #"{"iss":"com.example","iat":1}"#, "iss"),
      (#"{"alg":"ES256","kid":"ABC123DEFG"}"#, #"{"iss":"TEAM1","iat":1}"#, "a team id has 10"),
      (#"{"alg":"ES256","kid":"ABC123DEFG"}"#, #"{"iss":"TEAM123456"}"#, "iat"),
      (
        #"{"alg":"ES256","kid":"ABC123DEFG"}"#, #"{"iss":"TEAM123456","iat":1800000000000}"#,
        "milliseconds"
      ),
      (
        #"{"alg":"ES256","kid":"ABC123DEFG"}"#, #"{"iss":"TEAM123456","iat":1}"#,
        "older than an hour"
      ),
      (#"["alg"]"#, "{}", "header"),
    ])
  func parts(header: String, claims: String, problem: String) throws {
    let installation = try Installation()
    func base64(_ text: String) -> String {
      Data(text.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
        .replacing("=", with: "")
    }
    let signature = base64(String(repeating: "s", count: 64))
    let token =
      claims == "x" ? header : "\(base64(header)).\(base64(claims)).\(signature)"
    let found = try check(installation, token)
    #expect(found.problems.first?.contains(problem) == true, "\(found.problems)")
  }

  @Test("Each failing step of a connection is named, with its exit code")
  func doctor() throws {
    let (here, other) = (try Installation(), try Installation())
    try here.start()
    func doctor(
      _ address: String, _ extra: String...
    ) throws -> (code: Int, checks: [[String: Any]]) {
      let (code, text) = try Programs.attempt(["doctor", address, "--json"] + extra)
      return (code, try text.split(separator: "\n").map { try Programs.json($0) })
    }
    let address = "localhost:\(here.providerPort)"
    let (mine, theirs) = (["--data", here.directory.path], ["--data", other.directory.path])
    let good = try doctor(address, mine[0], mine[1])
    #expect(good.code == 0)
    #expect(
      good.checks.map { $0["check"] as? String } == [
        "name", "connection", "TLS", "certificate", "credential", "request", "pace",
      ])
    #expect(good.checks.allSatisfy { $0["state"] as? String == "ok" })
    // The audit log has one line for it; no counter includes it.
    let audit = try String(
      contentsOf: here.directory.appending(path: "audit.jsonl"), encoding: .utf8)
    let lines = audit.split(separator: "\n").filter { $0.contains("request.refused") }
    #expect(lines.count == 1 && lines[0].contains("testing its credential"))
    let (_, counts) = try Programs.attempt(["log", "--counts", "--by", "reason", "--json"] + mine)
    #expect(counts.isEmpty)

    func last(_ result: (code: Int, checks: [[String: Any]])) -> [String?] {
      ["check", "state"].map { result.checks.last?[$0] as? String }
    }
    let unknown = try doctor("nobody.invalid", mine[0], mine[1])
    #expect(unknown.code == 3 && last(unknown) == ["name", "bad"])
    let closed = try doctor("127.0.0.1:1", mine[0], mine[1])
    #expect(closed.code == 3 && last(closed) == ["connection", "bad"])
    let distrusted = try doctor(address, mine[0], mine[1], "--authority", other.authority)
    #expect(distrusted.code == 3 && last(distrusted) == ["TLS", "bad"])
    #expect((distrusted.checks.last?["text"] as? String)?.contains("\"localhost\"") == true)
    let foreign = try doctor(address, theirs[0], theirs[1], "--authority", here.authority)
    #expect(foreign.code == 1 && last(foreign) == ["request", "bad"])
    #expect((foreign.checks.last?["text"] as? String)?.contains("provider token") == true)
  }
}
