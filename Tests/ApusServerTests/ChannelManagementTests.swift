import ApusCore
import ApusDirectory
import ApusLog
import ApusModel
import ApusStore
import ApusTesting
import ApusTrust
import Synchronization
import Testing

@testable import ApusServer

/// "Sending channel management requests to APNs", by hand-written requests.
@Suite("Channels are managed as at APNs")
struct ChannelManagementTests {
  static let path = "/1/apps/\(TestDirectory.topic)/channels"
  static let listPath = "/1/apps/\(TestDirectory.topic)/all-channels"
  static let newest = #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
  static let none = #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#

  /// One for all tests that neither stop nor change it.
  private static let shared = Result { try makeService() }

  private static func makeService(
    _ directory: TestDirectory? = nil, _ options: TestService.Options = .init()
  ) throws -> TestService {
    let directory = try directory ?? TestDirectory()
    try directory.data.changeApp(TestDirectory.topic, broadcasts: true)
    return try TestService(directory, options)
  }

  let service: TestService

  init() throws { service = try Self.shared.get() }

  private static func headers(
    _ method: String, _ path: String, _ authorization: String?, channel: String? = nil
  ) -> [RawHeader] {
    var headers = [
      RawHeader(.method, method), RawHeader(.scheme, "https"), RawHeader(.path, path),
      RawHeader(.authority, "localhost"),
    ]
    if let authorization { headers.append(RawHeader(.authorization, authorization)) }
    if let channel { headers.append(RawHeader(.apnsChannelID, channel)) }
    return headers
  }

  /// A provider's connection with the team's key.
  private struct Manager {
    let client: RawHTTP2Client
    let authorization: String

    init(_ service: TestService, _ environment: Environment = .production) throws {
      client = try service.provider(environment, at: .channels)
      authorization = try service.authorization()
    }

    func ask(
      _ method: String, _ path: String, channel: String? = nil, body: String = ""
    ) throws -> RawResponse {
      try client.exchange(
        headers(method, path, authorization, channel: channel), body: Array(body.utf8))
    }

    func create(_ body: String = newest) throws -> String {
      try #require(ask("POST", path, body: body)["apns-channel-id"])
    }

    func list() throws -> [String] {
      let text = try ask("GET", listPath).bodyText
      return text.split(separator: "\"").map(String.init).filter { $0.hasSuffix("==") }
    }
  }

  // MARK: What succeeds

  @Test("A channel is created, read, listed and deleted")
  func life() throws {
    let manager = try Manager(service)
    let created = try manager.ask("POST", Self.path, body: Self.newest)
    #expect(created.status == 201)
    #expect(created.headers.map(\.name) == [":status", "apns-request-id", "apns-channel-id"])
    #expect(created["apns-request-id"]?.isUUID == true)
    #expect(created.frames.map(\.kind) == [1])
    let id = try #require(created["apns-channel-id"])
    // 16 bytes in base64.
    #expect(id.count == 24 && id.hasSuffix("=="))

    let read = try manager.ask("GET", Self.path, channel: id)
    #expect(read.status == 200)
    #expect(read.bodyText == Self.newest)
    #expect(read.headers.map(\.name) == [":status", "content-type", "apns-request-id"])
    #expect(try manager.list().contains(id))

    let deleted = try manager.ask("DELETE", Self.path, channel: id)
    #expect(deleted.status == 204)
    #expect(deleted.headers.map(\.name) == [":status", "apns-request-id"])
    #expect(deleted.frames.map(\.kind) == [1])
    #expect(try !manager.list().contains(id))
    expectRefusal(try manager.ask("GET", Self.path, channel: id), "400 ChannelNotRegistered")
    expectRefusal(try manager.ask("DELETE", Self.path, channel: id), "400 ChannelNotRegistered")
  }

  @Test("Both storage policies are kept, and ids are never equal")
  func policies() throws {
    let manager = try Manager(service)
    let ids = try [Self.none, Self.newest, Self.none].map { try manager.create($0) }
    #expect(Set(ids).count == 3)
    let bodies = try ids.map { try manager.ask("GET", Self.path, channel: $0).bodyText }
    #expect(bodies == [Self.none, Self.newest, Self.none])
    #expect(try manager.list().filter(Set(ids).contains) == ids)
  }

