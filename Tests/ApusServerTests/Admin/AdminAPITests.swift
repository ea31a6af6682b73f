import ApusCore
import ApusEmbedded
import ApusModel
import ApusTesting
import ApusWeb
import ApusWire
import Foundation
import Testing

@testable import ApusDirectory
@testable import ApusAdmin
@testable import ApusServer

@Suite("Operations of the administration API")
struct AdminAPITests {
  private func document() throws -> JSONValue {
    let bytes = EmbeddedFile.adminAPI.bytes
    return try JSONValue(parsing: bytes.span)
  }

  @Test("The description lists exactly the operations, with path, method and scope")
  func description() throws {
    let paths = try #require(try document()["paths"]?.object)
    var described: Set<String> = []
    for path in paths.members {
      for method in path.value.object?.members ?? [] {
        let scope = method.value["x-apus-scope"]?.string ?? "nobody's"
        described.insert(
          "\(method.key.uppercased()) \(path.key) \(method.value["operationId"]?.string ?? "") \(scope)"
        )
      }
    }
    let routes = AdminOperation.allCases.map { operation in
      let route = operation.route
      return
        "\(route.web.method) \(route.web.path) \(operation.rawValue) \(route.scope?.text ?? "nobody's")"
    }
    #expect(described == Set(routes))
  }

