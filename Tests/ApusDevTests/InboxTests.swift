import ApusClient
import ApusModel
import ApusWire
import Foundation
import Testing

@testable import ApusDev

@Suite("What the development service reports about pushes", .serialized)
struct InboxTests {
  @Test("A push is captured with its response, its delivery path and what the device shows")
  func capture() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    var push = try bench.push(
      #"{"aps":{"alert":{"title":"Hello","body":"World"},"badge":3,"sound":"default"}}"#)
    push.collapseID = "score"
    guard case .accepted(let id, _) = try await bench.client().send(push) else {
      Issue.record("it was not accepted")
      return
    }
    let found = try #require(try await bench.wait(#"{"title":"Hello"}"#).first)
    #expect(found["apnsID"]?.string?.uppercased() == id.text)
    #expect(found["device"]?.string == "phone")
    #expect(found["topic"]?.string == Bench.topic)
    #expect(found["pushType"]?.string == "alert")
    #expect(found["collapseID"]?.string == "score")
    #expect(found["interface"]?.string == "http2")
    #expect(found["verdict"]?["status"]?.integer == 200)
    #expect(found["verdict"]?["accepted"]?.bool == true)
    #expect(found["payload"]?["aps"]?["badge"]?.integer == 3)
    #expect(found["credential"]?.string?.contains(bench.facts.keyID) == true)
    #expect(found["curl"]?.string?.contains("--data-binary '{\"aps\"") == true)
    let number = try #require(found["number"]?.integer)
    let settled = try await bench.poll(number, "the delivery") { push in
      push["shown"] != .null && push["states"]?.array?.last?["terminal"]?.bool == true
    }
    #expect(settled["shown"]?["title"]?.string == "Hello")
    #expect(settled["shown"]?["badge"]?.integer == 3)
    #expect(settled["shown"]?["silent"]?.bool == false)
    #expect(
      settled["states"]?.array?.compactMap { $0["state"]?.string }
        == ["Received by APNs", "Sent to Device", "Delivered to Device"])
    // The signature of a credential is not shown.
    let authorization = settled["headers"]?.array?.first { $0.array?[0].string == "authorization" }
    #expect(authorization?.array?[1].string?.hasSuffix(".…") == true)
  }

  @Test("A rejection is captured with an explanation")
  func refusal() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let token = String(repeating: "ab", count: 32)
    guard
      case .rejected(let rejection) = try await bench.client().send(
        bench.push(#"{"aps":{"alert":"A"}}"#, to: token))
    else {
      Issue.record("it was not refused")
      return
    }
    #expect(rejection.reason == .badDeviceToken)
    let found = try #require(try await bench.wait(#"{"status":400}"#).first)
    #expect(found["verdict"]?["reason"]?.string == rejection.reason.rawValue)
    #expect(found["verdict"]?["explanation"]?.string?.isEmpty == false)
    #expect(found["device"] == .null)
    #expect(found["states"]?.array?.isEmpty == true)
  }

  @Test("Pushes are listed newest first, in pages, and can be searched")
  func list() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let client = try bench.client()
    for number in 1...5 {
      _ = try await client.send(
        bench.push(#"{"aps":{"alert":{"title":"T\#(number)","body":"Grüße an A\#(number)"}}}"#))
    }
    _ = try await bench.wait("{}", count: 5)
    func titles(_ query: String) async throws -> [String] {
      try await bench.ask("GET", "/api/v1/pushes\(query)").json["pushes"]?.array?.compactMap {
        $0["preview"]?["title"]?.string
      } ?? []
    }
    #expect(try await titles("") == ["T5", "T4", "T3", "T2", "T1"])
    let page = try await bench.ask("GET", "/api/v1/pushes?limit=2").json
    let next = try #require(page["next"]?.integer)
    #expect(try await titles("?limit=2&before=\(next)") == ["T3", "T2"])
    #expect(try await bench.ask("GET", "/api/v1/pushes?limit=5").json["next"] == .null)
    #expect(try await titles("?q=aN%20A4") == ["T4"])
    #expect(try await titles("?q=gr%C3%BC%C3%9Fe&limit=1") == ["T5"])
    #expect(
      try await titles("?verdict=accepted&type=alert&device=phone&topic=\(Bench.topic)").count == 5)
    #expect(try await titles("?verdict=refused").isEmpty)
    #expect(try await titles("?device=tablet").isEmpty)
    #expect(
      try await bench.ask("GET", "/api/v1/pushes?colour=red").json["error"]?["field"]?.string
        == "colour")
    #expect(try await bench.ask("GET", "/api/v1/pushes?limit=0").status == 400)
    #expect(try await bench.ask("DELETE", "/api/v1/pushes").status == 200)
    #expect(try await titles("").isEmpty)
    // Numbers are not reused, so that new pushes are not mistaken for old ones.
    _ = try await client.send(bench.push(#"{"aps":{"alert":"A"}}"#))
    #expect(try await bench.wait("{}").first?["number"]?.integer == 6)
  }

  @Test("Counts and assertions report what was seen; a wait ends at its timeout")
  func assertions() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let client = try bench.client()
    for title in ["A", "B", "A"] {
      _ = try await client.send(bench.push(#"{"aps":{"alert":{"title":"\#(title)"}}}"#))
    }
    let match = #"{"match":{"title":"A"}"#
    #expect(
      try await bench.ask("POST", "/api/v1/pushes/count", match + "}").json["count"]?.integer == 2)
    #expect(
      try await bench.ask("POST", "/api/v1/pushes/count", match + #","after":1}"#).json["count"]?
        .integer
        == 1)
    for (bounds, status) in [
      (#""equal":2"#, 200), (#""equal":1"#, 409), (#""atLeast":3"#, 409), (#""atMost":1"#, 409),
      (#""atLeast":1,"atMost":2"#, 200),
    ] {
      let answer = try await bench.ask("POST", "/api/v1/pushes/assert", "\(match),\(bounds)}")
      #expect(answer.status == status, "\(bounds): \(answer.text)")
      guard status == 409 else { continue }
      #expect(answer.json["count"]?.integer == 2)
      #expect(answer.json["pushes"]?.array?.count == 2)
    }
    #expect(try await bench.ask("POST", "/api/v1/pushes/assert", match + "}").status == 400)
    let late = try await bench.ask(
      "POST", "/api/v1/pushes/wait", match + #","count":3,"timeoutMilliseconds":1}"#)
    #expect(late.status == 408)
    #expect(late.json["seen"]?.integer == 3)
    #expect(late.json["pushes"]?.array?.count == 2)
    #expect(late.json["error"]?["code"]?.string == "timeout")
  }

  @Test("A wait that began before the push ends with it")
  func waiting() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let client = try bench.client()
    let push = try bench.push(#"{"aps":{"alert":{"title":"Late"}}}"#)
    async let sent: Void = {
      try await Task.sleep(for: .milliseconds(50))
      _ = try await client.send(push)
    }()
    #expect(try await bench.wait(#"{"title":"Late"}"#).count == 1)
    try await sent
  }

  @Test("The oldest pushes are dropped at the limit")
  func bounds() async throws {
    let bench = try Bench { $0.keep = 3 }
    defer { bench.stop() }
    let client = try bench.client()
    for number in 1...5 {
      _ = try await client.send(bench.push(#"{"aps":{"alert":{"title":"push-t\#(number)"}}}"#))
    }
    let counts = try await bench.ask("GET", "/api/v1/status").json["counts"]
    #expect(counts?["received"]?.integer == 5)
    #expect(counts?["kept"]?.integer == 3)
    let page = try await bench.ask("GET", "/api/v1/pushes?limit=2&q=push-t5").json
    #expect(page["pushes"]?.array?.count == 1)
    #expect(page["kept"]?.integer == 3)
    #expect(try await bench.ask("GET", "/api/v1/pushes/2").status == 404)
    #expect(try await bench.ask("GET", "/api/v1/pushes/3").status == 200)
  }
}
