import ApusCore
import ApusDirectory
import ApusModel
import ApusServer
import ApusTesting
import Testing

@Suite("Requests for devices of another service pass through to the app's upstream")
struct PassThroughTests {
  private let bench: RelayBench
  /// 80 bytes, as tokens of Live Activities have at Apple.
  private static let longToken = String(repeating: "80", count: 80)
  private static let token = String(repeating: "ab", count: 32)

  init() throws { bench = try RelayBench() }

  private func exchange(
    _ token: String, _ change: ([RawHeader]) -> [RawHeader] = { $0 }
  ) throws -> RawResponse {
    try bench.gateway.provider(.development).exchange(
      change(bench.push(to: token)), body: TestService.payload)
  }

  // MARK: Accepted

  @Test("A notification reaches the device there, and upstream's ids the provider")
  func delivered() throws {
    let (device, token) = try bench.device()
    let id = "A1b2C3d4-e5F6-0718-293a-4B5C6D7e8F90"
    let response = try exchange(token) { $0.setting("apns-id", id) }
    #expect(response.status == 200)
    #expect(response["apns-id"] == id)
    let received = try device.client.expect(0x0a)
    #expect(received[3] == TestService.payload)
    #expect(response["apns-unique-id"] != nil)
    #expect(response.body.isEmpty)
  }

  @Test("Upstream gets the provider's fields, its own name of the topic, and the gateway's token")
  func fields() throws {
    let authorization = try bench.gateway.authorization()
    _ = try exchange(Self.longToken) { headers in
      headers.setting("apns-id", "A1B2C3D4-E5F6-0718-293A-4B5C6D7E8F90")
        .setting("apns-topic", "\(TestDirectory.topic).voip").setting("apns-push-type", "voip")
        .setting("apns-priority", "5").setting("apns-expiration", "4102444800")
        .setting("apns-collapse-id", "news")
    }
    let request = try #require(bench.script.requests(Self.longToken).first)
    #expect(request.method == "POST")
    #expect(request.path == "/3/device/\(Self.longToken)")
    let fields = Dictionary(uniqueKeysWithValues: request.headers.map { ($0.name, $0.value) })
    #expect(fields["apns-id"] == "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90")
    #expect(fields["apns-topic"] == "\(TestDirectory.otherTopic).voip")
    #expect(fields["apns-push-type"] == "voip")
    #expect(fields["apns-priority"] == "5")
    #expect(fields["apns-expiration"] == "4102444800")
    #expect(fields["apns-collapse-id"] == "news")
    #expect(request.payload == TestService.payload)
    let shown = try #require(fields["authorization"])
    #expect(shown.hasPrefix("bearer ") && shown != authorization)
    #expect(request.credential?.contains(bench.upstream.directory.key.id.text) == true)
  }

  @Test("Fields that the provider left out stay out, except for an id")
  func leftOut() throws {
    let response = try exchange(Self.token)
    let request = try #require(bench.script.requests(Self.token).first)
    let names = Set(request.headers.map(\.name))
    for name in ["apns-push-type", "apns-priority", "apns-expiration", "apns-collapse-id"] {
      #expect(!names.contains(name), "\(name)")
    }
    let sent = try #require(request.headers.first { $0.name == "apns-id" }?.value)
    #expect(response["apns-id"]?.lowercased() == sent)
  }

  @Test("A device of the gateway's own gets its notifications there, and upstream sees none")
  func own() throws {
    let device = try bench.gateway.connect(nil, .development)
    try device.enable(TestDirectory.topic)
    let token = try device.token()
    #expect(try exchange(token).status == 200)
    #expect(try device.client.expect(0x0a)[3] == TestService.payload)
    #expect(bench.script.requests(token).isEmpty)
  }

  // MARK: Rejected by upstream

  struct Case: Sendable, CustomTestStringConvertible {
    var answer: PlannedFault.Answer
    var body: String
    var testDescription: String { "\(answer.status) \(answer.reason)" }

    init(
      _ status: UInt16, _ reason: String, since: Int64? = nil, retryAfter: Int? = nil,
      _ body: String
    ) {
      answer = PlannedFault.Answer(
        status: status, reason: reason, timestampMilliseconds: since,
        retryAfterSeconds: retryAfter)
      self.body = body
    }
  }

