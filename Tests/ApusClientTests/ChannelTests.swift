import ApusHTTP2
import ApusModel
import Testing

@testable import ApusClient

private let channelText = "dHN0LXNyY2gtY2hubA=="

@Suite("Requests about channels on the wire")
struct ChannelWireTests {
  private let id = Bench.id(1)
  private let idText = "01234567-89ab-cdef-0000-000000000001"

  private func text(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }

  private func channel() throws -> BroadcastChannel.ID {
    try #require(BroadcastChannel.ID(channelText))
  }

  /// Sends a request through a dispatcher, and returns its frames.
  private func frames(_ request: ChannelRequest) throws -> [Frames.Frame] {
    let bench = Bench(authorization: [])
    let send = PendingSend(
      push: try EncodedPush(request, app: "com.example.app", id: id), timeoutMilliseconds: 30_000
    ) { _ in }
    bench.dispatcher.add(send, nowMilliseconds: bench.now)
    return Frames.read(bench.take(bench.connect())).filter { $0.type <= 0x1 }
  }

  // RFC 7541: 0x82 is GET, 0x83 POST, 0x87 https; 0x41 and 0x42 are new entries for `:authority` and `:method`, 0x14
  // is `:path`, 0x10 a new name, both never indexed; 0x40 is a new entry with a new name.
  private var authority: [UInt8] { [0x87, 0x41] + text("push.example") }
  private var requestID: [UInt8] { [0x10] + text("apns-request-id") + text(idText) }
  private var channelID: [UInt8] { [0x40] + text("apns-channel-id") + text(channelText) }
  private var channels: [UInt8] { [0x14] + text("/1/apps/com.example.app/channels") }

  @Test("Create", arguments: ChannelStorage.allCases)
  func create(storage: ChannelStorage) throws {
    let policy = storage == .none ? "0" : "1"
    let body = #"{"message-storage-policy":\#(policy),"push-type":"LiveActivity"}"#
    #expect(
      try frames(.create(storage)) == [
        Frames.Frame(
          type: 0x1, flags: 0x4, stream: 1, payload: [0x83] + authority + channels + requestID),
        Frames.Frame(type: 0x0, flags: 0x1, stream: 1, payload: Array(body.utf8)),
      ])
  }

  @Test("Read and delete, which have no body")
  func readAndDelete() throws {
    let end = channels + requestID + channelID
    #expect(
      try frames(.read(channel())) == [
        Frames.Frame(type: 0x1, flags: 0x5, stream: 1, payload: authority + [0x82] + end)
      ])
    #expect(
      try frames(.delete(channel())) == [
        Frames.Frame(
          type: 0x1, flags: 0x5, stream: 1, payload: authority + [0x42] + text("DELETE") + end)
      ])
  }

  @Test("List")
  func list() throws {
    let path = [0x14] + text("/1/apps/com.example.app/all-channels")
    #expect(
      try frames(.list) == [
        Frames.Frame(
          type: 0x1, flags: 0x5, stream: 1, payload: authority + [0x82] + path + requestID)
      ])
  }

  // MARK: What is repeated

  private func outcome(
    of request: ChannelRequest, _ body: (Bench, ProviderSession) -> Void
  ) throws -> (outcome: SendOutcome?, isOpen: Bool) {
    let bench = Bench(authorization: [])
    var outcome: SendOutcome?
    let send = PendingSend(
      push: try EncodedPush(request, app: "com.example.app", id: id), timeoutMilliseconds: 30_000
    ) { outcome = $0 }
    bench.dispatcher.add(send, nowMilliseconds: bench.now)
    let session = bench.connect()
    _ = bench.take(session)
    body(bench, session)
    return (outcome, bench.dispatcher.openCount == 1)
  }

  @Test("After a lost connection only what changes nothing is repeated")
  func lost() throws {
    for request in [.create(.none), .delete(try channel())] as [ChannelRequest] {
      guard
        case (.unknown(_, retryMayDuplicate: true)?, false) = try outcome(
          of: request, { bench, session in bench.lose(session) })
      else {
        Issue.record("\(request) has no unknown outcome")
        continue
      }
    }
    for request in [.list, .read(try channel())] as [ChannelRequest] {
      let result = try outcome(of: request) { bench, session in bench.lose(session) }
      #expect(result.outcome == nil && result.isOpen)
    }
  }

  @Test(
    "A service that failed may have changed a channel; one that is busy has not",
    arguments: [
      ("500", "InternalServerError", false), ("503", "ServiceUnavailable", true),
      ("429", "TooManyRequests", true),
    ])
  func refusals(status: String, reason: String, isRepeated: Bool) throws {
    let answer = Frames.answer(1, status: status, body: #"{"reason":"\#(reason)"}"#)
    let create = try outcome(of: .create(.newest)) { bench, session in bench.give(session, answer) }
    #expect((create.outcome == nil) == isRepeated)
    let list = try outcome(of: .list) { bench, session in bench.give(session, answer) }
    #expect(list.outcome == nil && list.isOpen)
  }

  @Test("The connection for channels closes when nobody needs it")
  func idle() throws {
    let bench = Bench(authorization: []) { $0.idleConnections = 0 }
    try bench.send(1...1)
    let session = bench.connect()
    _ = bench.take(session)
    bench.give(session, Frames.ok(1))
    bench.wait(milliseconds: 59_999)
    #expect(!session.isDone)
    bench.wait(milliseconds: 1)
    #expect(session.isDone)
    try bench.send(2...2)
    #expect(Frames.opened(bench.take(bench.connect())) == [1])
  }
}

