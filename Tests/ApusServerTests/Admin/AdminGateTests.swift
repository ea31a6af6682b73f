import ApusModel
import ApusTesting
import ApusWeb
import ApusWire
import Foundation
import Testing

@testable import ApusDirectory
@testable import ApusAdmin
@testable import ApusServer

@Suite("Access to the administration API")
struct AdminGateTests {
  /// A path of each route, with a value for its variable part, and a body if needed.
  private static func example(_ operation: AdminOperation) -> (path: String, body: String?) {
    let parts = operation.route.web.pattern.map { part in
      switch part {
      case "{sha256}": String(repeating: "ab", count: 32)
      case "{device}": "0123456789abcdef"
      case "{key}": operation == .revokeKey ? "ABCDEFGHIJ" : "0123456789abcdef"
      case "{topic}": "com.example.none"
      default: part
      }
    }
    return ("/" + parts.joined(separator: "/"), operation.takesBody ? "{}" : nil)
  }

  @Test("Each operation requires its scope", arguments: AdminOperation.allCases)
  func scopes(operation: AdminOperation) throws {
    let bench = try AdminBench()
    for scope in [AdminScopes.read, .send, .operate, .trust] {
      try check(operation, scope, bench)
    }
  }

  private func check(
    _ operation: AdminOperation, _ scope: AdminScopes, _ bench: AdminBench
  ) throws {
    let token = try bench.token(scope.text, scope)
    let (path, body) = Self.example(operation)
    let answer = try bench.ask(
      operation.route.web.method, path, body, token: token, peer: AdminBench.remotePeer)
    guard let needed = operation.route.scope else {
      // There is no open listener and no page.
      #expect([200, 503, 404].contains(answer.status))
      return
    }
    let isCovered =
      scope == needed || (needed == .read && (scope == .operate || scope == .trust))
    #expect((answer.status != 403) == isCovered, "\(answer)")
    #expect(answer.status != 401 && answer.status != 405)
    guard !isCovered else { return }
    #expect(answer.json["reason"]?.string == "scope-missing")
    #expect(answer.json["detail"]?.string?.contains("needs \(needed.text)") == true)
    let line = try #require(try bench.auditLines().last)
    #expect(line["event"]?.string == "administrator.refused")
    #expect(line["operation"]?.string == operation.rawValue)
    #expect(line["actor"]?.string == "token \(scope.text) at 192.0.2.1:40000")
  }

  @Test("A peer on the socket may do everything, unless the peer is unknown")
  func socket() throws {
    let bench = try AdminBench()
    #expect(try bench.ask("GET", "/v1/status").status == 200)
    let nobody = WebPeer.local(user: .max, process: 0)
    #expect(try bench.ask("GET", "/v1/status", peer: nobody).status == 401)
  }

  @Test("Without a token there is a challenge, and no attempt is counted")
  func noToken() throws {
    let bench = try AdminBench()
    for _ in 0..<20 {
      let answer = try bench.ask("GET", "/v1/status", peer: AdminBench.remotePeer)
      #expect(answer.status == 401 && answer.holdMilliseconds == 0)
      #expect(answer.headers.contains(WebField("WWW-Authenticate", "Bearer realm=\"apus\"")))
    }
    #expect(try bench.auditLines().isEmpty)
  }

  @Test("Wrong tokens are answered with growing delay, then rejected; a valid one is accepted")
  func bruteForce() throws {
    let bench = try AdminBench()
    let token = try bench.token("t", .read)
    var holds: [Int64] = []
    for _ in 1..<Limits.failuresUntilRefused {
      let answer = try bench.ask(
        "GET", "/v1/status", token: "apus_wrong", peer: AdminBench.remotePeer)
      #expect(answer.status == 401)
      holds.append(answer.holdMilliseconds)
    }
    #expect(holds == [0, 0, 0, 100, 200, 400, 800, 1600, 3200])
    let last = try bench.ask("GET", "/v1/status", token: "apus_wrong", peer: AdminBench.remotePeer)
    #expect(last.status == 429)
    #expect(last.headers.contains(WebField("Retry-After", "30")))
    // A valid token from the same address does not clear the failures of others.
    let right = try bench.ask("GET", "/v1/status", token: token, peer: AdminBench.remotePeer)
    #expect(right.status == 200 && right.holdMilliseconds == 0)
    let wrong = try bench.ask("GET", "/v1/status", token: "apus_wrong", peer: AdminBench.remotePeer)
    #expect(wrong.status == 429 && wrong.json["reason"]?.string == "too-many-attempts")
    let elsewhere = WebPeer.address([192, 0, 2, 2], port: 1)
    #expect(try bench.ask("GET", "/v1/status", token: token, peer: elsewhere).status == 200)
    let lines = try bench.auditLines()
    #expect(lines.count == Limits.failuresUntilRefused + 1)
    #expect(lines.allSatisfy { $0["event"]?.string == "administrator.refused" })
  }

