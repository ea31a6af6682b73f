import ApusClient
import ApusModel
import ApusTesting
import ApusTrust
import ApusWire
import Foundation
import Testing

@testable import ApusDev

@Suite("Channels of the development service", .serialized)
struct ChannelTests {
  private static let topic = "com.example.app.push-type.liveactivity"

  private static var now: Int64 { Int64(Date().timeIntervalSince1970) }

  private static func update(_ timestamp: Int64, _ score: String) -> String {
    """
    {"aps":{"timestamp":\(timestamp),"event":"update","content-state":{"score":"\(score)"}}}
    """
  }

  private func channel(_ bench: Bench, _ more: String = "{}") async throws -> String {
    let answer = try await bench.ask("POST", "/api/v1/channels", more)
    #expect(answer.status == 201, "\(answer.text)")
    return try #require(answer.json["channel"]?.string)
  }

  /// Waits until the device has these subscriptions.
  private func subscribed(
    _ bench: Bench, on device: String = "phone", _ channels: [String]
  ) async throws {
    for _ in 0..<400 {
      let all = try await bench.ask("GET", "/api/v1/devices").json["devices"]?.array ?? []
      let found = all.first { $0["id"]?.string == device }?["channels"]?.array ?? []
      if found.map({ $0["channel"]?.string }) == channels,
        found.allSatisfy({ $0["subscribed"]?.bool == true })
      {
        return
      }
      try await Task.sleep(for: .milliseconds(25))
    }
    Issue.record("\(device) is not subscribed to \(channels)")
  }

  private func activity(_ bench: Bench, _ device: String = "phone") async throws -> JSONValue? {
    try await bench.ask("GET", "/api/v1/devices/\(device)/activities").json["activities"]?.array?
      .first
  }

  private func broadcast(
    _ bench: Bench, on channel: String, _ payload: String, expirationSeconds: Int64 = 0
  ) async throws -> SendOutcome {
    try await bench.client().send(
      PushRequest(
        channel: try #require(BroadcastChannel.ID(channel)), app: Bench.topic,
        payload: Array(payload.utf8), expirationSeconds: expirationSeconds))
  }