  @Test("A request's id is echoed byte for byte, on success and on failure")
  func echo() throws {
    let manager = try Manager(service)
    let id = "A1b2C3d4-e5F6-0718-293a-4B5C6D7e8F90"
    for (method, body) in [("POST", Self.newest), ("POST", "{"), ("PUT", "")] {
      let headers = Self.headers(method, Self.path, manager.authorization)
        .setting("apns-request-id", id)
      let response = try manager.client.exchange(headers, body: Array(body.utf8))
      #expect(response["apns-request-id"] == id)
      #expect(response["apns-id"] == nil)
    }
  }

  @Test("Environments have channels of their own")
  func environments() throws {
    let (production, development) = (try Manager(service), try Manager(service, .development))
    let id = try production.create()
    expectRefusal(try development.ask("GET", Self.path, channel: id), "400 ChannelNotRegistered")
    #expect(try !development.list().contains(id))
    #expect(try production.ask("GET", Self.path, channel: id).status == 200)
  }

  @Test("A certificate manages the channels of its topics alone")
  func certificate() throws {
    let identity = try service.directory.providerIdentity()
    let client = try service.provider(identity: identity, at: .channels)
    let created = try client.exchange(
      Self.headers("POST", Self.path, nil), body: Array(Self.newest.utf8))
    #expect(created.status == 201)
    let other = "/1/apps/\(TestDirectory.otherTopic)/channels"
    expectRefusal(
      try client.exchange(Self.headers("GET", other, nil), body: []), "403 TopicMismatch")
  }

  // MARK: What is rejected

  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var expected: String
    var method = "POST"
    var path = ChannelManagementTests.path
    var body = ChannelManagementTests.newest
    var change: @Sendable ([RawHeader]) -> [RawHeader] = { $0 }

    var testDescription: String { name }

