import ApusHTTP2
import ApusModel
import ApusWire
import Testing

@testable import ApusClient

/// Base64 of "tst-srch-chnl", by hand.
private let channelText = "dHN0LXNyY2gtY2hubA=="

private struct Points: Encodable {
  var home: Int
}

@Suite("Broadcasts are checked before sending")
struct BroadcastRequestTests {
  private let id = NotificationID(high: 1, low: 2)

  private func good() throws -> PushRequest {
    PushRequest(
      channel: try #require(BroadcastChannel.ID(channelText)), app: "com.example.app",
      payload: Array(#"{"aps":{"event":"update"}}"#.utf8), expirationSeconds: 0)
  }

  private func problem(_ change: (inout PushRequest) -> Void) throws -> PushRequestError? {
    var request = try good()
    change(&request)
    do throws(PushRequestError) {
      try request.validate()
      return nil
    } catch {
      return error
    }
  }

  @Test(
    "A channel id is base64 of 1 to 64 bytes",
    arguments: [
      (channelText, true), ("YQ==", true), ("YQ", true), ("", false), ("Y", false), ("YR==", false),
      ("a-_b", false), ("YQ==\n", false), (String(repeating: "AAAA", count: 21) + "AAA=", false),
      (String(repeating: "AAAA", count: 21) + "AA==", true),
    ])
  func channelID(text: String, isGood: Bool) {
    #expect(BroadcastChannel.ID(text)?.text == (isGood ? text : nil))
  }

  @Test(
    "A payload has 1 to 5,120 bytes",
    arguments: [(0, false), (1, true), (4097, true), (5120, true), (5121, false)])
  func payload(count: Int, isGood: Bool) throws {
    let problem = try problem { $0.payload = [UInt8](repeating: 0x20, count: count) }
    #expect(problem?.code == (isGood ? nil : .invalidPayload))
  }

  @Test("What broadcasts do not have, and what they need")
  func shape() throws {
    #expect(try problem { _ in } == nil)
    #expect(try problem { $0.token = "0a" }?.code == .invalidBroadcast)
    #expect(try problem { $0.collapseID = "a" }?.code == .invalidBroadcast)
    #expect(try problem { $0.pushType = .alert }?.code == .invalidBroadcast)
    let missing = try #require(try problem { $0.expirationSeconds = nil })
    #expect(missing.code == .invalidBroadcast)
    #expect(missing.description.hasPrefix("a broadcast needs an expiration: 0 for one attempt"))
    #expect(try problem { $0.expirationSeconds = -1 }?.code == .invalidExpiration)
  }

  @Test(
    "The topic is a bundle id that cannot change the path",
    arguments: [
      ("com.example.app", true), ("a", true), ("Com-1_x", true), ("", false), ("a/b", false),
      ("a?b", false), ("a%2f", false), ("a b", false), ("ä", false), ("..%", false), ("a#", false),
      ("com.example.app.push-type.liveactivity", false),
      (String(repeating: "a", count: Limits.topicBytes), true),
      (String(repeating: "a", count: Limits.topicBytes + 1), false),
    ])
  func bundleID(text: String, isGood: Bool) throws {
    #expect(try problem { $0.topic = text }?.code == (isGood ? nil : .invalidTopic))
    #expect(try problem { $0.topic = nil }?.code == .invalidTopic)
  }

  @Test("A start is refused with the reason, as a payload and as JSON; the word alone is not")
  func start() throws {
    let channel = try #require(BroadcastChannel.ID(channelText))
    let start = try LiveActivityPayload.start(
      attributesType: "Game", attributes: Points(home: 0), contentState: Points(home: 0),
      alert: LiveActivityAlert(title: "t"), timestampSeconds: 1, updatedBy: .channel(channel.text))
    for make in [
      { _ = try PushRequest(channel: channel, app: "a", start, expirationSeconds: 0) },
      {
        try PushRequest(channel: channel, app: "a", payload: start.bytes, expirationSeconds: 0)
          .validate()
      },
    ] as [() throws -> Void] {
      let error = #expect(throws: PushRequestError.self) { try make() }
      #expect(error?.code == .invalidBroadcast)
      #expect(
        error?.description.hasPrefix("the event is start: a broadcast cannot start a Live Activity")
          == true)
    }
    let word = #"{"aps":{"event":"update","content-state":{"phase":"start"}}}"#
    #expect(try problem { $0.payload = Array(word.utf8) } == nil)
  }

  @Test("The lint knows the limit of broadcasts, and that they cannot start an activity")
  func lint() throws {
    func rules(_ json: String) throws -> [LintRule] {
      var request = try good()
      request.payload = Array(json.utf8)
      return request.lint().map(\.rule)
    }
    func update(_ count: Int) -> String {
      let start = #"{"aps":{"timestamp":1,"event":"update","content-state":{"a":""#
      return start + String(repeating: "x", count: count - start.utf8.count - 4) + #""}}}"#
    }
    #expect(update(5120).utf8.count == 5120)
    #expect(try rules(update(5120)) == [])
    #expect(try rules(update(5121)) == [.payloadTooLarge])
    let start =
      #"{"aps":{"timestamp":1,"event":"start","content-state":{},"attributes-type":"a","#
      + #""attributes":{},"alert":{"title":"t"}}}"#
    #expect(try rules(start) == [.liveActivityEvent])
  }

  @Test("The binary interface carries no broadcasts")
  func binary() throws {
    var encoder = FrameEncoder(command: .framed, topics: [])
    var frames: [UInt8] = []
    let request = try good()
    do throws(PushRequestError) {
      try encoder.append(request, to: &frames)
      Issue.record("a frame was made")
    } catch {
      #expect(error.code == .notCarried)
    }
    #expect(frames.isEmpty)
  }

  @Test("A broadcast is printed with the start of its channel")
  func description() throws {
    #expect(
      "\(try good())"
        == "liveactivity to channel dHN0LXNy…, topic com.example.app, expiration 0, 26 bytes")
  }
}

