import ApusModel
import ApusServer
import ApusTesting
import Testing

/// Requests of untrusted connections, or of one team, together with those of others.
@Suite("Untrusted clients and greedy teams that open streams", .serialized)
struct UntrustedStreamTests {
  private let service: TestService
  /// Of an offline device.
  private let token: String

  init() throws {
    service = try TestService(nil, TestService.Options { $0.workers = 1 })
    token = try service.connect().token()
  }

  private func headers(authorized: Bool) throws -> [RawHeader] {
    try service.pushHeaders(
      to: token, authorization: authorized ? service.authorization() : nil)
  }

  /// HEADERS of requests whose bodies follow later, in one write.
  private func open(
    _ count: Int, _ headers: [RawHeader], on client: RawHTTP2Client, preface: [UInt8] = []
  ) throws -> [UInt32] {
    let streams = (0..<count).map { _ in client.takeStream() }
    try client.tls.send(
      preface + streams.flatMap { HTTP2Frame.headers($0, headers, endsStream: false).bytes })
    return streams
  }

  /// A connection that opens a thousand streams and never acknowledges SETTINGS.
  private func untrusted(_ environment: Environment = .production) throws -> RawHTTP2Client {
    let client = RawHTTP2Client(try service.tls(.provider, environment, protocols: ["h2"]))
    client.acknowledgesSettings = false
    _ = try open(
      1000, headers(authorized: false), on: client,
      preface: HTTP2Frame.preface + HTTP2Frame.settings().bytes)
    return client
  }

  @Test("Of 300 streams before the first SETTINGS acknowledgement, 256 are answered and 44 refused")
  func beforeSettings() throws {
    defer { service.stop() }
    let client = RawHTTP2Client(try service.tls(.provider, protocols: ["h2"]))
    client.acknowledgesSettings = false
    let streams = try open(
      300, headers(authorized: false), on: client,
      preface: HTTP2Frame.preface + HTTP2Frame.settings().bytes)
    // RFC 9113, section 7: REFUSED_STREAM is 7.
    for stream in streams[256...] {
      guard case .reset(7) = try client.outcome(of: stream) else {
        Issue.record("stream \(stream) was accepted")
        return
      }
    }
    for stream in streams[..<256] { try client.send(.data(stream, TestService.payload)) }
    for stream in streams[..<256] { #expect(try client.response(to: stream).status == 403) }
    #expect(client.received.compactMap(\.goAway).isEmpty)
  }

  @Test("Forty untrusted clients at a provider's address block none of its requests")
  func besideUntrusted() throws {
    defer { service.stop() }
    let before = try service.provider()
    let good = try headers(authorized: true)
    #expect(try before.exchange(good, body: TestService.payload).status == 200)
    let untrustedClients = try (0..<40).map {
      try untrusted($0 % 2 == 0 ? .production : .development)
    }
    // Their input was processed: the last stream of the last one was refused.
    for untrusted in untrustedClients { _ = try untrusted.outcome(of: 1999) }
    let late = try service.provider()
    for provider in [before, late] {
      let first = try provider.exchange(good, body: TestService.payload)
      #expect(first.status == 200)
      try provider.ping()
      let streams = try open(64, good, on: provider)
      for stream in streams { try provider.send(.data(stream, TestService.payload)) }
      for stream in streams { #expect(try provider.response(to: stream).status == 200) }
    }
  }

  @Test("Three hundred connections of a team leave requests for another team")
  func greedyTeam() throws {
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    // The same bytes for each of them.
    let requests = try (0..<Limits.openRequestsGuaranteed).flatMap {
      try HTTP2Frame.headers(UInt32(2 * $0 + 1), headers(authorized: false), endsStream: false)
        .bytes
    }
    let greedy = try (0..<300).map { _ in
      let client = try service.provider(identity: identity)
      try client.tls.send(requests)
      return client
    }
    for client in greedy { try client.ping() }
    let refused = greedy.reduce(0) { count, client in
      count + client.received.count { $0.kind == HTTP2Frame.Kind.resetStream }
    }
    #expect(refused > 0, "the team had not used its share")
    // A connection of the other team is trusted although its device token is another team's.
    let now = TestDirectory.nowSeconds
    let foreign = try service.pushHeaders(
      to: token, topic: TestDirectory.foreignTopic,
      authorization: "bearer \(service.directory.foreignKey.token(issuedAt: now))")
    let provider = try service.provider()
    #expect(try provider.exchange(foreign, body: TestService.payload).status == 400)
    try provider.ping()
    let streams = try open(4 * Limits.openRequestsGuaranteed, foreign, on: provider)
    try provider.ping()
    #expect(!provider.received.contains { $0.kind == HTTP2Frame.Kind.resetStream })
    #expect(streams.count == 256)
  }

  @Test("A team on few connections that holds all it can leaves sixty-four for another of its own")
  func ownConnection() throws {
    defer { service.stop() }
    let good = try headers(authorized: true)
    let identity = try service.directory.providerIdentity()
    let requests = try (0..<Limits.concurrentStreams).flatMap {
      try HTTP2Frame.headers(UInt32(2 * $0 + 1), headers(authorized: false), endsStream: false)
        .bytes
    }
    let greedy = try (0..<Limits.openRequests / Limits.concurrentStreams).map { _ in
      let client = try service.provider(identity: identity)
      try client.tls.send(requests)
      return client
    }
    for client in greedy { try client.ping() }
    let provider = try service.provider()
    #expect(try provider.exchange(good, body: TestService.payload).status == 200)
    try provider.ping()
    let streams = try open(Limits.openRequestsGuaranteed, good, on: provider)
    for stream in streams { try provider.send(.data(stream, TestService.payload)) }
    for stream in streams { #expect(try provider.response(to: stream).status == 200) }
  }
}
