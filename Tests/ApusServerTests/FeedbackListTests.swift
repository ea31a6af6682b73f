import ApusModel
import ApusStore
import ApusTesting
import Testing

@Suite("Contents of the feedback list")
struct FeedbackListTests {
  @Test("A removed app is listed without a push, with the same second as its 410")
  func dropped() throws {
    let bench = try FeedbackBench()
    let device = try bench.service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    #expect(try bench.read().isEmpty)
    try device.filter([])
    try device.settle()
    try bench.waitForCount(1)
    let tuples = try bench.read()
    #expect(tuples.map(\.token) == [hex(token)])
    let answer = try bench.service.provider().exchange(
      bench.service.pushHeaders(to: token, authorization: bench.service.authorization()),
      body: TestService.payload)
    #expect(answer.status == 410)
    #expect(Int64(tuples[0].seconds) == timestamp(answer) / 1000)
  }

  /// The milliseconds in `{"reason":"Unregistered","timestamp":…}`.
  func timestamp(_ answer: RawResponse) -> Int64 {
    Int64(answer.bodyText.filter(\.isNumber)) ?? 0
  }

  @Test("An app that returns within the grace period is not listed")
  func grace() throws {
    let bench = try FeedbackBench(graceSeconds: 3600)
    let device = try bench.service.connect()
    let token = try hex(device.token())
    try device.enable(TestDirectory.topic)
    try device.filter([])
    try device.enable(TestDirectory.topic)
    let client = try bench.service.gateway(.confirming, identity: bench.identity)
    try client.send(GatewayFrame.framed(1, token))
    try device.acknowledge(device.notification())
    #expect(try client.packet() == GatewayFrame.packet(0, 1))
    #expect(try bench.stored().isEmpty)
    #expect(try bench.read().isEmpty)
  }

  @Test("A binary push to an inactive token is accepted, dropped, and listed once")
  func gatewayPush() throws {
    let bench = try FeedbackBench()
    let token = try hex(
      bench.service.directory.deviceToken(bench.service.directory.device().id).hex)
    let client = try bench.service.gateway(.confirming, identity: bench.identity)
    for identifier in UInt32(1)...20 {
      try client.send(GatewayFrame.framed(identifier, token))
      #expect(try client.packet() == GatewayFrame.packet(0, identifier))
    }
    try client.send(GatewayFrame.knownBad(21))
    try expectEnd(client, GatewayFrame.packet(2, 21))
    try waitUntil("the token to be listed") { try !bench.stored().isEmpty }
    let counts = bench.service.service.counts()
    #expect(counts[.received] == 20 && counts[.discardedTokenUnregistered] == 20)
    let tuples = try bench.read()
    #expect(tuples.map(\.token) == [token])
    let now = TestDirectory.nowSeconds
    #expect((now - 60...now).contains(Int64(tuples[0].seconds)))
  }

  @Test("An HTTP/2 push to an inactive token is rejected, and listed too")
  func http2Push() throws {
    let bench = try FeedbackBench()
    let token = try bench.service.directory.deviceToken(bench.service.directory.device().id).hex
    let provider = try bench.service.provider()
    let headers = try bench.service.pushHeaders(
      to: token, authorization: bench.service.authorization())
    let answer = try provider.exchange(headers, body: TestService.payload)
    #expect(answer.status == 410)
    try bench.waitForCount(1)
    #expect(
      try bench.read()
        == [RawFeedbackTuple(seconds: UInt32(timestamp(answer) / 1000), token: hex(token))])
  }

  @Test("A token replaced by another installation is listed, the new one is not")
  func superseded() throws {
    let bench = try FeedbackBench()
    let device = try bench.service.connect()
    let old = try hex(device.token())
    try device.enable(TestDirectory.topic)
    try device.filter([])
    try device.settle()
    try bench.waitForCount(1)
    #expect(try bench.read().map(\.token) == [old])
    try bench.waitForCount(0)
    let new = try hex(device.token())
    #expect(new != old)
    try device.filter([(2, TestDirectory.topic)])
    _ = try device.client.expect(0x0e)
    let client = try bench.service.gateway(.confirming, identity: bench.identity)
    try client.send(GatewayFrame.framed(1, old))
    #expect(try client.packet() == GatewayFrame.packet(0, 1))
    try client.send(GatewayFrame.framed(2, new))
    try device.acknowledge(device.notification())
    #expect(try client.packet() == GatewayFrame.packet(0, 2))
    try bench.waitForCount(1)
    #expect(try bench.read().map(\.token) == [old])
  }

  @Test("Each topic and each environment has its own list")
  func lists() throws {
    let bench = try FeedbackBench()
    let service = bench.service
    let voip = "\(TestDirectory.topic).voip"
    let keys: [(String, TopicKey, Environment)] = Environment.allCases.flatMap {
      [
        (TestDirectory.topic, TopicKey(app: AppID(1)), $0),
        (voip, TopicKey(app: AppID(1), suffix: .voip), $0),
        (TestDirectory.otherTopic, TopicKey(app: AppID(2)), $0),
      ]
    }
    for (index, key) in keys.enumerated() {
      try bench.add(
        FeedbackBench.rows(index + 1, from: 100 * index),
        to: FeedbackTopic(topic: key.1, environment: key.2))
    }
    for (index, key) in keys.enumerated() {
      let tuples = try service.feedback(key.2, topic: key.0)
      #expect(tuples == FeedbackBench.rows(index + 1, from: 100 * index).map(FeedbackBench.tuple))
    }
  }

  @Test("Rows survive a restart, and are removed for good after reading")
  func restart() throws {
    let directory = try TestDirectory()
    let durable = TestService.Options { $0.isEphemeral = false }
    let identity = try directory.providerIdentity()
    let tokens = try (0..<30).map { _ in
      try hex(directory.deviceToken(directory.device().id).hex)
    }
    let first = try TestService(directory, durable)
    let client = try first.gateway(identity: identity)
    try client.send(tokens.flatMap { GatewayFrame.framed(1, $0) }, GatewayFrame.knownBad(2))
    try expectEnd(client, GatewayFrame.packet(2, 2))
    first.stop()
    let second = try TestService(directory, durable)
    let tuples = try second.feedback(identity: identity)
    #expect(Set(tuples.map(\.token)) == Set(tokens) && tuples.count == tokens.count)
    #expect(tuples.map(\.seconds) == tuples.map(\.seconds).sorted())
    second.stop()
    let third = try TestService(directory, durable)
    defer { third.stop() }
    #expect(try third.feedback(identity: identity).isEmpty)
  }
}