  @Test("The description's references resolve, and its reasons are complete")
  func references() throws {
    let document = try document()
    let text = String(decoding: EmbeddedFile.adminAPI.bytes, as: UTF8.self)
    for match in text.matches(of: /"#\/components\/(\w+)\/(\w+)"/) {
      let (kind, name) = (String(match.1), String(match.2))
      #expect(document["components"]?[kind]?[name] != nil, "\(kind)/\(name)")
    }
    let reasons = document["components"]?["schemas"]?["Problem"]?["properties"]?["reason"]?["enum"]
    #expect(
      Set((reasons?.array ?? []).compactMap(\.string))
        == Set(AdminProblem.Reason.allCases.map(\.rawValue)))
  }

  @Test(
    "Each operation rejects fields that are not in its description",
    arguments: AdminOperation.allCases)
  func unknownMember(operation: AdminOperation) throws {
    guard operation.route.scope != nil else { return }
    let bench = try AdminBench()
    let path = operation.route.web.pattern.map { part in
      switch part {
      case "{topic}": TestDirectory.topic
      case "{key}" where operation == .revokeKey: bench.directory.topicKey.id.text
      case "{device}": "0123456789abcdef"
      case "{channel}": "AAECAwQFBgcICQoLDA0ODw=="
      case "{node}": "a"
      case "{job}": "123e4567-e89b-12d3-a456-426614174000"
      case let part where part.first == "{": String(repeating: "ab", count: 32)
      default: part
      }
    }.joined(separator: "/")
    let before = try String(contentsOfFile: bench.data.directoryFile, encoding: .utf8)
    let required = #""name":"N","topic":"com.example.new","team":"\#(bench.directory.team.text)","#
    let only: String =
      switch operation {
      case .addTeam: #""name":"N","#
      case .addApp: required.replacingOccurrences(of: #""name":"N","#, with: "")
      case .createChannel: #""topic":"com.example.app","#
      case .addKey: #""team":"\#(bench.directory.team.text)","#
      case .rotate: #""what":"sealing-key","#
      case .commandRelay: #""command":"pause","#
      case .addWebhook: #""url":"https://a.example/","#
      case .sendNotification: #""token":"ab","payload":{},"#
      default: ""
      }
    let answer =
      operation.takesBody
      ? try bench.ask(operation.route.web.method, "/" + path, "{\(only)\"surprise\":1}")
      : try bench.ask(operation.route.web.method, "/\(path)?surprise=1")
    #expect(answer.status == 400, "\(answer)")
    #expect(answer.json["detail"]?.string?.contains("\"surprise\" is not a parameter") == true)
    #expect(try String(contentsOfFile: bench.data.directoryFile, encoding: .utf8) == before)
    #expect(try bench.auditLines().isEmpty)
  }

  @Test("Teams, apps and keys are added, listed, revoked and removed, each change with its actor")
  func records() throws {
    let bench = try AdminBench()
    let team = try #require(
      try bench.ask("POST", "/v1/teams", #"{"name":"Kitchen"}"#).json["team"]?.string)
    let app = #"{"topic":"com.example.clock","team":"\#(team)"}"#
    #expect(try bench.ask("POST", "/v1/apps", app).status == 201)
    #expect(try bench.ask("POST", "/v1/apps", app).status == 409)
    let retaining = try bench.ask(
      "POST", "/v1/apps", #"{"topic":"com.example.oven","team":"\#(team)","retain":7}"#)
    #expect(retaining.json["retain"]?.integer == 7)
    #expect(try bench.data.records().sections.contains { $0["retain"] == "7" })
    #expect(try bench.ask("DELETE", "/v1/apps/com.example.oven").status == 200)
    let key = try bench.ask(
      "POST", "/v1/keys",
      #"{"team":"\#(team)","topics":["com.example.clock"],"environments":"production"}"#)
    #expect(key.status == 201)
    #expect(key.json["private_key"]?.string?.hasPrefix("-----BEGIN PRIVATE KEY-----") == true)
    let id = try #require(key.json["key"]?.string)
    let listed = try bench.ask("GET", "/v1/keys")
    #expect(!listed.text.contains("PRIVATE"))
    let mine = listed.json["keys"]?.array?.first { $0["key"]?.string == id }
    #expect(mine?["topics"]?.array == [.string("com.example.clock")])
    // A key refers to it, so it has to stay.
    #expect(try bench.ask("DELETE", "/v1/apps/com.example.clock").status == 409)
    #expect(try bench.ask("POST", "/v1/keys/\(id)/revoke").json["revoked"]?.string == id)
    #expect(try bench.ask("POST", "/v1/keys/\(id)/revoke").status == 409)
    #expect(try bench.ask("POST", "/v1/keys/NOSUCHKEY0/revoke").status == 404)
    #expect(try bench.ask("DELETE", "/v1/apps/com.example.none").status == 404)
    let lines = try bench.auditLines()
    #expect(
      lines.map { $0["event"]?.string } == [
        "team.added", "app.added", "app.added", "app.removed", "key.added", "key.revoked",
      ])
    #expect(
      lines.allSatisfy {
        $0["actor"]?.string == "uid 1000" && $0["from"]?.string == "admin socket"
      })
  }

  @Test(
    "A faulty request gets an exact error",
    arguments: [
      ("GET", "/v1/none", nil, 404, "not-found"),
      ("GET", "/", nil, 404, "not-found"),
      ("GET", "/v1/keys//revoke", nil, 404, "not-found"),
      ("PUT", "/v1/teams", nil, 405, "method-not-allowed"),
      ("POST", "/v1/status", "{}", 405, "method-not-allowed"),
      ("DELETE", "/v1/codes/0123456789", "{}", 400, "malformed"),
      ("POST", "/v1/teams", "", 400, "invalid"),
      ("POST", "/v1/teams", "{", 400, "malformed"),
      ("POST", "/v1/teams", "[]", 400, "malformed"),
      ("POST", "/v1/teams", #"{"name":1}"#, 400, "invalid"),
      ("POST", "/v1/teams", #"{"name":"a\nb"}"#, 400, "invalid"),
      ("POST", "/v1/teams", #"{"name":"a","name":"b"}"#, 400, "invalid"),
      ("POST", "/v1/teams", #"{"name":"a","team":"short"}"#, 400, "invalid"),
      ("POST", "/v1/apps", #"{"topic":"no spaces"}"#, 400, "invalid"),
      ("POST", "/v1/apps", #"{"topic":"com.example.new"}"#, 400, "invalid"),
      ("POST", "/v1/apps", #"{"topic":"com.example.new","retain":101}"#, 400, "invalid"),
      ("POST", "/v1/apps", #"{"topic":"com.example.new","team":"NOSUCHTEAM"}"#, 404, "not-found"),
      ("POST", "/v1/keys", #"{"team":"NOSUCHTEAM"}"#, 404, "not-found"),
      ("POST", "/v1/keys", #"{"environments":"sandbox?"}"#, 400, "invalid"),
      ("POST", "/v1/rotations", #"{"what":"moon"}"#, 400, "invalid"),
      ("POST", "/v1/rotations", #"{"what":"server","finish":true}"#, 400, "invalid"),
      ("POST", "/v1/rotations", #"{"what":"sealing-key","force":true}"#, 400, "invalid"),
      ("POST", "/v1/rotations", #"{"what":"device-authority","finish":true}"#, 409, "conflict"),
      ("POST", "/v1/certificates/abc/revoke", nil, 400, "invalid"),
      ("POST", "/v1/devices/123/retire", nil, 404, "not-found"),
      ("GET", "/v1/devices?tag=a%20b", nil, 400, "invalid"),
      ("PATCH", "/v1/devices/0123456789abcdef", "{}", 400, "invalid"),
      ("PATCH", "/v1/devices/0123456789abcdef", #"{"name":" x"}"#, 400, "invalid"),
      ("PATCH", "/v1/devices/0123456789abcdef", #"{"add_tags":["a b"]}"#, 400, "invalid"),
      ("PATCH", "/v1/devices/0123456789abcdef", #"{"remove_tags":["a=b"]}"#, 400, "invalid"),
      ("PATCH", "/v1/devices/nobody", #"{"name":"x"}"#, 404, "not-found"),
      ("POST", "/v1/ledger/query", #"{"device":"nobody"}"#, 404, "not-found"),
      ("POST", "/v1/enrolments/0123456789/approve", nil, 404, "not-found"),
      ("POST", "/v1/enrolments/x/reject", nil, 400, "invalid"),
      ("POST", "/v1/codes", #"{"hours":0}"#, 400, "invalid"),
      ("POST", "/v1/codes", #"{"uses":101}"#, 400, "invalid"),
      ("DELETE", "/v1/codes/0123456789", nil, 404, "not-found"),
      ("GET", "/v1/audit?limit=0", nil, 400, "invalid"),
      ("GET", "/v1/audit?before=-1", nil, 400, "invalid"),
      ("POST", "/v1/ledger/query", #"{"id":"x"}"#, 400, "invalid"),
      ("POST", "/v1/ledger/query", #"{"topic":"com.example.none"}"#, 404, "not-found"),
      ("POST", "/v1/ledger/query", #"{"states":["Lost"]}"#, 400, "invalid"),
      ("POST", "/v1/ledger/query", #"{"limit":1001}"#, 400, "invalid"),
      // The store of a bench is in memory.
      ("POST", "/v1/store/copy", nil, 503, "unavailable"),
      ("POST", "/v1/webhooks", #"{"url":"http://a.example/"}"#, 400, "invalid"),
      ("POST", "/v1/webhooks", #"{"url":"https://a.example/","name":"a b"}"#, 400, "invalid"),
      ("POST", "/v1/webhooks", #"{"url":"https://a.example/","events":["x"]}"#, 400, "invalid"),
      ("POST", "/v1/webhooks/none/test", nil, 404, "not-found"),
      ("POST", "/v1/webhooks/none/rotate", nil, 404, "not-found"),
      ("DELETE", "/v1/webhooks/none", nil, 404, "not-found"),
      ("DELETE", "/v1/webhooks/a.b", nil, 400, "invalid"),
    ] as [(String, String, String?, Int, String)])
  func mistakes(method: String, path: String, body: String?, status: Int, reason: String) throws {
    let answer = try AdminBench().ask(method, path, body)
    #expect(answer.status == status, "\(answer)")
    #expect(answer.json["reason"]?.string == reason, "\(answer)")
    #expect(answer.json["detail"]?.string?.isEmpty == false)
  }

  @Test("Webhooks are added, rotated and removed; only their secrets' first sight shows them")
  func webhooks() throws {
    let bench = try AdminBench()
    let url = "https://backend.example.com/hook/s3cret?a=1"
    let added = try bench.ask(
      "POST", "/v1/webhooks", #"{"url":"\#(url)","name":"one","events":["token.died"]}"#)
    #expect(added.status == 201)
    let secret = try #require(added.json["secret"]?.string)
    #expect(secret.hasPrefix("apuswh_"))
    #expect(try bench.ask("POST", "/v1/webhooks", #"{"url":"\#(url)","name":"one"}"#).status == 409)
    let listed = try bench.ask("GET", "/v1/webhooks")
    #expect(!listed.text.contains(secret))
    let hook = try #require(listed.json["webhooks"]?.array?.first)
    #expect(hook["url"]?.string == url)
    #expect(hook["events"]?.array == [.string("token.died")])
    #expect(hook["rotating"]?.bool == false)
    let reader = try bench.token("reader", .read)
    let seen = try bench.ask("GET", "/v1/webhooks", token: reader, peer: AdminBench.remotePeer)
    #expect(
      seen.json["webhooks"]?.array?.first?["url"]?.string == "https://backend.example.com")
    let second = try bench.ask("POST", "/v1/webhooks/one/rotate").json["secret"]?.string
    #expect(second?.hasPrefix("apuswh_") == true && second != secret)
    let rotating = try bench.ask("GET", "/v1/webhooks").json["webhooks"]?.array?.first
    #expect(rotating?["rotating"]?.bool == true)
    let finished = try bench.ask("POST", "/v1/webhooks/one/rotate", #"{"finish":true}"#)
    #expect(finished.status == 200 && finished.json["secret"] == nil)
    #expect(try bench.ask("DELETE", "/v1/webhooks/one").json["removed"]?.string == "one")
    #expect(try bench.ask("GET", "/v1/webhooks").json["webhooks"]?.array == [])
    #expect(
      try bench.auditLines().map { $0["event"]?.string } == [
        "webhook.added", "webhook.rotated", "webhook.rotated", "webhook.removed",
      ])
  }

  @Test("A body that is not declared as JSON is rejected, and a 405 lists the allowed methods")
  func contentType() throws {
    let bench = try AdminBench()
    let form = try bench.ask(
      "POST", "/v1/teams", "name=x", contentType: "application/x-www-form-urlencoded")
    #expect(form.status == 415)
    let json = try bench.ask(
      "POST", "/v1/teams", #"{"name":"x"}"#, contentType: "Application/JSON; charset=utf-8")
    #expect(json.status == 201)
    let method = try bench.ask("PUT", "/v1/apps/com.example.app")
    #expect(method.headers == [WebField("Allow", "PATCH, DELETE")])
  }

  @Test("Codes are created, listed without secrets and withdrawn; retired devices stay retired")
  func devices() throws {
    let bench = try AdminBench()
    let made = try bench.ask("POST", "/v1/codes", #"{"name":"kitchen","uses":2,"hours":1}"#)
    let code = try #require(made.json["code"]?.string)
    let hash = try #require(made.json["sha256"]?.string)
    let list = try bench.ask("GET", "/v1/codes")
    #expect(list.text.contains(hash) && !list.text.contains(code))
    #expect(
      try bench.ask("DELETE", "/v1/codes/\(hash.prefix(12))").json["withdrawn"]?.string == hash)
    #expect(try bench.ask("DELETE", "/v1/codes/\(hash.prefix(12))").status == 404)
    #expect(try bench.ask("POST", "/v1/devices/0123456789abcdef/retire").status == 200)
    #expect(try bench.ask("POST", "/v1/devices/0123456789abcdef/retire").status == 409)
    #expect(try !String(contentsOfFile: bench.data.auditFile, encoding: .utf8).contains(code))
  }

  @Test("Certificates are listed with their expiry, revoked once, and counted in the metrics")
  func certificates() throws {
    let bench = try AdminBench()
    let now = TestDirectory.nowSeconds
    bench.api.view.expiries.look(
      at: .init(kind: .provider, name: "com.example.app", notAfter: now + 86_400 * 90),
      nowSeconds: now)
    let list = try #require(try bench.ask("GET", "/v1/certificates").json["certificates"]?.array)
    #expect(
      list.compactMap { $0["kind"]?.string } == [
        "server", "server", "authority", "authority", "provider",
      ])
    let metrics = try bench.ask("GET", "/metrics").text
    #expect(
      metrics.contains(
        "apus_certificate_expiry_seconds{kind=\"provider\",name=\"com.example.app\"} \(now + 86_400 * 90)\n"
      ))
    #expect(
      metrics.contains("apus_certificate_expiry_seconds{kind=\"server\",name=\"localhost\"} "))
    let digest = String(repeating: "0a", count: 32)
    #expect(try bench.ask("POST", "/v1/certificates/\(digest)/revoke").status == 200)
    #expect(try bench.ask("POST", "/v1/certificates/\(digest)/revoke").status == 409)
    #expect(try bench.ask("GET", "/v1/certificates").json["revoked"]?.array == [.string(digest)])
  }

  @Test("Without an open listener the service is not ready, and gives the reason")
  func readiness() throws {
    let bench = try AdminBench()
    let answer = try bench.ask("GET", "/readyz", peer: AdminBench.remotePeer)
    #expect(answer.status == 503 && answer.text == "no listener is open\n")
    #expect(try bench.ask("HEAD", "/healthz", peer: AdminBench.remotePeer).status == 200)
    let status = try bench.ask("GET", "/v1/status").json
    #expect(status["ready"] == .bool(false) && status["version"]?.string == "1.2.3")
  }
}

@Suite("The audit log is read from its end")
struct AuditReaderTests {
  @Test("Pages of any size contain each line once, newest first, whatever its length")
  func pages() throws {
    let bench = try AdminBench()
    var seed = UInt64.random(in: 0 ... .max)
    let first = seed
    var text = ""
    for index in 0..<2000 {
      seed = seed &* 6_364_136_223_846_793_005 &+ 1
      let filler = String(repeating: "x", count: Int(seed >> 33) % (index % 97 == 0 ? 9000 : 200))
      text += #"{"event":"e\#(index % 3)","actor":"uid 1","n":\#(index),"f":"\#(filler)"}"# + "\n"
    }
    // Half a line: it is just being written, or the disk was full.
    text += #"{"event":"e1","n":"#
    try Files.write(text, to: bench.data.auditFile, isPrivate: true)
    let newestFirst: [Int64] = (0..<2000).reversed()
    for limit in [1000, 7, 333] {
      var numbers: [Int64] = []
      var before: Int64?
      repeat {
        let place = before.map { "&before=\($0)" } ?? ""
        let page = try bench.ask("GET", "/v1/audit?limit=\(limit)\(place)").json
        numbers += (page["entries"]?.array ?? []).compactMap { $0["n"]?.integer }
        before = page["next"]?.integer
      } while before != nil
      #expect(numbers == newestFirst, "seed \(first), limit \(limit)")
    }
    let some = try bench.ask("GET", "/v1/audit?limit=1000&event=e2").json["entries"]?.array ?? []
    #expect(some.count == 666 && some.allSatisfy { $0["event"]?.string == "e2" })
  }

  @Test("A missing log has no lines, and reading starts at its end from a position beyond it")
  func absent() throws {
    let bench = try AdminBench()
    #expect(try bench.ask("GET", "/v1/audit").json == .fields(["entries": .array([])]))
    try Files.write("{\"event\":\"a\"}\n", to: bench.data.auditFile, isPrivate: true)
    let page = try bench.ask("GET", "/v1/audit?before=999999").json
    #expect(page["entries"]?.array?.count == 1)
  }
}