    static func setting(_ field: String, _ value: String) -> @Sendable ([RawHeader]) -> [RawHeader]
    {
      { $0.setting(field, value) }
    }
  }

  static let cases = [
    Case(name: "another path", expected: "404 BadPath", path: "/1/apps/com.example.app/channel"),
    Case(
      name: "another version", expected: "404 BadPath", path: "/2/apps/com.example.app/channels"),
    Case(name: "no bundle id", expected: "404 BadPath", path: "/1/apps//channels"),
    Case(name: "one more segment", expected: "404 BadPath", path: path + "/AAAA"),
    Case(name: "a query", expected: "404 BadPath", path: path + "?x=1"),
    Case(name: "a device's path", expected: "404 BadPath", path: "/3/device/\(madeUpToken)"),
    Case(name: "PUT", expected: "405 MethodNotAllowed", method: "PUT"),
    Case(name: "POST to the list", expected: "405 MethodNotAllowed", path: listPath),
    Case(
      name: "DELETE of the list", expected: "405 MethodNotAllowed", method: "DELETE", path: listPath
    ),
    Case(name: "no credential", expected: "403 MissingProviderToken") {
      $0.without("authorization")
    },
    Case(
      name: "no provider token", expected: "403 InvalidProviderToken",
      change: Case.setting("authorization", "bearer x")),
    Case(
      name: "request id", expected: "400 BadMessageId",
      change: Case.setting("apns-request-id", "not-a-uuid")),
    Case(
      name: "a push type's suffix", expected: "400 TopicDisallowed",
      path: "/1/apps/com.example.app.push-type.liveactivity/channels"),
    Case(
      name: "no app", expected: "403 TopicMismatch", path: "/1/apps/com.example.unknown/channels"),
    Case(
      name: "another team's app", expected: "403 TopicMismatch",
      path: "/1/apps/com.example.foreign/channels"),
    Case(
      name: "an app without broadcasts", expected: "400 FeatureNotEnabled",
      path: "/1/apps/com.example.other/channels"),
    Case(name: "no channel", expected: "400 MissingChannelId", method: "GET", body: ""),
    Case(
      name: "no channel to delete", expected: "400 MissingChannelId", method: "DELETE", body: ""),
    Case(
      name: "an id that is not base64", expected: "400 BadChannelId", method: "GET", body: "",
      change: Case.setting("apns-channel-id", "a*b")),
    Case(
      name: "an id of 65 bytes", expected: "400 BadChannelId", method: "GET", body: "",
      change: Case.setting("apns-channel-id", String(repeating: "A", count: 87))),
    Case(
      name: "an id of 64 bytes", expected: "400 ChannelNotRegistered", method: "GET", body: "",
      change: Case.setting("apns-channel-id", String(repeating: "A", count: 86))),
    Case(
      name: "an id of nobody", expected: "400 ChannelNotRegistered", method: "DELETE", body: "",
      change: Case.setting("apns-channel-id", "AAAAAAAAAAAAAAAAAAAAAA==")),
    Case(name: "no body", expected: "400 PayloadEmpty", body: ""),
    Case(name: "no JSON", expected: "400 BadRequestPayload", body: "{"),
    Case(name: "an unknown member", expected: "400 BadRequestParams", body: #"{"name":"x"}"#),
    Case(
      name: "no push type", expected: "400 MissingPushType", body: #"{"message-storage-policy":1}"#),
    Case(
      name: "another push type", expected: "400 InvalidPushType",
      body: #"{"message-storage-policy":1,"push-type":"alert"}"#),
    Case(
      name: "another policy", expected: "400 BadRequestParams",
      body: #"{"message-storage-policy":7,"push-type":"LiveActivity"}"#),
    Case(
      name: "a large body", expected: "413 PayloadTooLarge",
      body: String(repeating: " ", count: 1025)),
  ]

  @Test("Each fault has its reason, and the connection stays usable", arguments: cases)
  func rejected(_ request: Case) throws {
    let manager = try Manager(service)
    let headers = request.change(
      Self.headers(request.method, request.path, manager.authorization))
    expectRefusal(
      try manager.client.exchange(headers, body: Array(request.body.utf8)), request.expected)
    #expect(try manager.ask("GET", Self.listPath).status == 200)
  }

  @Test(
    "Of two faults the earlier is told",
    arguments: [
      Case(
        name: "path, then method", expected: "404 BadPath", method: "PUT", path: "/1/apps/x/y"),
      Case(name: "method, then credential", expected: "405 MethodNotAllowed", method: "PUT") {
        $0.without("authorization")
      },
      Case(name: "credential, then request id", expected: "403 MissingProviderToken") {
        $0.without("authorization").setting("apns-request-id", "x")
      },
      Case(
        name: "request id, then app", expected: "400 BadMessageId",
        path: "/1/apps/com.example.foreign/channels",
        change: Case.setting("apns-request-id", "x")),
      Case(
        name: "app, then channel", expected: "403 TopicMismatch", method: "GET",
        path: "/1/apps/com.example.foreign/channels", body: ""),
      Case(
        name: "feature, then body", expected: "400 FeatureNotEnabled",
        path: "/1/apps/com.example.other/channels", body: "{"),
    ])
  func order(_ request: Case) throws { try rejected(request) }

  @Test("A key of another app is refused")
  func keyOfOtherApp() throws {
    let client = try service.provider(at: .channels)
    let token = try service.directory.unrelatedKey.token(issuedAt: TestDirectory.nowSeconds)
    expectRefusal(
      try client.exchange(Self.headers("GET", Self.listPath, "bearer \(token)"), body: []),
      "403 TopicMismatch")
  }

  @Test("Neither listener serves the other's requests")
  func listeners() throws {
    let provider = try service.provider()
    let response = try provider.exchange(
      Self.headers("GET", Self.listPath, service.authorization()), body: [])
    #expect(response.status == 404)
  }

  // MARK: What is durable

  @Test("Channels outlive the service, deleted ones do not")
  func restart() throws {
    let directory = try TestDirectory()
    let options = TestService.Options { $0.isEphemeral = false }
    let first = try Self.makeService(directory, options)
    let manager = try Manager(first)
    let kept = try (0..<3).map { _ in try manager.create() }
    #expect(try manager.ask("DELETE", Self.path, channel: kept[1]).status == 204)
    first.stop()
    let second = try TestService(directory, options)
    defer { second.stop() }
    let again = try Manager(second)
    #expect(try again.list() == [kept[0], kept[2]])
    #expect(try again.ask("GET", Self.path, channel: kept[2]).bodyText == Self.newest)
  }

  @Test("Switching broadcasts off deletes the app's channels, for good")
  func switchedOff() throws {
    let log = AwaitedLog()
    let service = try Self.makeService(
      nil,
      .init {
        $0.logLevel = .notice
        $0.logSink = { log.add($0) }
      })
    defer { service.stop() }
    let manager = try Manager(service)
    let id = try manager.create()
    try service.directory.data.changeApp(TestDirectory.topic, broadcasts: false)
    service.service.reload()
    try log.await("channels deleted")
    expectRefusal(try manager.ask("GET", Self.listPath), "400 FeatureNotEnabled")
    try service.directory.data.changeApp(TestDirectory.topic, broadcasts: true)
    service.service.reload()
    expectRefusal(try manager.ask("GET", Self.path, channel: id), "400 ChannelNotRegistered")
    #expect(try manager.list().isEmpty)
  }

  @Test("While the store refuses, changes are answered 503 and have no effect")
  func unavailable() throws {
    let store = MemoryStore()
    let service = try Self.makeService(nil, .init { $0.store = store })
    defer { service.stop() }
    let manager = try Manager(service)
    let id = try manager.create()
    for (method, channel, body) in [("POST", nil, Self.newest), ("DELETE", id, "")] {
      // The order of acceptance and the ledger write as well.
      store.failNextCommits(1000, with: .unavailable)
      expectRefusal(
        try manager.ask(method, Self.path, channel: channel, body: body), "503 ServiceUnavailable")
      store.failNextCommits(0, with: .unavailable)
    }
    #expect(try manager.list() == [id])
  }

  @Test("A channel that could not be written does not exist")
  func refused() throws {
    let store = MemoryStore(mode: .manual)
    let register = try ChannelRegister(reading: store)
    let outcomes = Mutex<[StoreError?]>([])
    store.failNextCommits(1, with: .diskFull(path: "x", detail: "no space"))
    try register.create(Self.channel(1)) { error in outcomes.withLock { $0.append(error) } }
    store.runCommits()
    #expect(outcomes.withLock { $0.count } == 1)
    #expect(outcomes.withLock { $0[0] } != nil)
    #expect(register.channels(of: AppID(7), in: .production).isEmpty)
  }

  private static func channel(_ number: UInt64, app: AppID = AppID(7)) -> Channel {
    Channel(
      id: ChannelID(high: 1, low: number), app: app, environment: .production, storage: .none,
      createdMilliseconds: Int64(number))
  }

  @Test("An app has 10,000 channels in an environment, counting those that are being written")
  func limit() throws {
    let store = MemoryStore(mode: .manual)
    let register = try ChannelRegister(reading: store)
    for number in 1...9_999 as ClosedRange<UInt64> {
      try register.create(Self.channel(number)) { _ in }
    }
    store.runCommits()
    try register.create(Self.channel(10_000)) { _ in }
    #expect(throws: Refusal(.channel(.tooMany(AppID(7))))) {
      try register.create(Self.channel(10_001)) { _ in }
    }
    try register.create(Self.channel(10_001, app: AppID(8))) { _ in }
    store.runCommits()
    #expect(register.channels(of: AppID(7), in: .production).count == 10_000)
    register.delete(Self.channel(5)) { _ in }
    store.runCommits()
    try register.create(Self.channel(10_002)) { _ in }
    store.runCommits()
    #expect(
      try ChannelRegister(reading: store).channels(of: AppID(7), in: .production).count == 10_000
    )
  }
}

/// Checks a rejected request about channels: `expected` is the status and the reason.
func expectRefusal(
  _ response: RawResponse, _ expected: String, sourceLocation: SourceLocation = #_sourceLocation
) {
  let reason = expected.split(separator: " ")[1]
  #expect(
    "\(response.status ?? 0) \(reason)" == expected
      && response.bodyText == #"{"reason":"\#(reason)"}"#,
    "\(response.status ?? 0) \(response.bodyText), expected \(expected)",
    sourceLocation: sourceLocation)
  #expect(
    response.headers.map(\.name) == [":status", "content-type", "apns-request-id"],
    sourceLocation: sourceLocation)
  #expect(response["content-type"] == "application/json", sourceLocation: sourceLocation)
  #expect(response["apns-request-id"]?.isUUID == true, sourceLocation: sourceLocation)
}