@Suite("The client for channels", .timeLimit(.minutes(30)))
struct ChannelClientTests {
  private func client(_ service: ScriptedService) throws -> ChannelClient {
    var configuration = try service.configuration()
    configuration.channelsEndpoint = configuration.endpoint
    configuration.endpoint = .apple(.production)
    configuration.sendTimeoutSeconds = 20
    return try ChannelClient(configuration)
  }

  private func answer(
    _ status: String, _ fields: [(String, String)] = [], body: String = ""
  ) -> ScriptedService.Action {
    .frames { Frames.answer($0, [(":status", status)] + fields, body: body) }
  }

  @Test("It creates, reads, lists and deletes channels on one connection")
  func all() async throws {
    let service = try ScriptedService([
      [
        answer("201", [("apns-channel-id", channelText)]),
        answer("200", body: #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#),
        answer("200", body: #"{"channels":["\#(channelText)","YQ=="]}"#),
        answer("204"), answer("200", body: #"{"channels":[]}"#),
      ]
    ])
    let client = try client(service)
    let id = try await client.create(app: "com.example.app", storage: .newest)
    #expect(id.text == channelText)
    #expect(
      try await client.read(id, app: "com.example.app")
        == BroadcastChannel(id: id, storage: .newest))
    #expect(try await client.list(app: "com.example.app").map(\.text) == [channelText, "YQ=="])
    try await client.delete(id, app: "com.example.app")
    #expect(try await client.list(app: "com.example.app") == [])
    await client.close()
    #expect(
      service.lines == [
        [
          "POST /1/apps/com.example.app/channels", "GET /1/apps/com.example.app/channels",
          "GET /1/apps/com.example.app/all-channels", "DELETE /1/apps/com.example.app/channels",
          "GET /1/apps/com.example.app/all-channels",
        ]
      ])
  }

  @Test("A list may be long")
  func longList() async throws {
    let ids = [String](repeating: channelText, count: 2000)
    let body = #"{"channels":["\#(ids.joined(separator: #"",""#))"]}"#
    let service = try ScriptedService([[answer("200", body: body)]])
    let client = try client(service)
    #expect(try await client.list(app: "a").map(\.text) == ids)
    await client.close()
  }

  private func failure<Value>(
    _ service: ScriptedService, _ body: (ChannelClient) async throws -> Value
  ) async throws -> ChannelError {
    let client = try client(service)
    do {
      _ = try await body(client)
      Issue.record("it has no error")
      throw CancellationError()
    } catch let error as ChannelError {
      await client.close()
      return error
    }
  }

  @Test(
    "A rejection is thrown with status and reason, known to the client or not",
    arguments: [
      ("400", "FeatureNotEnabled"), ("400", "MissingChannelId"), ("400", "BadChannelId"),
      ("400", "ChannelNotRegistered"), ("400", "BadRequestParams"), ("400", "BadRequestPayload"),
      ("400", "CannotCreateChannelConfig"), ("400", "TopicDisallowed"), ("400", "PayloadEmpty"),
      ("400", "BadMessageId"), ("403", "TopicMismatch"), ("403", "InvalidProviderToken"),
      ("404", "BadPath"), ("405", "MethodNotAllowed"), ("500", "InternalServerError"),
    ])
  func rejected(status: String, reason: String) async throws {
    let service = try ScriptedService([[answer(status, body: #"{"reason":"\#(reason)"}"#)]])
    let error = try await failure(service) {
      try await $0.create(app: "com.example.app", storage: .none)
    }
    guard case .rejected(let rejection) = error.kind else {
      Issue.record("\(error)")
      return
    }
    #expect("\(rejection.status)" == status && rejection.reason.rawValue == reason)
    #expect(error.description.hasPrefix("\(status) \(reason)"))
    #expect(service.seen.map(\.count) == [1])
  }

  @Test("A create without an answer is not repeated, and its error says what to do")
  func lostCreate() async throws {
    let service = try ScriptedService([[.cut], []])
    let error = try await failure(service) {
      try await $0.create(app: "com.example.app", storage: .none)
    }
    guard case .unknown(let cause, mayBeDone: true) = error.kind else {
      Issue.record("\(error)")
      return
    }
    #expect(cause.code == .connectionLost)
    #expect(error.description.contains("the channel may exist"))
    #expect(error.description.contains("list the app's channels first"))
    #expect(service.seen.map(\.count) == [1])
  }

  @Test("A read on a connection that ends is repeated on the next")
  func lostRead() async throws {
    let body = #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#
    let service = try ScriptedService([
      [.accept, .cut], [answer("200", body: body)],
    ])
    let client = try client(service)
    let id = try #require(BroadcastChannel.ID(channelText))
    // The first answer makes the connection one that works.
    try await client.delete(id, app: "a")
    #expect(try await client.read(id, app: "a").storage == .none)
    await client.close()
    #expect(service.seen.map(\.count) == [2, 1])
    #expect(service.seen[0][1] == service.seen[1][0])
  }

  @Test("An answer without what was asked for is an error")
  func misunderstood() async throws {
    let id = try #require(BroadcastChannel.ID(channelText))
    let reads = ["", "{}", #"{"message-storage-policy":2}"#, "<html>"]
    for body in reads {
      let service = try ScriptedService([[answer("200", body: body)]])
      let error = try await failure(service) { try await $0.read(id, app: "a") }
      guard case .unknown(let cause, mayBeDone: false) = error.kind else {
        Issue.record("\(error)")
        continue
      }
      #expect(cause.code == .answerNotUnderstood)
    }
    for body in ["", "[]", #"{"channels":[1]}"#, #"{"channels":["!"]}"#] {
      let service = try ScriptedService([[answer("200", body: body)]])
      let error = try await failure(service) { try await $0.list(app: "a") }
      #expect("\(error)" == "no answer (answer not understood: it contains no list of ids)")
    }
    let service = try ScriptedService([[answer("201")]])
    let error = try await failure(service) { try await $0.create(app: "a", storage: .none) }
    guard case .unknown(_, mayBeDone: true) = error.kind else {
      Issue.record("\(error)")
      return
    }
  }

  @Test("An invalid bundle id, and a closed client, send nothing")
  func nothing() async throws {
    let service = try ScriptedService([])
    let error = try await failure(service) { try await $0.list(app: "a/b") }
    guard case .invalid(let problem) = error.kind else {
      Issue.record("\(error)")
      return
    }
    #expect(problem.code == .invalidTopic)
    let client = try client(service)
    await client.close()
    await #expect(throws: ChannelError.self) { try await client.list(app: "a") }
    #expect(service.seen == [])
  }

  @Test(
    "The endpoint for channels follows from that for pushes",
    arguments: [
      ("api.push.apple.com", "api-manage-broadcast.push.apple.com:2196"),
      ("api.push.apple.com:2197", "api-manage-broadcast.push.apple.com:2196"),
      ("api.sandbox.push.apple.com", "api-manage-broadcast.sandbox.push.apple.com:2195"),
      ("api.development.push.apple.com", "api-manage-broadcast.sandbox.push.apple.com:2195"),
      ("push.example:2197", "push.example:2199"), ("[::1]:2198", "[::1]:2200"),
      ("push.example", nil), ("notpush.apple.com", nil),
    ] as [(String, String?)])
  func endpoints(pushes: String, channels: String?) throws {
    var configuration = ClientConfiguration(
      endpoint: try #require(Endpoint(pushes)),
      credential: .pkcs12File(path: "a.p12", password: ""))
    func derived() -> String? { (try? configuration.forChannels())?.endpoint.description }
    #expect(derived() == channels)
    configuration.channelsEndpoint = Endpoint(host: "other.example", port: 1)
    #expect(derived() == "other.example:1")
  }
}