  @Test("A Live Activity that a push starts on a channel is updated by a broadcast")
  func life() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let channel = try await channel(bench)
    let start = PushRequest(
      token: try bench.token(topic: Self.topic), topic: Self.topic, pushType: .liveactivity,
      payload: Array(
        """
        {"aps":{"timestamp":\(Self.now),"event":"start","content-state":{"score":"0:0"},
        "attributes-type":"Match","attributes":{},"alert":{"title":"Kick-off"},
        "input-push-channel":"\(channel)"}}
        """.utf8))
    guard case .accepted = try await bench.client().send(start) else {
      Issue.record("the start was not accepted")
      return
    }
    try await subscribed(bench, [channel])
    let outcome = try await broadcast(bench, on: channel, Self.update(Self.now + 1, "1:0"))
    guard case .accepted(let id, let unique) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    let found = try #require(
      try await bench.wait(#"{"channel":"\#(channel)","pushType":"liveactivity"}"#).first)
    #expect(found["apnsID"]?.string == id.text.lowercased())
    #expect(found["uniqueID"]?.string == unique)
    #expect(found["topic"]?.string == Self.topic)
    #expect(found["token"]?.string == "" && found["device"] == .null)
    #expect(found["path"]?.string == "/4/broadcasts/apps/com.example.app")
    #expect(found["violations"]?.array == [])
    #expect(found["curl"]?.string?.contains("apns-channel-id: \(channel)") == true)
    let number = try #require(found["number"]?.integer)
    let received = try await bench.poll(number, "the recipient") {
      $0["recipients"]?.array?.isEmpty == false
    }
    let recipient = try #require(received["recipients"]?.array?.first)
    #expect(received["recipients"]?.array?.count == 1)
    #expect(recipient["device"]?.string == "phone")
    #expect(recipient["fromStorage"]?.bool == false)
    #expect(recipient["activity"]?["outcome"]?.string == "updated")
    #expect(try await activity(bench)?["contentState"]?["score"]?.string == "1:0")
    #expect(try await activity(bench)?["channel"]?.string == channel)
    let byDevice = try await bench.ask("GET", "/api/v1/pushes?device=phone").json["pushes"]?.array
    #expect(byDevice?.first?["number"]?.integer == number)
    let listed = try await bench.ask("GET", "/api/v1/channels").json["channels"]?.array?.first
    #expect(listed?["published"]?.integer == 1 && listed?["subscriptions"]?.integer == 1)

    // An ended activity needs no more broadcasts.
    _ = try await broadcast(
      bench, on: channel, #"{"aps":{"timestamp":\#(Self.now + 2),"event":"end"}}"#)
    try await subscribed(bench, [])
    #expect(try await activity(bench)?["state"]?.string == "ended")
  }

  @Test("A broadcast waits for a device that is offline")
  func offline() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let channel = try await channel(bench)
    for device in ["phone", "tablet"] {
      let started = try await bench.ask(
        "POST", "/api/v1/devices/\(device)/activities",
        #"{"attributesType":"Match","contentState":{"score":"0:0"},"channel":"\#(channel)"}"#)
      #expect(started.status == 201, "\(started.text)")
      #expect(started.json["id"]?.integer == 1)
      try await subscribed(bench, on: device, [channel])
    }
    _ = try await bench.ask("PATCH", "/api/v1/devices/phone", #"{"online":false}"#)
    _ = try await broadcast(
      bench, on: channel, Self.update(Self.now + 1, "2:0"), expirationSeconds: Self.now + 3600)
    let found = try #require(try await bench.wait(#"{"channel":"\#(channel)"}"#).first)
    let number = try #require(found["number"]?.integer)
    _ = try await bench.poll(number, "the tablet") { $0["recipients"]?.array?.count == 1 }
    _ = try await bench.ask("PATCH", "/api/v1/devices/phone", #"{"online":true}"#)
    let all = try await bench.poll(number, "the phone") { $0["recipients"]?.array?.count == 2 }
    let recipients = all["recipients"]?.array ?? []
    #expect(recipients.map { $0["device"]?.string } == ["tablet", "phone"])
    #expect(recipients.map { $0["fromStorage"]?.bool } == [false, true])
    #expect(try await activity(bench)?["contentState"]?["score"]?.string == "2:0")
  }

  @Test("The API makes channels, sends on them, and says what is wrong with a request")
  func routes() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let kept = try await channel(bench, #"{"environment":"development","storage":"none"}"#)
    let gone = try await channel(bench)
    let listed = try await bench.ask("GET", "/api/v1/channels").json["channels"]?.array ?? []
    #expect(listed.map { $0["channel"]?.string } == [kept, gone])
    #expect(listed.first?["environment"]?.string == "development")
    #expect(listed.first?["storage"]?.string == "none")
    #expect(listed.first?["topic"]?.string == Bench.topic)
    let escaped = try #require(gone.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
    #expect(try await bench.ask("DELETE", "/api/v1/channels/\(escaped)").status == 200)
    #expect(try await bench.ask("DELETE", "/api/v1/channels/\(escaped)").status == 404)
    #expect(try await bench.ask("POST", "/api/v1/channels", #"{"topic":"org.none"}"#).status == 400)

    let payload = #""expiration":0,"payload":\#(Self.update(Self.now, "0:0"))"#
    let sent = try await bench.ask(
      "POST", "/api/v1/send",
      #"{"channel":"\#(kept)","environment":"development",\#(payload)}"#)
    #expect(sent.json["verdict"]?["status"]?.integer == 200, "\(sent.text)")
    #expect(sent.json["number"]?.integer != nil)
    let refused = try await bench.ask(
      "POST", "/api/v1/send", #"{"channel":"\#(gone)",\#(payload)}"#)
    #expect(refused.json["verdict"]?["reason"]?.string == "ChannelNotRegistered", "\(refused.text)")
    #expect(refused.json["verdict"]?["explanation"]?.string?.isEmpty == false)
    let both = try await bench.ask(
      "POST", "/api/v1/send", #"{"channel":"\#(kept)","device":"phone",\#(payload)}"#)
    #expect(both.status == 400)

    for (body, status) in [
      (#"{"attributesType":"Match","topic":"org.none"}"#, 400), ("{}", 400),
      (#"{"attributesType":"Match","attributes":1}"#, 400),
    ] {
      let answer = try await bench.ask("POST", "/api/v1/devices/phone/activities", body)
      #expect(answer.status == status, "\(body): \(answer.text)")
    }
    // The service does not have the channel, so the device stays unsubscribed.
    _ = try await bench.ask(
      "POST", "/api/v1/devices/phone/activities", #"{"attributesType":"M","channel":"\#(gone)"}"#)
    _ = try await bench.ask("PATCH", "/api/v1/devices/phone", #"{"power":"active"}"#)
    let phone = try await bench.ask("GET", "/api/v1/devices").json["devices"]?.array?.first
    #expect(phone?["channels"]?.array?.first?["channel"]?.string == gone)
    #expect(phone?["channels"]?.array?.first?["subscribed"]?.bool == false)
  }

  // MARK: On the wire

  private func headers(
    _ method: String, _ path: String, _ authorization: String, _ more: [RawHeader] = []
  ) -> [RawHeader] {
    [
      RawHeader(.method, method), RawHeader(.scheme, "https"), RawHeader(.path, path),
      RawHeader(.authority, "localhost"), RawHeader(.authorization, authorization),
    ] + more
  }

  private static let policy = Array(
    #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#.utf8)

  private static func fields(_ channel: String) -> [RawHeader] {
    [
      RawHeader(.apnsChannelID, channel), RawHeader(.apnsPushType, "liveactivity"),
      RawHeader(.apnsExpiration, "0"), RawHeader(.apnsPriority, "10"),
      RawHeader(.apnsRequestID, "11111111-2222-3333-4444-555555555555"),
    ]
  }

  /// A provider token with a key that the service does not know.
  private func foreignAuthorization() throws -> String {
    let key = try PrivateKey.generateP256()
    let token = try ProviderToken.sign(
      teamID: "FOREIGN123", keyID: "FOREIGNKEY", issuedAt: Self.now, key: key)
    return "bearer \(token)"
  }

  @Test("Lenient mode takes any key and any app for channels and broadcasts, and notes it")
  func lenient() async throws {
    let bench = try Bench { $0.isLenient = true }
    defer { bench.stop() }
    let authorization = try foreignAuthorization()
    let manager = try bench.rawProvider(.channels)
    let created = try manager.exchange(
      headers("POST", "/1/apps/org.example.new/channels", authorization), body: Self.policy)
    #expect(created.status == 201, "\(created.bodyText)")
    let channel = try #require(created["apns-channel-id"])
    let provider = try bench.rawProvider()
    let path = "/4/broadcasts/apps/org.example.new"
    let payload = Array(Self.update(Self.now, "1:0").utf8)
    let sent = try provider.exchange(
      headers("POST", path, authorization, Self.fields(channel)), body: payload)
    #expect(sent.status == 200, "\(sent.bodyText)")
    #expect(sent["apns-request-id"] == "11111111-2222-3333-4444-555555555555")
    let unheard = try provider.exchange(
      headers("POST", "/4/broadcasts/apps/org.example.newer", authorization, Self.fields(channel)),
      body: payload)
    #expect(unheard.bodyText == #"{"reason":"ChannelNotRegistered"}"#)
    // Requests to the management API are no pushes.
    let pushes = try await bench.ask("GET", "/api/v1/pushes").json["pushes"]?.array ?? []
    #expect(pushes.map { $0["verdict"]?["status"]?.integer } == [400, 200])
    #expect(pushes.last?["apnsID"]?.string == "11111111-2222-3333-4444-555555555555")
    let notes = pushes.last?["verdict"]?["notes"]?.array?.compactMap(\.string) ?? []
    #expect(notes.count == 1 && notes.first?.contains("FOREIGNKEY") == true, "\(notes)")
    #expect(pushes.first?["verdict"]?["notes"]?.array?.count == 2)
    #expect(pushes.first?["verdict"]?["explanation"]?.string?.isEmpty == false)
  }

  @Test("Strict mode rejects the same key, and faults apply to broadcasts alone")
  func strict() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let manager = try bench.rawProvider(.channels)
    let refused = try manager.exchange(
      headers("POST", "/1/apps/com.example.app/channels", try foreignAuthorization()),
      body: Self.policy)
    #expect(refused.status == 403, "\(refused.bodyText)")
    try await bench.arm(
      #"{"type":"respond","reason":"ServiceUnavailable","retryAfterSeconds":7}"#,
      #","times":1"#)
    let authorization = try await bench.authorization()
    let trusted = try bench.rawProvider(.channels)
    let created = try trusted.exchange(
      headers("POST", "/1/apps/com.example.app/channels", authorization), body: Self.policy)
    #expect(created.status == 201, "\(created.bodyText)")
    let channel = try #require(created["apns-channel-id"])
    let provider = try bench.rawProvider()
    let request = headers(
      "POST", "/4/broadcasts/apps/com.example.app", authorization, Self.fields(channel))
    let payload = Array(Self.update(Self.now, "1:0").utf8)
    let faulty = try provider.exchange(request, body: payload)
    #expect(faulty.status == 503 && faulty["retry-after"] == "7", "\(faulty.bodyText)")
    #expect(faulty["apns-request-id"] == "11111111-2222-3333-4444-555555555555")
    #expect(faulty["apns-id"] == nil)
    #expect(try provider.exchange(request, body: payload).status == 200)
    let pushes = try await bench.ask("GET", "/api/v1/pushes").json["pushes"]?.array ?? []
    #expect(pushes.map { $0["verdict"]?["fault"]?.string } == [nil, "armed"])
  }
}
