import ApusAdmin
import ApusDevice
import ApusDirectory
import ApusLoop
import ApusModel
import ApusTesting
import ApusWire
import Foundation
import Testing

@testable import ApusServer

@Suite("The service's console", .serialized, .timeLimit(.minutes(30)))
struct ConsoleTests {
  @Test("The page needs no token and has strict headers; everything else needs a token")
  func page() throws {
    let bench = try ConsoleBench()
    let admin = "https://localhost:\(bench.service.service.adminAddresses[0].port)/"
    for base in [bench.plain, bench.secure, admin] {
      let page = try bench.ask("GET", "/", at: base)
      #expect(page.status == 200 && page.text == "<p>", "\(base)")
      for field in [
        "content-security-policy: default-src 'self'", "x-frame-options: deny",
        "x-content-type-options: nosniff", "referrer-policy: no-referrer",
        "content-type: text/html; charset=utf-8",
      ] {
        #expect(page.head.contains(field), "\(base), \(field)")
      }
      let script = try bench.ask("GET", "/assets/app.js", at: base)
      #expect(script.status == 200 && script.text == ConsoleBench.script)
      #expect(try bench.ask("GET", "/assets/..", at: base).status == 404)
      #expect(try bench.ask("GET", "/assets/none.js", at: base).status == 404)
      let console = try bench.ask("GET", "/v1/console", at: base).json
      #expect(console == .fields(["kind": .string("service"), "version": .string("1.2.3")]))
      for path in ["/v1/overview", "/v1/status", "/metrics", "/v1/devices"] {
        #expect(try bench.ask("GET", path, at: base).status == 401, "\(base) \(path)")
      }
    }
    #expect(bench.plain.hasPrefix("http://127.0.0.1:"))
    #expect(bench.secure.hasPrefix("https://"))
  }

  @Test("Without page files the console's address answers 404")
  func noPage() throws {
    let bench = try AdminBench()
    let answer = try bench.ask("GET", "/", peer: AdminBench.remotePeer)
    #expect(answer.status == 404 && answer.json["reason"]?.string == "not-found")
  }

