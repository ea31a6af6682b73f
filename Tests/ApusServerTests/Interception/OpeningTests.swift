import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import Testing

@Suite("Settings for the next connections", .serialized)
struct OpeningTests {
  let stage: Stage

  init() throws { stage = try Stage() }

  @Test(
    "A client refuses a certificate that is expired, foreign, or for another name")
  func certificates() throws {
    let token = try stage.token()
    let before = try stage.service.provider()
    for certificate in ConnectionOpening.Certificate.allCases where certificate != .good {
      stage.interceptor.open(ConnectionOpening(certificate: certificate))
      #expect(throws: (any Error).self, "\(certificate)") { try stage.service.provider() }
      #expect(throws: (any Error).self, "\(certificate)") { try stage.service.gateway() }
      // Devices are not affected.
      _ = try stage.service.connect()
    }
    stage.interceptor.open(ConnectionOpening())
    for provider in [before, try stage.service.provider()] {
      let answer = try provider.exchange(stage.headers(token), body: TestService.payload)
      #expect(answer.status == 200)
    }
  }

  @Test("A stream limit applies from the start to the end")
  func streams() throws {
    let token = try stage.token()
    stage.interceptor.open(ConnectionOpening(maxConcurrentStreams: 3))
    let provider = try stage.service.provider()
    try provider.ping()
    #expect(try settings(provider)[3] == 3)
    let headers = stage.headers(token)
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    try provider.ping()
    let streams = (0..<4).map { _ in provider.takeStream() }
    try provider.send(streams.map { .headers($0, headers) })
    guard case .reset(7) = try provider.outcome(of: streams[3]) else {
      Issue.record("a fourth stream was accepted")
      return
    }
    try provider.send(streams.prefix(3).map { .data($0, TestService.payload) })
    for stream in streams.prefix(3) {
      #expect(try provider.response(to: stream).status == 200)
    }
    #expect(provider.received.filter { $0.kind == 4 && !$0.isAcknowledgement }.count == 1)
  }

  @Test("A small window passes a body in pieces")
  func window() throws {
    let token = try stage.token()
    stage.interceptor.open(ConnectionOpening(initialWindowBytes: 10))
    let provider = try stage.service.provider()
    try provider.ping()
    #expect(try settings(provider)[4] == 10)
    let stream = provider.takeStream()
    try provider.send(.headers(stream, stage.headers(token)))
    var rest = TestService.payload[...]
    var window = 10
    var seen = provider.received.count
    while !rest.isEmpty {
      if window == 0 {
        guard let frame = try provider.nextFrame() else { break }
        seen += 1
        if frame.kind == HTTP2Frame.Kind.windowUpdate, frame.stream == stream {
          window += frame.payload.reduce(0) { $0 << 8 | Int($1) }
        }
        continue
      }
      let piece = rest.prefix(window)
      rest = rest.dropFirst(piece.count)
      window -= piece.count
      try provider.send(.data(stream, Array(piece), endsStream: rest.isEmpty))
    }
    #expect(try provider.response(to: stream).status == 200)
    #expect(try stage.interceptor.exchange(token).request.payload == TestService.payload)
  }

  private func settings(_ provider: RawHTTP2Client) throws -> [Int: Int] {
    let frame = try provider.frame(awaiting: "SETTINGS") { $0.kind == 4 && !$0.isAcknowledgement }
    var settings: [Int: Int] = [:]
    for start in stride(from: 0, to: frame.payload.count, by: 6) {
      let number = frame.payload[start..<start + 2].reduce(0) { $0 << 8 | Int($1) }
      settings[number] = frame.payload[start + 2..<start + 6].reduce(0) { $0 << 8 | Int($1) }
    }
    return settings
  }

  // MARK: The clock

  private static let hour: Int64 = 3_600_000

  @Test("An hour on the clock makes a provider token too old, and a new one valid")
  func tokenAge() throws {
    let token = try stage.token()
    let provider = try stage.service.provider()
    let headers = stage.headers(token)
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    stage.interceptor.clock.advance(byMilliseconds: Self.hour + 120_000)
    let late = try provider.exchange(headers, body: TestService.payload)
    expectRefusal(late, 403, "ExpiredProviderToken")
    let now = stage.interceptor.clock.nowMilliseconds
    #expect(now > EventLoop.wallClockMilliseconds() + Self.hour)
    let fresh = try stage.service.directory.key.token(issuedAt: now / 1000)
    let answer = try provider.exchange(
      headers.setting("authorization", "bearer \(fresh)"), body: TestService.payload)
    #expect(answer.status == 200)
    let exchange = try #require(stage.interceptor.exchanges(token, count: 3).last)
    #expect(exchange.request.receivedMilliseconds >= now)
    stage.interceptor.clock.reset()
    let before = try provider.exchange(
      headers.setting("authorization", "bearer \(fresh)"), body: TestService.payload)
    expectRefusal(before, 403, "InvalidProviderToken")
  }

  @Test("A notification with an expiration expires once the clock passes it")
  func expiry() throws {
    let device = try stage.service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    device.client.tls.close()
    let provider = try stage.service.provider()
    let until = EventLoop.wallClockMilliseconds() / 1000 + 1800
    let headers = stage.headers(token).setting("apns-expiration", "\(until)")
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    #expect(stage.service.service.counts()[.expired, default: 0] == 0)
    stage.interceptor.clock.set(toMilliseconds: (until + 1) * 1000)
    try waitUntil("the end of what is stored") {
      stage.service.service.clockChanged()
      return stage.service.service.counts()[.expired, default: 0] == 1
    }
    // The device finds nothing; `enable` waits for that answer.
    let again = try stage.service.connect(device.device)
    try again.enable(TestDirectory.topic)
    #expect(stage.interceptor.clock.offsetMilliseconds > 1_700_000)
  }

  @Test("Only a provider that was idle for an hour of that clock is disconnected")
  func idle() throws {
    let token = try stage.token()
    let (quiet, gateway) = (try stage.service.provider(), try stage.service.gateway())
    try quiet.ping()
    stage.interceptor.clock.advance(byMilliseconds: Self.hour - 60_000)
    let busy = try stage.service.provider()
    let now = stage.interceptor.clock.nowMilliseconds / 1000
    let fresh = try stage.service.directory.key.token(issuedAt: now)
    let headers = stage.headers(token).setting("authorization", "bearer \(fresh)")
    #expect(try busy.exchange(headers, body: TestService.payload).status == 200)
    stage.interceptor.clock.advance(byMilliseconds: 120_000)
    stage.service.service.clockChanged()
    let end = try quiet.end()
    #expect(end.goAways.map(\.debugData) == [#"{"reason":"IdleTimeout"}"#])
    #expect(try busy.exchange(headers, body: TestService.payload).status == 200)
    stage.interceptor.clock.advance(byMilliseconds: 24 * Self.hour)
    stage.service.service.clockChanged()
    try expectEnd(gateway, nil)
  }
}