@Suite("Broadcasts on the wire")
struct BroadcastWireTests {
  /// Sends broadcasts through a dispatcher.
  private final class Sender {
    let bench = Bench(authorization: [])
    private(set) var outcomes: [UInt64: SendOutcome] = [:]

    func send(
      _ number: UInt64, expirationSeconds: Int64 = 0,
      _ change: (inout PushRequest) -> Void = { _ in }
    ) throws {
      var request = try PushRequest(
        channel: try #require(BroadcastChannel.ID(channelText)), app: "com.example.app",
        try LiveActivityPayload.update(contentState: Points(home: 3), timestampSeconds: 1000),
        expirationSeconds: expirationSeconds)
      request.id = Bench.id(number)
      change(&request)
      let send = PendingSend(
        push: try EncodedPush(request, id: Bench.id(0)), timeoutMilliseconds: 30_000
      ) { [unowned self] in outcomes[number] = $0 }
      bench.dispatcher.add(send, nowMilliseconds: bench.now)
    }
  }

  private func text(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }

  private let idText = "01234567-89ab-cdef-0000-000000000001"

  private func block(priority: String, expiration: String) -> [UInt8] {
    // RFC 7541: 0x83 is POST, 0x87 https, 0x41 a new entry for `:authority`; 0x14 is `:path` and 0x10 a new name, both
    // never indexed; 0x40 is a new entry with a new name.
    [0x83, 0x87, 0x41] + text("push.example")
      + [0x14] + text("/4/broadcasts/apps/com.example.app")
      + [0x10] + text("apns-request-id") + text(idText)
      + [0x40] + text("apns-channel-id") + text(channelText)
      + [0x40] + text("apns-push-type") + text("liveactivity")
      + [0x40] + text("apns-priority") + text(priority)
      + [0x40] + text("apns-expiration") + text(expiration)
  }

  private func requests(_ output: [UInt8]) -> [Frames.Frame] {
    Frames.read(output).filter { $0.type == 0x1 || $0.type == 0x0 }
  }