  @Test(
    "Status, reason, time and retry-after are upstream's",
    arguments: [
      Case(400, "BadDeviceToken", #"{"reason":"BadDeviceToken"}"#),
      Case(400, "TopicDisallowed", #"{"reason":"TopicDisallowed"}"#),
      Case(
        410, "Unregistered", since: 1_454_948_015_990,
        #"{"reason":"Unregistered","timestamp":1454948015990}"#),
      Case(413, "PayloadTooLarge", #"{"reason":"PayloadTooLarge"}"#),
      Case(429, "TooManyRequests", retryAfter: 7, #"{"reason":"TooManyRequests"}"#),
      Case(500, "InternalServerError", #"{"reason":"InternalServerError"}"#),
      Case(503, "ServiceUnavailable", retryAfter: 30, #"{"reason":"ServiceUnavailable"}"#),
      Case(400, "SomethingNew", #"{"reason":"SomethingNew"}"#),
    ])
  func rejected(_ expected: Case) throws {
    bench.script.answer(Self.token, .respond(expected.answer))
    let response = try exchange(Self.token) {
      $0.setting("apns-id", "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90")
    }
    #expect(response.status == Int(expected.answer.status))
    #expect(response.bodyText == expected.body)
    #expect(response["retry-after"] == expected.answer.retryAfterSeconds.map { String($0) })
    #expect(response["apns-id"] == "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90")
    #expect(bench.script.requests(Self.token).count == 1)
  }

  @Test(
    "What upstream finds wrong with the gateway is the operator's business, not the provider's",
    arguments: ["InvalidProviderToken", "Forbidden", "BadCertificateEnvironment"])
  func credential(_ reason: String) throws {
    bench.script.answer(Self.token, .respond(.init(status: 403, reason: reason)))
    let response = try exchange(Self.token)
    #expect(response.status == 503)
    #expect(response.bodyText == #"{"reason":"ServiceUnavailable"}"#)
    #expect(response["retry-after"] != nil)
    #expect(bench.logged("upstream rejects the credential of this service"))
    #expect(bench.logged(reason))
  }

  // MARK: Not answered

  @Test("While upstream is away, providers are asked to come back")
  func away() throws {
    bench.upstream.stop()
    let response = try exchange(Self.token)
    #expect(response.status == 503)
    #expect(response.bodyText == #"{"reason":"ServiceUnavailable"}"#)
    #expect(response["retry-after"] == "10")
    #expect(bench.logged("upstream unreachable"))
  }

  @Test("Where upstream's answer is lost, the stream is reset, and nothing is sent twice")
  func lost() throws {
    bench.script.answer(Self.token, .resetStream(code: 2))
    let provider = try bench.gateway.provider(.development)
    let stream = try provider.request(bench.push(to: Self.token), body: TestService.payload)
    guard case .reset(let code) = try provider.outcome(of: stream) else {
      Issue.record("the stream was answered")
      return
    }
    #expect(code == 2)
    #expect(bench.script.requests(Self.token).count == 1)
    // The connection goes on.
    let (_, token) = try bench.device()
    #expect(try provider.exchange(bench.push(to: token), body: TestService.payload).status == 200)
  }

  @Test("A request that upstream refused unprocessed is sent again, with its id")
  func refused() throws {
    bench.script.answer(Self.token, .resetStream(code: 7), .respond(.init(status: 200, reason: "")))
    #expect(try exchange(Self.token).status == 200)
    let ids = bench.script.requests(Self.token).map { request in
      request.headers.first { $0.name == "apns-id" }?.value
    }
    #expect(ids.count == 2)
    #expect(ids[0] != nil && ids[0] == ids[1])
  }

  // MARK: Rejected by the gateway

  @Test("An app without upstream rejects tokens of other services")
  func withoutUpstream() throws {
    let response = try exchange(Self.token) {
      $0.setting("apns-topic", TestDirectory.otherTopic)
    }
    #expect(response.bodyText == #"{"reason":"BadDeviceToken"}"#)
    #expect(bench.script.requests(Self.token).isEmpty)
  }

  @Test("Only who may push to an app reaches its upstream")
  func permission() throws {
    let foreign = try
      "bearer \(bench.gateway.directory.foreignKey.token(issuedAt: TestDirectory.nowSeconds))"
    let response = try exchange(Self.token) { $0.setting("authorization", foreign) }
    #expect(response.bodyText == #"{"reason":"TopicDisallowed"}"#)
    let unrelated = try
      "bearer \(bench.gateway.directory.unrelatedKey.token(issuedAt: TestDirectory.nowSeconds))"
    #expect(try exchange(Self.token) { $0.setting("authorization", unrelated) }.status != 200)
    #expect(bench.script.requests(Self.token).isEmpty)
  }

  @Test("A request that breaks the API's rules is rejected before it is sent")
  func rules() throws {
    for (name, value, reason) in [
      ("apns-priority", "7", "BadPriority"), ("apns-expiration", "soon", "BadExpirationDate"),
      ("apns-push-type", "alarm", "InvalidPushType"),
      ("apns-collapse-id", String(repeating: "c", count: 65), "BadCollapseId"),
    ] {
      let response = try exchange(Self.longToken) { $0.setting(name, value) }
      #expect(response.bodyText == "{\"reason\":\"\(reason)\"}")
    }
    let tooLong = String(repeating: "ab", count: 101)
    #expect(try exchange(tooLong).bodyText == #"{"reason":"BadDeviceToken"}"#)
    #expect(
      try exchange(String(repeating: "0", count: 64)).bodyText == #"{"reason":"BadDeviceToken"}"#)
    #expect(bench.script.requests(Self.longToken).isEmpty)
  }
}
