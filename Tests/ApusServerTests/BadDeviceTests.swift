import ApusLoop
import ApusModel
import ApusTesting
import Testing

/// Devices that break the rules: each gets its answer, and nobody else is affected.
@Suite("Misbehaving devices harm only themselves")
struct BadDeviceTests {
  let service: TestService

  init() throws { service = try Shared.service }

  private func push(_ token: String) throws -> Int? {
    try service.provider().exchange(
      service.pushHeaders(to: token, authorization: service.authorization()),
      body: TestService.payload
    ).status
  }

  @Test(
    "A device that acknowledges notifications it never received takes nothing from others")
  func strangeAcknowledgements() throws {
    try withBystanders(service) {
      let victim = try service.connect()
      let token = try victim.token()
      try victim.filter([(5, TestDirectory.topic)])
      _ = try victim.client.expect(0x0e)
      #expect(try push(token) == 200)
      let device = try service.connect()
      try device.enable(TestDirectory.topic)
      // Ids follow the order of acceptance, so these are ids of notifications in flight to others.
      for id in 0..<1000 as Range<UInt32> {
        try device.client.send(
          RawCourierFrame(0x0b, (1, device.baseToken), (4, bigEndian(id)), (8, [UInt8(id % 3)])))
      }
      try device.settle()
      try victim.filter([(2, TestDirectory.topic)])
      let frame = try victim.notification()
      #expect(frame[3] == TestService.payload)
      try victim.acknowledge(frame)
    }
  }

  @Test("A device that acknowledges each notification twice is counted once")
  func twice() throws {
    try withBystanders(service) {
      let device = try service.connect()
      let token = try device.token()
      try device.enable(TestDirectory.topic)
      for _ in 0..<3 {
        let provider = try service.provider()
        let stream = try provider.request(
          service.pushHeaders(to: token, authorization: service.authorization()),
          body: TestService.payload)
        let frame = try device.notification()
        for status in [0, 2, 0] as [UInt8] { try device.acknowledge(frame, status: status) }
        #expect(try provider.response(to: stream).status == 200)
      }
      try device.settle()
    }
    #expect(service.service.topicCounters().allSatisfy { $0.isBalanced })
  }

  @Test("A device that reconnects a hundred times without pause keeps its waiting notifications")
  func flapping() throws {
    let service = try TestService()
    let first = try service.connect()
    let token = try first.token()
    try first.enable(TestDirectory.topic)
    first.client.tls.close()
    let provider = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    provider.tls.close()
    try withBystanders(service) {
      for _ in 0..<100 {
        // Without a goodbye or waiting for the answer: some connections are taken over, and some refused.
        let client = try service.courier(first.device)
        try client.send(ConnectedDevice.connectMessage(token: first.baseToken))
        client.tls.reset()
      }
    }
    // Once the service has seen all of them end, the next one replaces no connection.
    let deadline = EventLoop.wallClockMilliseconds() + 20_000
    while service.service.connectionCount() > 0 {
      try #require(EventLoop.wallClockMilliseconds() < deadline)
    }
    let back = try service.connect(first.device)
    try back.filter([(2, TestDirectory.topic)])
    let frame = try back.notification()
    #expect(frame[3] == TestService.payload)
    try back.acknowledge(frame)
    try back.settle()
    service.stop()
  }

  @Test("A device may list 2,000 topics; more than 2,048 end its connection")
  func manyTopics() throws {
    try withBystanders(service) {
      let device = try service.connect()
      let token = try device.token()
      let own: [(list: UInt8, topic: String)] = [(2, TestDirectory.topic)]
      let others: [(list: UInt8, topic: String)] = (0..<2048).map { number in
        (UInt8(number % 5 + 2), "com.example.none\(number)")
      }
      try device.enable(TestDirectory.topic)
      for count in [2000, 2048, 2000] {
        try device.filter(own + others.prefix(count - 1))
      }
      try device.settle()
      let stream = try service.provider()
      let request = try stream.request(
        service.pushHeaders(to: token, authorization: service.authorization()),
        body: TestService.payload)
      try device.acknowledge(device.notification())
      #expect(try stream.response(to: request).status == 200)
      try device.filter(own + others)
      _ = try device.client.end()
    }
  }

  @Test("A provider whose clock is an hour off is told so or served, without affecting others")
  func providerClock() throws {
    try withBystanders(service) {
      let device = try service.connect()
      let token = try device.token()
      try device.filter([(5, TestDirectory.topic)])
      // The frame for no stored notifications is sent in its own turn, before or after the answer to a flush.
      _ = try device.client.expect(0x0e)
      try device.settle()
      let provider = try service.provider()
      let now = TestDirectory.nowSeconds
      for (issuedAt, status) in [(now - 3700, 403), (now + 3700, 403), (now - 1800, 200)] {
        let authorization = try "bearer \(service.directory.key.token(issuedAt: issuedAt))"
        let response = try service.provider().exchange(
          service.pushHeaders(to: token, authorization: authorization), body: TestService.payload)
        #expect(response.status == status, "\(issuedAt - now)")
      }
      // An expiration an hour ago, from a slow clock: accepted, and never stored.
      let headers =
        try service.pushHeaders(to: token, authorization: service.authorization()) + [
          RawHeader(.apnsExpiration, "\(now - 3600)")
        ]
      #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    }
  }
}