  private let body = Array(
    #"{"aps":{"timestamp":1000,"event":"update","content-state":{"home":3}}}"#.utf8)

  @Test("Path, fields and body are those of Apple's page, byte for byte; there is no topic")
  func bytes() throws {
    let sender = Sender()
    try sender.send(1)
    let frames = requests(sender.bench.take(sender.bench.connect()))
    #expect(
      frames == [
        Frames.Frame(
          type: 0x1, flags: 0x4, stream: 1, payload: block(priority: "10", expiration: "0")),
        Frames.Frame(type: 0x0, flags: 0x1, stream: 1, payload: body),
      ])
  }

  @Test("Priority and expiration are sent as given")
  func values() throws {
    let sender = Sender()
    try sender.send(1, expirationSeconds: 1_700_000_000) { $0.priority = .powerSaving }
    let frames = requests(sender.bench.take(sender.bench.connect()))
    #expect(frames.first?.payload == block(priority: "5", expiration: "1700000000"))
  }

  @Test("A broadcast repeats nothing that the connection's table has")
  func table() throws {
    let sender = Sender()
    try sender.send(1)
    try sender.send(2)
    let frames = requests(sender.bench.take(sender.bench.connect()))
    // The five entries of the first one, newest first: expiration 0xbe, priority, push type, channel, authority 0xc2.
    let second = idText.dropLast() + "2"
    #expect(
      frames[2].payload
        == [0x83, 0x87, 0xc2, 0x14] + text("/4/broadcasts/apps/com.example.app")
        + [0x10] + text("apns-request-id") + text(String(second)) + [0xc1, 0xc0, 0xbf, 0xbe])
  }

  @Test("An accepted broadcast has the id of its request and the service's")
  func accepted() throws {
    let sender = Sender()
    try sender.send(1)
    let session = sender.bench.connect()
    _ = sender.bench.take(session)
    let unique = "5b0d7c2e-0000-4000-8000-000000000009"
    sender.bench.give(
      session,
      Frames.answer(
        1, [(":status", "200"), ("apns-request-id", idText), ("apns-unique-id", unique)], body: ""))
    #expect(sender.outcomes[1] == .accepted(apnsID: Bench.id(1), uniqueID: unique))
  }

  @Test(
    "Each rejection is reported with status and reason, known to the client or not",
    arguments: [
      ("400", "MissingChannelId"), ("400", "BadChannelId"), ("400", "ChannelNotRegistered"),
      ("400", "FeatureNotEnabled"), ("400", "BadExpirationDate"), ("400", "BadPriority"),
      ("400", "MissingPushType"), ("400", "InvalidPushType"), ("400", "BadMessageId"),
      ("400", "PayloadEmpty"), ("400", "TopicDisallowed"), ("403", "BadCertificate"),
      ("403", "BadCertificateEnvironment"), ("403", "TopicMismatch"),
      ("403", "MissingProviderToken"),
      ("403", "InvalidProviderToken"), ("404", "BadPath"), ("405", "MethodNotAllowed"),
      ("413", "PayloadTooLarge"), ("429", "TooManyProviderTokenUpdates"),
      ("503", "Service Unavailable"), ("400", "SomethingNew"),
    ])
  func rejected(status: String, reason: String) throws {
    let sender = Sender()
    try sender.send(1)
    let session = sender.bench.connect()
    _ = sender.bench.take(session)
    sender.bench.give(session, Frames.answer(1, status: status, body: #"{"reason":"\#(reason)"}"#))
    #expect(
      sender.outcomes[1]
        == .rejected(
          PushRejection(
            reason: RejectionReason(rawValue: reason), status: UInt16(status) ?? 0,
            apnsID: Bench.id(1))))
  }

  @Test("A broadcast that a busy service rejected is sent again, with the same id")
  func busy() throws {
    let sender = Sender()
    try sender.send(1)
    let session = sender.bench.connect()
    _ = sender.bench.take(session)
    sender.bench.give(
      session, Frames.answer(1, status: "429", body: #"{"reason":"TooManyRequests"}"#))
    #expect(sender.outcomes.isEmpty)
    sender.bench.wait(milliseconds: 500)
    let again = requests(sender.bench.take(session))
    #expect(again.map(\.stream) == [3, 3])
    let idField = [0x10] + text("apns-request-id") + text(idText)
    // `apns-request-id` has no entry, so its name is spelled again.
    #expect(again[0].payload.indices.contains { again[0].payload[$0...].starts(with: idField) })
  }

  @Test("A connection that dies before the broadcast left costs nothing: it is sent on the next")
  func lostBefore() throws {
    let sender = Sender()
    try sender.send(1)
    let first = sender.bench.connect()
    _ = sender.bench.take(first)
    sender.bench.give(first, Frames.ok(1))
    try sender.send(2)
    sender.bench.fill()
    #expect(first.openCount == 1)
    sender.bench.lose(first)
    #expect(sender.outcomes[2] == nil)
    let second = sender.bench.connect()
    #expect(Frames.opened(sender.bench.take(second)) == [1])
    sender.bench.give(second, Frames.ok(1))
    #expect(sender.outcomes[2] == .accepted(apnsID: Bench.id(2), uniqueID: nil))
  }

  @Test("A connection that dies after the broadcast left leaves it unknown: it may be shown twice")
  func lostAfter() throws {
    let sender = Sender()
    try sender.send(1)
    let session = sender.bench.connect()
    _ = sender.bench.take(session)
    sender.bench.lose(session)
    guard case .unknown(let cause, retryMayDuplicate: true)? = sender.outcomes[1] else {
      Issue.record("\(String(describing: sender.outcomes[1]))")
      return
    }
    #expect(cause.code == .connectionLost)
    #expect(!sender.bench.wantsConnection)
  }
}

@Suite("A client sends broadcasts and pushes", .timeLimit(.minutes(30)))
struct BroadcastClientTests {
  private func broadcast(_ number: UInt64) throws -> PushRequest {
    var request = try PushRequest(
      channel: try #require(BroadcastChannel.ID(channelText)), app: "com.example.app",
      LiveActivityPayload.end(timestampSeconds: 1), expirationSeconds: 0)
    request.id = Bench.id(number)
    return request
  }

  @Test("They share a bulk send, its connections and its guarantees")
  func bulk() async throws {
    let service = try ScriptedService([[.accept, .refuse]])
    let client = try service.client()
    var requests = try (1...200 as ClosedRange<UInt64>).map(broadcast)
    requests[100] = PushRequest(token: "0a0b", topic: "com.example.app", payload: [0x7b, 0x7d])
    requests[100].id = Bench.id(101)
    requests[150].expirationSeconds = nil
    var accepted = 0
    for try await outcome in client.send(all: requests) {
      switch outcome.result {
      case .success(let sent):
        #expect(sent == .accepted(apnsID: outcome.apnsID, uniqueID: nil))
        accepted += 1
      case .failure(let error):
        #expect(outcome.index == 150 && error.code == .invalidBroadcast)
      }
    }
    await client.close()
    #expect(accepted == 199)
    // One of them was refused unread, and sent again with its id.
    let seen = service.seen.flatMap(\.self)
    #expect(seen.count >= 200 && Set(seen).count == 199)
    let lines = service.lines.flatMap(\.self)
    #expect(Set(lines) == ["POST /4/broadcasts/apps/com.example.app", "POST /3/device/0a0b"])
  }

  @Test("A broadcast on a connection that ends is unknown, and is not repeated")
  func cut() async throws {
    let service = try ScriptedService([[.accept, .cut], []])
    let client = try service.client()
    #expect(try await client.send(broadcast(1)) == .accepted(apnsID: Bench.id(1), uniqueID: nil))
    guard case .unknown(_, retryMayDuplicate: true) = try await client.send(broadcast(2)) else {
      Issue.record("an outcome that nobody can know")
      return
    }
    #expect(try await client.send(broadcast(3)) == .accepted(apnsID: Bench.id(3), uniqueID: nil))
    await client.close()
    #expect(service.seen.map(\.count) == [2, 1])
  }
}
