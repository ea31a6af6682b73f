import ApusClient
import ApusModel
import ApusWire
import Foundation
import Testing

@testable import ApusDev

@Suite("Virtual devices", .serialized)
struct DeviceTests {
  private func shown(_ bench: Bench, _ device: String = "phone") async throws -> [JSONValue] {
    try await bench.ask("GET", "/api/v1/devices/\(device)/shown").json["shown"]?.array ?? []
  }

  /// Waits until the device shows that many notifications.
  private func shown(_ bench: Bench, count: Int) async throws -> [JSONValue] {
    for _ in 0..<400 {
      let list = try await shown(bench)
      if list.count >= count { return list }
      try await Task.sleep(for: .milliseconds(25))
    }
    Issue.record("\(count) notifications did not arrive")
    return try await shown(bench)
  }

  private func patch(_ bench: Bench, _ body: String) async throws -> JSONValue {
    let answer = try await bench.ask("PATCH", "/api/v1/devices/phone", body)
    try #require(answer.status == 200, "\(answer.text)")
    return answer.json
  }

  @Test("An offline device later gets stored pushes, rendered in its language")
  func offline() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let client = try bench.client()
    for (language, text) in [("en", "%1$@ plays %2$@"), ("de", "%2$@ wird von %1$@ gespielt")] {
      let answer = try await bench.ask(
        "PUT", "/api/v1/strings/\(Bench.topic)/\(language)", "\"PLAY\" = \"\(text)\";",
        contentType: "text/plain")
      #expect(answer.json["count"]?.integer == 1, "\(answer.text)")
    }
    #expect(try await patch(bench, #"{"online":false}"#)["connected"]?["production"]?.bool == false)
    var push = try bench.push(
      #"{"aps":{"alert":{"loc-key":"PLAY","loc-args":["Ann","Chess"]}}}"#)
    push.expirationSeconds = Int64(Date().timeIntervalSince1970) + 3600
    guard case .accepted = try await client.send(push) else {
      Issue.record("it was not accepted")
      return
    }
    #expect(try await shown(bench).isEmpty)
    let device = try await patch(bench, #"{"online":true,"language":"de"}"#)
    #expect(device["connected"]?["production"]?.bool == true)
    let german = try await shown(bench, count: 1)
    #expect(german.first?["rendering"]?["body"]?.string == "Chess wird von Ann gespielt")
    #expect(german.first?["fromStorage"]?.bool == true)
    _ = try await patch(bench, #"{"language":"fr"}"#)
    _ = try await client.send(push)
    let both = try await shown(bench, count: 2)
    #expect(both.first?["rendering"]?["body"]?.string == "Ann plays Chess")
    #expect(both.first?["rendering"]?["language"]?.string == "fr")
  }

  @Test("A removed app's token is invalid, and a reinstalled app gets a new one")
  func apps() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let client = try bench.client()
    let token = try bench.token()
    _ = try await patch(bench, #"{"apps":{"\#(Bench.topic)":"removed"}}"#)
    guard
      case .rejected(let rejection) = try await client.send(
        bench.push(#"{"aps":{"alert":"A"}}"#, to: token))
    else {
      Issue.record("it was not refused")
      return
    }
    #expect(rejection.reason == .unregistered)
    _ = try await patch(bench, #"{"apps":{"\#(Bench.topic)":"installed"}}"#)
    guard case .accepted = try await client.send(bench.push(#"{"aps":{"alert":"A"}}"#)) else {
      Issue.record("it was not accepted")
      return
    }
    #expect(try await shown(bench, count: 1).count == 1)
  }

  @Test("A device with notifications disabled shows none")
  func disabled() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let client = try bench.client()
    _ = try await patch(bench, #"{"notifications":false}"#)
    _ = try await client.send(bench.push(#"{"aps":{"alert":"No"}}"#))
    _ = try await patch(bench, #"{"notifications":true}"#)
    _ = try await client.send(bench.push(#"{"aps":{"alert":"Yes"}}"#))
    let list = try await shown(bench, count: 1)
    #expect(list.map { $0["rendering"]?["body"]?.string } == ["Yes"])
  }

  @Test("The composer sends through the provider listener, to a device or a token")
  func composer() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let answer = try await bench.ask(
      "POST", "/api/v1/send",
      #"""
      {"device":"phone","topic":"com.example.app.push-type.liveactivity","pushType":"liveactivity",
       "payload":{"aps":{"timestamp":1,"event":"start","content-state":{"score":"2:1"},
       "attributes-type":"Match","attributes":{},"alert":{"title":"Goal"}}}}
      """#)
    #expect(answer.json["verdict"]?["accepted"]?.bool == true, "\(answer.text)")
    let rendering = try await shown(bench, count: 1).first?["rendering"]
    #expect(rendering?["liveActivity"]?["event"]?.string == "start")
    #expect(rendering?["liveActivity"]?["state"]?["score"]?.string == "2:1")
    #expect(rendering?["silent"]?.bool == false)
    let id = try #require(answer.json["apnsID"]?.string)
    #expect(try await bench.wait(#"{"apnsID":"\#(id)"}"#).first?["apnsID"]?.string == id)
    #expect(try await shown(bench, count: 1).first?["apnsID"]?.string == id)
    let refused = try await bench.ask(
      "POST", "/api/v1/send",
      #"{"token":"\#(try bench.token())","topic":"com.example.none","payload":"{\"aps\":{}}"}"#)
    #expect(refused.json["verdict"]?["accepted"]?.bool == false)
    #expect(refused.json["verdict"]?["status"]?.integer == 400)
  }

  @Test("What a device shows has the time of the service's clock, as in the inbox")
  func time() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    _ = try await bench.ask("PUT", "/api/v1/clock", #"{"advanceMilliseconds":7200000}"#)
    let answer = try await bench.ask(
      "POST", "/api/v1/send", #"{"device":"phone","payload":{"aps":{"alert":"Later"}}}"#)
    let id = try #require(answer.json["apnsID"]?.string)
    let push = try #require(try await bench.wait(#"{"apnsID":"\#(id)"}"#).first)
    let received = try #require(push["receivedMilliseconds"]?.integer)
    let entry = try #require(try await shown(bench, count: 1).first)
    let at = try #require(entry["atMilliseconds"]?.integer)
    #expect(abs(at - received) < 600_000, "\(at) and \(received)")
  }

  @Test("The composer's response has the violations of an accepted push")
  func violations() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let right = try await bench.ask(
      "POST", "/api/v1/send", #"{"device":"phone","payload":{"aps":{"badge":1}}}"#)
    #expect(right.json["violations"]?.array?.isEmpty == true, "\(right.text)")
    let odd = try await bench.ask(
      "POST", "/api/v1/send", #"{"device":"phone","payload":{"aps":{"badge":"1"}}}"#)
    #expect(odd.json["verdict"]?["accepted"]?.bool == true, "\(odd.text)")
    #expect(odd.json["violations"]?.array?.first?["message"]?.string != nil, "\(odd.text)")
  }

  @Test("Devices are made and removed")
  func lifecycle() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let made = try await bench.ask("POST", "/api/v1/devices", #"{"id":"watch","language":"pt-BR"}"#)
    #expect(made.status == 201)
    #expect(made.json["tokens"]?.array?.count == 18)
    #expect(made.json["language"]?.string == "pt-BR")
    let sent = try await bench.ask(
      "POST", "/api/v1/send", #"{"device":"watch","payload":{"aps":{"badge":7}}}"#)
    #expect(sent.json["verdict"]?["accepted"]?.bool == true)
    #expect(try await bench.ask("DELETE", "/api/v1/devices/watch").status == 200)
    #expect(try await bench.ask("GET", "/api/v1/devices/watch/shown").status == 404)
    let ids = try await bench.ask("GET", "/api/v1/devices").json["devices"]?.array?.compactMap {
      $0["id"]?.string
    }
    #expect(ids == ["phone", "tablet"])
  }
}