  @Test(
    "An authorization field other than Bearer with one token is rejected",
    arguments: ["", "Bearer", "Basic YTpi", "Bearer a b", "Bearer  ", "apus_x"])
  func badField(field: String) throws {
    let bench = try AdminBench()
    var request = WebRequest(
      method: "GET", segments: ["v1", "status"], headers: [WebField("authorization", field)],
      peer: AdminBench.remotePeer)
    #expect(bench.api.screen(&request)?.status == 401)
  }

  @Test(
    "The status lists the caller's permissions",
    arguments: [
      (.read, ["read"]), ([.operate, .send], ["read", "send", "operate"]),
      (.all, ["read", "send", "operate", "trust"]),
    ] as [(AdminScopes, [String])])
  func scopes(scopes: AdminScopes, names: [String]) throws {
    let bench = try AdminBench()
    let token = try bench.token("t", scopes)
    let answer = try bench.ask("GET", "/v1/status", token: token, peer: AdminBench.remotePeer)
    #expect(answer.json["scopes"]?.array?.compactMap(\.string) == names)
  }

  @Test("Two authorization fields are rejected, even with a valid token")
  func twoFields() throws {
    let bench = try AdminBench()
    let field = WebField("authorization", "bearer \(try bench.token("t", .all))")
    var request = WebRequest(
      method: "GET", segments: ["v1", "status"], headers: [field], peer: AdminBench.remotePeer)
    #expect(bench.api.screen(&request) == nil)
    request.headers = [field, field]
    #expect(bench.api.screen(&request)?.status == 401)
  }
}

@Suite("Administration tokens")
struct AdminTokenTests {
  @Test(
    "A token is 256 random bits after a prefix, stored only as its SHA-256, for the owner only")
  func made() throws {
    let bench = try AdminBench()
    let secret = try bench.token("kim", [.operate, .trust])
    #expect(secret.hasPrefix("apus_") && secret.utf8.count == 5 + 43)
    #expect(try bench.token("lee", .read) != secret)
    let file = bench.data.adminTokenFile
    let text = try String(contentsOfFile: file, encoding: .utf8)
    #expect(!text.contains(secret.dropFirst(5)))
    #expect(text.contains("[token kim]") && text.contains("scopes = operate,trust"))
    let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions]
    #expect(mode as? Int == 0o600)
  }

  @Test("A token is valid from its creation to its removal or expiry, without a restart")
  func life() throws {
    let bench = try AdminBench()
    let peer = AdminBench.remotePeer
    let secret = try bench.token("kim", .read)
    let other = try bench.token("lee", .read)
    #expect(try bench.ask("GET", "/v1/status", token: secret, peer: peer).status == 200)
    try bench.data.removeAdminToken(name: "kim")
    #expect(try bench.ask("GET", "/v1/status", token: secret, peer: peer).status == 401)
    #expect(try bench.ask("GET", "/v1/status", token: other, peer: peer).status == 200)
    let tokens = try bench.data.adminTokens()
    let now = TestDirectory.nowSeconds
    let short = try bench.data.addAdminToken(
      name: "short", scopes: .read, nowSeconds: now, expiresSeconds: now + 10)
    #expect(tokens.token(of: short, nowSeconds: now) == nil)
    let renewed = try bench.data.adminTokens()
    #expect(renewed.token(of: short, nowSeconds: now + 9)?.name == "short")
    #expect(renewed.token(of: short, nowSeconds: now + 10) == nil)
  }

  @Test("With an unreadable file nobody has access")
  func broken() throws {
    let bench = try AdminBench()
    let secret = try bench.token("kim", .read)
    let file = bench.data.adminTokenFile
    let good = try String(contentsOfFile: file, encoding: .utf8)
    try Files.write(good + "\n[token x]\nscopes = everything\n", to: file, isPrivate: true)
    let answer = try bench.ask("GET", "/v1/status", token: secret, peer: AdminBench.remotePeer)
    #expect(answer.status == 401)
    #expect(throws: DirectoryProblem.self) { try bench.token("lee", .read) }
    try Files.write(good, to: file, isPrivate: true)
    let again = try bench.ask("GET", "/v1/status", token: secret, peer: AdminBench.remotePeer)
    #expect(again.status == 200)
  }

  @Test("A duplicate name, or an invalid section name, is rejected")
  func names() throws {
    let bench = try AdminBench()
    _ = try bench.token("kim", .read)
    for name in ["kim", "", "a b", "a]b", "ü", String(repeating: "a", count: 65)] {
      #expect(throws: DirectoryProblem.self, "\(name)") { try bench.token(name, .read) }
    }
    #expect(throws: DirectoryProblem.self) { try bench.data.removeAdminToken(name: "lee") }
  }
}
