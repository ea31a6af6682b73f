import ApusClient
import ApusModel
import ApusWire
import Foundation
import Testing

@testable import ApusDev

@Suite("Live Activities of virtual devices", .serialized)
struct ActivityTests {
  private static let topic = "com.example.app.push-type.liveactivity"

  private static var now: Int64 { Int64(Date().timeIntervalSince1970) }

  /// A bench whose first device has started an activity.
  private func started(_ more: String = "") async throws -> (Bench, JSONValue) {
    let bench = try Bench()
    try await start(bench, more)
    return (bench, try await activity(bench) { $0["token"]?.string != nil })
  }

  private func start(_ bench: Bench, _ more: String = "", timestamp: Int64? = nil) async throws {
    let token = try bench.token(topic: Self.topic)
    _ = try await send(
      bench, to: token,
      """
      {"aps":{"timestamp":\(timestamp ?? Self.now),"event":"start","content-state":{"score":"0:0"},
      "attributes-type":"Match","attributes":{"home":"Basel"},"alert":{"title":"Kick-off"}\(more)}}
      """)
  }

  /// Sends a push, and waits for what the device does with it.
  private func send(_ bench: Bench, to token: String, _ payload: String) async throws -> JSONValue {
    var push = PushRequest(
      token: token, topic: Self.topic, pushType: .liveactivity, payload: Array(payload.utf8))
    push.priority = .immediate
    let client = try bench.client()
    let outcome = try await client.send(push)
    guard case .accepted(let id, _) = outcome else {
      Issue.record("\(outcome)")
      return .null
    }
    let found = try await bench.wait(#"{"apnsID":"\#(id.text.lowercased())"}"#)
    let number = try #require(found.first?["number"]?.integer)
    return try await bench.poll(number, "the outcome") { $0["activity"] != .null }
  }

  private func update(_ timestamp: Int64, _ more: String = "") -> String {
    #"{"aps":{"timestamp":\#(timestamp),"event":"update","content-state":{"score":"1:0"}\#(more)}}"#
  }

  private func activities(_ bench: Bench) async throws -> [JSONValue] {
    try await bench.ask("GET", "/api/v1/devices/phone/activities").json["activities"]?.array ?? []
  }

  /// Waits until the first activity meets a condition.
  private func activity(_ bench: Bench, until holds: (JSONValue) -> Bool) async throws -> JSONValue
  {
    for _ in 0..<400 {
      if let first = try await activities(bench).first, holds(first) { return first }
      try await Task.sleep(for: .milliseconds(25))
    }
    Issue.record("the activity stayed \(try await activities(bench).first?.text ?? "none")")
    return .null
  }

  @Test("A push-to-start starts an activity, and its own token updates it in place")
  func life() async throws {
    let (bench, first) = try await started(#","relevance-score":5"#)
    defer { bench.stop() }
    let token = try #require(first["token"]?.string)
    #expect(first["state"]?.string == "active")
    #expect(first["attributesType"]?.string == "Match")
    #expect(first["environment"]?.string == "production")
    #expect(first["relevance"]?.integer == 5)
    #expect(token != (try bench.token(topic: Self.topic)) && token.utf8.count == 64)
    let tokens = try await bench.ask("GET", "/api/v1/devices").json["devices"]?.array?.first?[
      "tokens"]
    #expect(tokens?.array?.last?["activity"]?.integer == 1)
    #expect(tokens?.array?.last?["token"]?.string == token)

    let alert = #","alert":{"title":"Goal","body":"1:0"}"#
    let updated = try await send(bench, to: token, update(Self.now + 1, alert))
    #expect(updated["activity"]?["outcome"]?.string == "updated")
    #expect(updated["device"]?.string == "phone")
    let second = try #require(try await activities(bench).first)
    #expect(second["id"] == first["id"])
    #expect(second["contentState"]?["score"]?.string == "1:0")
    #expect(second["history"]?.array?.map { $0["kind"]?.string } == ["started", "updated"])
    // Both alerts were banners, too.
    let shown = try await bench.ask("GET", "/api/v1/devices/phone/shown").json["shown"]?.array
    #expect(shown?.map { $0["rendering"]?["title"]?.string } == ["Goal", "Kick-off"])

    let ended = try await send(
      bench, to: token, #"{"aps":{"timestamp":\#(Self.now + 2),"event":"end"}}"#)
    #expect(ended["activity"]?["outcome"]?.string == "ended")
    let late = try await send(bench, to: token, update(Self.now + 3))
    #expect(late["activity"]?["outcome"]?.string == "dropped")
    #expect(late["activity"]?["reason"]?.string == "the activity has ended")
    #expect(late["shown"] == .null)
  }

  @Test("Dropped pushes say why")
  func dropped() async throws {
    let (bench, activity) = try await started()
    defer { bench.stop() }
    let token = try #require(activity["token"]?.string)
    let startToken = try bench.token(topic: Self.topic)
    for (to, payload, reason) in [
      (startToken, update(Self.now), "push-to-start token"), (token, update(1), "is older than"),
      (token, #"{"aps":{"timestamp":1,"event":"start"}}"#, "aps.attributes-type is missing"),
      (startToken, #"{"aps":{"alert":"Hello"}}"#, "aps.event is missing"),
    ] {
      let push = try await send(bench, to: to, payload)
      #expect(push["activity"]?["outcome"]?.string == "dropped")
      #expect(push["activity"]?["reason"]?.string?.contains(reason) == true, "\(push.text)")
    }
    #expect(try await activities(bench).count == 1)
  }

  @Test("The service's clock makes an activity stale, ends it and takes it off the screen")
  func clock() async throws {
    let (bench, activity) = try await started(#","stale-date":\#(Self.now + 600)"#)
    defer { bench.stop() }
    let token = try #require(activity["token"]?.string)
    for (minutes, state) in [(11, "stale"), (8 * 60, "ended"), (4 * 60, "dismissed")] {
      let advanced = try await bench.ask(
        "PUT", "/api/v1/clock", #"{"advanceMilliseconds":\#(minutes * 60_000)}"#)
      #expect(advanced.status == 200)
      _ = try await self.activity(bench) { $0["state"]?.string == state }
    }
    let past = try await self.activity(bench) { $0["token"] == .null }
    let kinds = past["history"]?.array?.map { $0["kind"]?.string }
    #expect(kinds == ["started", "stale", "ended", "dismissed"])
    // Its token is invalid now.
    let refused = try await bench.ask(
      "POST", "/api/v1/send",
      #"{"token":"\#(token)","topic":"\#(Self.topic)","pushType":"liveactivity","payload":{"aps":{}}}"#
    )
    #expect(refused.json["verdict"]?["status"]?.integer == 410, "\(refused.text)")
  }

  @Test("A short stale date passes without another push")
  func timer() async throws {
    let (bench, _) = try await started(#","stale-date":\#(Self.now + 3)"#)
    defer { bench.stop() }
    let stale = try await activity(bench) { $0["state"]?.string == "stale" }
    #expect(stale["history"]?.array?.last?["kind"]?.string == "stale")
  }

  @Test("Several activities are sorted by relevance, each with its own token")
  func several() async throws {
    let (bench, first) = try await started()
    defer { bench.stop() }
    try await start(bench, #","relevance-score":50"#)
    let second = try await activity(bench) { $0["token"]?.string != nil && $0["id"]?.integer == 2 }
    #expect(second["token"] != first["token"])
    let token = try #require(first["token"]?.string)
    _ = try await send(bench, to: token, update(Self.now + 1, #","relevance-score":100"#))
    #expect(try await activities(bench).map { $0["id"]?.integer } == [1, 2])
    #expect(try await activities(bench).last?["contentState"]?["score"]?.string == "0:0")
  }

  @Test("An offline device gets an update later, and a person dismisses all")
  func offline() async throws {
    let (bench, activity) = try await started()
    defer { bench.stop() }
    let token = try #require(activity["token"]?.string)
    _ = try await bench.ask("PATCH", "/api/v1/devices/phone", #"{"online":false}"#)
    var push = PushRequest(
      token: token, topic: Self.topic, pushType: .liveactivity,
      payload: Array(update(Self.now + 1).utf8))
    push.expirationSeconds = Self.now + 3600
    guard case .accepted = try await bench.client().send(push) else {
      Issue.record("it was not accepted")
      return
    }
    #expect(try await activities(bench).first?["contentState"]?["score"]?.string == "0:0")
    _ = try await bench.ask("PATCH", "/api/v1/devices/phone", #"{"online":true}"#)
    _ = try await self.activity(bench) { $0["contentState"]?["score"]?.string == "1:0" }
    let cleared = try await bench.ask("DELETE", "/api/v1/devices/phone/activities")
    #expect(cleared.status == 200)
    #expect(try await activities(bench).map { $0["state"]?.string } == ["dismissed"])
    let device = try await bench.ask("GET", "/api/v1/devices").json["devices"]?.array?.first
    #expect(device?["activities"]?.integer == 0)
    guard case .rejected(let rejection) = try await bench.client().send(push) else {
      Issue.record("it was not refused")
      return
    }
    #expect(rejection.reason == .unregistered)
  }

  @Test("The composer's update goes to the newest activity that runs, or to a named one")
  func composer() async throws {
    let (bench, first) = try await started()
    defer { bench.stop() }
    for activity in ["", #""activity":1,"#] {
      let answer = try await bench.ask(
        "POST", "/api/v1/send",
        """
        {"device":"phone",\(activity)"topic":"\(Self.topic)","pushType":"liveactivity",
        "payload":{"aps":{"timestamp":\(Self.now + 1),"event":"update","content-state":{}}}}
        """)
      #expect(answer.json["token"] == first["token"], "\(answer.text)")
    }
    let none = try await bench.ask(
      "POST", "/api/v1/send",
      #"{"device":"phone","activity":7,"topic":"\#(Self.topic)","payload":{"aps":{}}}"#)
    #expect(none.status == 409)
    let lost = try await bench.ask(
      "POST", "/api/v1/send", #"{"token":"ab","activity":1,"payload":{}}"#)
    #expect(lost.status == 400)
    #expect(try await bench.ask("GET", "/api/v1/devices/none/activities").status == 404)
    #expect(try await bench.ask("DELETE", "/api/v1/devices/none/activities").status == 404)
  }

  @Test("A removed app has no activities")
  func removed() async throws {
    let (bench, _) = try await started()
    defer { bench.stop() }
    _ = try await bench.ask(
      "PATCH", "/api/v1/devices/phone", #"{"apps":{"\#(Bench.topic)":"removed"}}"#)
    #expect(try await activities(bench).isEmpty)
  }
}

extension JSONValue {
  fileprivate var text: String { String(decoding: bytes, as: UTF8.self) }
}