  @Test("The plain HTTP listener answers only pages of this machine, whatever their token")
  func otherSites() throws {
    let bench = try ConsoleBench()
    let token = try bench.token(.all)
    for (method, path, header) in [
      ("GET", "/v1/overview", "host: evil.example"), ("GET", "/", "host: evil.example"),
      ("POST", "/v1/teams", "origin: http://evil.example"), ("POST", "/v1/teams", "origin: null"),
    ] {
      let body = method == "POST" ? #"{"name":"x"}"# : nil
      let answer = try bench.ask(method, path, body, token: token, headers: [header])
      #expect(answer.status == 403, "\(header)")
      #expect(answer.json["reason"]?.string == "forbidden")
    }
    let origin = "origin: \(bench.plain.dropLast())"
    let own = try bench.ask(
      "POST", "/v1/teams", #"{"name":"x"}"#, token: token, headers: [origin])
    #expect(own.status == 201, "\(own)")
  }

  @Test(
    "On the TLS listener each operation requires its scope",
    arguments: [
      ("GET", "/v1/overview", nil, AdminScopes.read, 200),
      ("GET", "/v1/history", nil, .read, 200), ("GET", "/v1/devices", nil, .read, 200),
      ("GET", "/v1/devices/0123456789abcdef", nil, .read, 404),
      ("POST", "/v1/notifications", #"{"token":"ab","payload":{}}"#, .send, 200),
    ] as [(String, String, String?, AdminScopes, Int)])
  func scopes(method: String, path: String, body: String?, scope: AdminScopes, status: Int) throws {
    let bench = try ConsoleBench()
    #expect(try bench.ask(method, path, body).status == 401)
    #expect(try bench.ask(method, path, body, token: "apus_wrong").status == 401)
    let weak = try bench.token(scope == .send ? [.read, .operate, .trust] : .send)
    #expect(try bench.ask(method, path, body, token: weak).status == 403)
    let right = try bench.ask(method, path, body, token: bench.token(scope))
    #expect(right.status == status, "\(right)")
  }

  @Test("A test push arrives like a provider's, and the overview and audit log show it")
  func testPush() async throws {
    let bench = try ConsoleBench()
    let (device, token) = try await bench.device()
    let (send, read) = (try bench.token(.send), try bench.token(.read))
    let answer = try bench.ask(
      "POST", "/v1/notifications",
      #"{"token":"\#(token.hex)","topic":"\#(TestDirectory.topic)","push_type":"alert","priority":10,"#
        + #""collapse_id":"score","payload":{"aps":{"alert":"Hi <b>"}}}"#, token: send)
    #expect(answer.json["status"]?.integer == 200, "\(answer)")
    #expect(answer.json["reason"] == nil && answer.json["explanation"] == nil)
    var notifications = device.notifications.makeAsyncIterator()
    let notification = try #require(await notifications.next())
    #expect(notification.payload == Array(#"{"aps":{"alert":"Hi <b>"}}"#.utf8))
    #expect(notification.apnsID?.text == answer.json["apns_id"]?.string)
    #expect(notification.collapseID == "score" && notification.pushType == .alert)

    let unique = try #require(answer.json["apns_unique_id"]?.string)
    var (lines, position): ([JSONValue], String?) = ([], nil)
    // The ledger's lines are at most a second late.
    for _ in 0..<400 where !lines.contains(where: { $0["state"]?.string == "Delivered to Device" })
    {
      try await Task.sleep(for: .milliseconds(50))
      let found = try bench.ask(
        "POST", "/v1/ledger/query", #"{"unique_id":"\#(unique)"}"#, token: read
      ).json
      (lines, position) = (found["lines"]?.array ?? [], found["position"]?.string)
    }
    let after = #"{"unique_id":"\#(unique)","after":"\#(try #require(position))"}"#
    let rest = try bench.ask("POST", "/v1/ledger/query", after, token: read).json
    #expect(rest["lines"]?.array == [] && rest["position"]?.string?.isEmpty == false)
    let wrong = try bench.ask("POST", "/v1/ledger/query", #"{"after":"1-2"}"#, token: read)
    #expect(wrong.status == 400)
    #expect(lines.first?["state"]?.string == "Received by APNs")
    #expect(lines.last?["state"]?.string == "Delivered to Device", "\(lines)")

    let overview = try bench.ask("GET", "/v1/overview", token: read).json
    #expect(overview["devices"]?["connected"]?.integer == 1)
    #expect(overview["devices"]?["by_environment"]?["production"]?.integer == 1)
    #expect(overview["devices"]?["by_power"]?["active"]?.integer == 1)
    #expect(overview["totals"]?["accepted"]?.integer == 1)
    #expect(overview["totals"]?["delivered"]?.integer == 1)
    #expect(overview["in_flight"]?.integer == 0)
    #expect(overview["latencies"]?["delivery"]?["count"]?.integer == 1)
    #expect((overview["memory_bytes"]?.integer ?? 0) > 1_000_000)
    let certificates = overview["certificates"]?.array ?? []
    #expect(certificates.contains { $0["kind"]?.string == "server" && $0["sha256"] != nil })

    let list = try bench.ask("GET", "/v1/devices?query=example.app", token: read).json
    let found = try #require(list["devices"]?.array?.first)
    #expect(found["connected"] == .bool(true) && list["next"] == nil)
    let whole = try bench.ask(
      "GET", "/v1/devices/\(try #require(found["device"]?.string))", token: read
    ).json
    let environment = try #require(whole["environments"]?.array?.first)
    #expect(environment["power"]?.string == "active")
    #expect(environment["address"]?.string?.hasPrefix("127.0.0.1:") == true)
    let topic = try #require(environment["topics"]?.array?.first)
    #expect(topic["topic"]?.string == TestDirectory.topic && topic["list"]?.string == "enabled")
    await device.stop()

    let audit = try String(contentsOfFile: bench.service.directory.data.auditFile, encoding: .utf8)
    let sent = audit.split(separator: "\n").filter { $0.contains("notification.sent") }
    #expect(sent.count == 1 && sent[0].contains(#""subject":"com.example.app""#))
    #expect(sent[0].contains(#""actor":"token t2-"#) && !sent[0].contains(token.hex.prefix(16)))
  }

  @Test("A notification for an offline device is stored, shown, and counted on delivery")
  func stored() async throws {
    let bench = try ConsoleBench()
    let (device, token) = try await bench.device()
    await device.stop()
    let (send, read) = (try bench.token(.send), try bench.token(.read))
    let push = #"{"token":"\#(token.hex)","topic":"com.example.app","payload":{"aps":{}}}"#
    var answer = JSONValue.null
    for _ in 0..<400 {
      answer = try bench.ask("POST", "/v1/notifications", push, token: send).json
      let devices = try bench.ask("GET", "/v1/devices", token: read).json["devices"]?.array
      if devices?.first?["connected"] == .bool(false),
        devices?.first?["stored_notifications"]?.integer == 1
      {
        break
      }
      try await Task.sleep(for: .milliseconds(50))
    }
    #expect(answer["status"]?.integer == 200, "\(answer)")
    let found = try #require(
      try bench.ask("GET", "/v1/devices", token: read).json["devices"]?.array?.first)
    #expect(found["connected"] == .bool(false) && found["last_seen"] != nil)
    #expect(found["stored_notifications"]?.integer == 1)
    let overview = try bench.ask("GET", "/v1/overview", token: read).json
    #expect(overview["stored_notifications"]?.integer == 1)
    #expect(overview["devices"]?["connected"]?.integer == 0)
    #expect((overview["totals"]?["stored"]?.integer ?? 0) >= 1)
  }

  @Test(
    "A faulty test push gets a provider's answer, with a readable reason",
    arguments: [
      (#"{"token":"ab","topic":"com.example.app","payload":{"aps":{}}}"#, 400, "BadDeviceToken"),
      (#"{"token":"ab","payload":{"aps":{}}}"#, 400, "MissingTopic"),
      (#"{"token":"ab","topic":"com.example.app","payload":{}}"#, 400, "BadRequestPayload"),
      (#"{"token":"ab","topic":"com.example.app","payload_text":""}"#, 400, "PayloadEmpty"),
      (
        #"{"token":"ab","topic":"com.example.app","push_type":"none","payload":{"aps":{}}}"#, 400,
        "InvalidPushType"
      ),
      (
        #"{"token":"ab","topic":"com.example.app","priority":3,"payload":{"aps":{}}}"#, 400,
        "BadPriority"
      ),
      (
        #"{"token":"ab","topic":"com.example.app","id":"x","payload":{"aps":{}}}"#, 400,
        "BadMessageId"
      ),
    ])
  func refused(body: String, status: Int, reason: String) throws {
    let bench = try ConsoleBench()
    let answer = try bench.ask("POST", "/v1/notifications", body, token: bench.token(.send))
    #expect(answer.status == 200)
    #expect(answer.json["status"]?.integer == Int64(status), "\(answer)")
    #expect(answer.json["reason"]?.string == reason)
    #expect(answer.json["explanation"]?.string?.isEmpty == false)
    #expect(answer.json["apns_id"]?.string?.isUUID == true)
    #expect(answer.json["apns_unique_id"] == nil)
    let counters = try bench.ask("GET", "/v1/counters", token: bench.token(.read)).json
    #expect(counters["refused"]?.array?.first?["reason"]?.string == reason)
  }

  @Test("Too many test pushes are rejected")
  func tooMany() throws {
    let bench = try AdminBench()
    let push = #"{"token":"ab","payload":{}}"#
    for _ in 0..<Limits.testPushesAtOnce {
      #expect(try bench.ask("POST", "/v1/notifications", push).status == 200)
    }
    var last = try bench.ask("POST", "/v1/notifications", push)
    // One more is allowed with each second.
    for _ in 0..<100 where last.status != 429 {
      last = try bench.ask("POST", "/v1/notifications", push)
    }
    #expect(last.status == 429 && last.json["reason"]?.string == "too-many-requests")
  }

  @Test("Devices are listed page by page, each once, and a query finds ids and topics")
  func pages() throws {
    let bench = try ConsoleBench()
    var devices: [ConnectedDevice] = []
    for _ in 0..<7 {
      let device = try bench.service.connect()
      try device.enable(TestDirectory.topic)
      _ = try device.token()
      devices.append(device)
    }
    let read = try bench.token(.read)
    var ids: [String] = []
    var after = ""
    repeat {
      let page = try bench.ask("GET", "/v1/devices?limit=3\(after)", token: read).json
      let found = (page["devices"]?.array ?? []).compactMap { $0["device"]?.string }
      #expect(found.count <= 3)
      ids += found
      after = page["next"]?.string.map { "&after=\($0)" } ?? ""
    } while !after.isEmpty
    #expect(ids.count == 7 && ids == ids.sorted() && Set(ids).count == 7)
    func find(_ query: String) throws -> [String] {
      (try bench.ask("GET", "/v1/devices?query=\(query)", token: read).json["devices"]?.array ?? [])
        .compactMap { $0["device"]?.string }
    }
    #expect(try find(String(ids[3].uppercased().prefix(12))) == [ids[3]])
    #expect(try find("EXAMPLE.APP") == ids)
    #expect(try find("com.example.nobody").isEmpty)
    withExtendedLifetime(devices) {}
  }
}
