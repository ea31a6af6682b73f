import ApusModel
import ApusTesting
import Testing

/// "Sending broadcast push notification requests to APNs", by hand-written requests.
@Suite("Broadcasts are requested as at APNs")
struct BroadcastRequestTests {
  private static let shared = Result { try BroadcastService() }
  private static let channels = Result {
    let service = try shared.get()
    return (newest: try service.createChannel(), none: try service.createChannel(storage: 0))
  }

  private let service: BroadcastService
  private let newest: String
  private let none: String

  init() throws {
    service = try Self.shared.get()
    (newest, none) = try Self.channels.get()
  }

  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var expected: String
    var body = BroadcastService.update
    var usesPolicyNone = false
    var change: @Sendable ([RawHeader]) -> [RawHeader] = { $0 }

    var testDescription: String { name }
  }

  private static func setting(
    _ field: String, _ value: String
  ) -> @Sendable ([RawHeader]) -> [RawHeader] {
    { $0.setting(field, value) }
  }

  private static func without(_ field: String) -> @Sendable ([RawHeader]) -> [RawHeader] {
    { $0.without(field) }
  }

  static let cases = [
    Case(
      name: "no bundle id", expected: "404 BadPath", change: setting(":path", "/4/broadcasts/apps/")
    ),
    Case(
      name: "one more segment", expected: "404 BadPath",
      change: setting(":path", "/4/broadcasts/apps/com.example.app/x")),
    Case(
      name: "a query", expected: "404 BadPath",
      change: setting(":path", "/4/broadcasts/apps/com.example.app?x=1")),
    Case(
      name: "another path", expected: "404 BadPath",
      change: setting(":path", "/4/broadcast/apps/com.example.app")),
    Case(name: "GET", expected: "405 MethodNotAllowed", change: setting(":method", "GET")),
    Case(name: "a repeated field", expected: "400 DuplicateHeaders") {
      $0 + [RawHeader("apns-priority", "5")]
    },
    Case(
      name: "no credential", expected: "403 MissingProviderToken", change: without("authorization")),
    Case(
      name: "no provider token", expected: "403 InvalidProviderToken",
      change: setting("authorization", "bearer x")),
    Case(
      name: "request id", expected: "400 BadMessageId", change: setting("apns-request-id", "x")),
    Case(name: "its alias", expected: "400 BadMessageId", change: setting("apns-id", "x")),
    Case(
      name: "a push type's suffix", expected: "400 TopicDisallowed",
      change: setting(":path", "/4/broadcasts/apps/com.example.app.push-type.liveactivity")),
    Case(
      name: "no app", expected: "403 TopicMismatch",
      change: setting(":path", "/4/broadcasts/apps/com.example.unknown")),
    Case(
      name: "an app without broadcasts", expected: "400 FeatureNotEnabled",
      change: setting(":path", "/4/broadcasts/apps/com.example.other")),
    Case(
      name: "no channel", expected: "400 MissingChannelId", change: without("apns-channel-id")),
    Case(
      name: "an id that is not base64", expected: "400 BadChannelId",
      change: setting("apns-channel-id", "a*b")),
    Case(
      name: "no push type", expected: "400 MissingPushType", change: without("apns-push-type")),
    Case(
      name: "another push type", expected: "400 InvalidPushType",
      change: setting("apns-push-type", "alert")),
    Case(
      name: "no expiration", expected: "400 BadExpirationDate", change: without("apns-expiration")),
    Case(
      name: "an expiration that is none", expected: "400 BadExpirationDate",
      change: setting("apns-expiration", "soon")),
    Case(
      name: "an expiration where nothing is stored", expected: "400 BadExpirationDate",
      usesPolicyNone: true),
    Case(name: "no priority", expected: "400 BadPriority", change: without("apns-priority")),
    Case(
      name: "another priority", expected: "400 BadPriority", change: setting("apns-priority", "7")),
    Case(
      name: "an id of nobody", expected: "400 ChannelNotRegistered",
      change: setting("apns-channel-id", "AAAAAAAAAAAAAAAAAAAAAA==")),
    Case(name: "no body", expected: "400 PayloadEmpty", body: ""),
    Case(name: "no JSON", expected: "400 BadRequestPayload", body: "{"),
    Case(name: "no aps", expected: "400 BadRequestPayload", body: #"{"x":1}"#),
    Case(
      name: "a start", expected: "400 BadRequestPayload", body: #"{"aps":{"event":"start"}}"#),
    Case(
      name: "a large body", expected: "413 PayloadTooLarge",
      body: BroadcastService.payload(bytes: 5121)),
  ]

  @Test("Each fault has its reason, and the connection stays usable", arguments: cases)
  func rejected(_ request: Case) throws {
    let provider = try service.provider()
    let id = request.usesPolicyNone ? none : newest
    let headers = request.change(provider.headers(id, expiration: "9999999999"))
    let response = try provider.client.exchange(headers, body: Array(request.body.utf8))
    expectRefusal(response, request.expected)
    #expect(try provider.broadcast(newest).status == 200)
  }

  @Test("It is accepted with its id echoed and an id of its own, in both environments")
  func accepted() throws {
    for environment in Environment.allCases {
      let id = try service.createChannel(environment: environment)
      let provider = try service.provider(environment)
      let response = try provider.client.exchange(
        provider.headers(id).setting("apns-request-id", "A1b2C3d4-e5F6-0718-293a-4B5C6D7e8F90"),
        body: Array(BroadcastService.update.utf8))
      #expect(response.status == 200)
      #expect(response.headers.map(\.name) == [":status", "apns-unique-id", "apns-request-id"])
      #expect(response["apns-request-id"] == "A1b2C3d4-e5F6-0718-293a-4B5C6D7e8F90")
      #expect(response["apns-unique-id"]?.isUUID == true)
      #expect(response.body.isEmpty)
    }
  }

  @Test("Three spellings of the push type, each priority and the largest payload are taken")
  func spellings() throws {
    let provider = try service.provider()
    for type in ["liveactivity", "Liveactivity", "LiveActivity"] {
      for priority in ["10", "5", "1"] {
        let headers = provider.headers(newest)
          .setting("apns-push-type", type).setting("apns-priority", priority)
        let body = Array(BroadcastService.payload(bytes: 5120).utf8)
        #expect(try provider.client.exchange(headers, body: body).status == 200)
      }
    }
  }

  @Test("A topic, which broadcasts have none of, is ignored")
  func topic() throws {
    let provider = try service.provider()
    let headers = provider.headers(newest) + [RawHeader("apns-topic", "com.example.unknown")]
    let body = Array(BroadcastService.update.utf8)
    #expect(try provider.client.exchange(headers, body: body).status == 200)
  }

  @Test("The other environment, the channel listener and the other app have none of it")
  func elsewhere() throws {
    let development = try service.provider(.development)
    expectRefusal(try development.broadcast(newest), "400 ChannelNotRegistered")
    let manager = try service.manager()
    let headers = try service.provider().headers(newest)
    expectRefusal(
      try manager.exchange(headers, body: Array(BroadcastService.update.utf8)), "404 BadPath")
  }

  @Test("A certificate broadcasts on the channels of its topics alone")
  func certificate() throws {
    let client = try service.service.provider(identity: service.directory.providerIdentity())
    let headers = try service.provider().headers(newest).without("authorization")
    let body = Array(BroadcastService.update.utf8)
    #expect(try client.exchange(headers, body: body).status == 200)
    expectRefusal(
      try client.exchange(
        headers.setting(":path", "/4/broadcasts/apps/com.example.other"), body: body),
      "403 TopicMismatch")
  }
}
