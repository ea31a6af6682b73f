import ApusCore
import ApusLoop
import ApusModel
import ApusServer
import ApusTesting
import ApusWire
import Testing

/// Providers that go on sending to tokens that have been dead for long.
@Suite("Pushes to dead tokens, as an operator sees them")
struct DeadTokenMetricsTests {
  private static let day: Int64 = 24 * 3600 * 1000

  @Test("Metrics and the list of apps count those to tokens that died more than a day ago")
  func counted() throws {
    let interceptor = TestInterceptor()
    let bench = try MonitoredService {
      $0.interceptor = interceptor
      $0.workers = 2
    }
    let service = bench.service
    defer { service.stop() }
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    try device.filter([])
    try device.settle()
    try expectCount(0, bench)
    try push(to: token, 1, service, interceptor)
    try expectCount(0, bench)
    interceptor.clock.advance(byMilliseconds: Self.day + 60_000)
    try push(to: token, 3, service, interceptor)
    try expectCount(3, bench)
  }

  /// Pushes on a new connection, each answered 410.
  private func push(
    to token: String, _ count: Int, _ service: TestService, _ interceptor: TestInterceptor
  ) throws {
    let now = interceptor.clock.nowMilliseconds / 1000
    let authorization = try "bearer \(service.directory.key.token(issuedAt: now))"
    let provider = try service.provider()
    let headers = service.pushHeaders(to: token, authorization: authorization)
    for _ in 0..<count {
      #expect(try provider.exchange(headers, body: TestService.payload).status == 410)
    }
  }

  private func expectCount(
    _ count: Int, _ bench: MonitoredService, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let (team, topic) = (bench.service.directory.team.text, TestDirectory.topic)
    let sample =
      #"apus_pushes_to_dead_tokens_total{team="\#(team)",topic="\#(topic)",environment="production"}"#
    #expect(
      try bench.metric(sample) == (count > 0 ? count : nil), sourceLocation: sourceLocation)
    let apps = try #require(try bench.json("v1", "apps")["apps"]?.array)
    for app in apps {
      let isOurs = app["topic"]?.string == topic
      #expect(
        app["dead_token_pushes"]?.integer == (isOurs ? Int64(count) : 0),
        sourceLocation: sourceLocation)
    }
    #expect(apps.contains { $0["topic"]?.string == topic }, sourceLocation: sourceLocation)
  }
}
