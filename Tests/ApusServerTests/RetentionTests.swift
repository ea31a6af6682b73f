import ApusDirectory
import ApusModel
import ApusServer
import ApusTesting
import Testing

/// How many notifications of an app wait for a device, and how many requests are allowed.
@Suite("Retention and rate limits")
struct RetentionTests {
  private func service(_ change: (inout TestService.Options) -> Void = { _ in }) throws
    -> TestService
  {
    try TestService(nil, .init(change))
  }

  private func retain(_ text: String?, _ service: TestService) throws {
    var records = try service.directory.data.records()
    for index in records.sections.indices
    where records.sections[index].kind == "app"
      && records.sections[index].name == TestDirectory.topic
    {
      records.sections[index].values.removeAll { $0.key == "retain" }
      if let text { records.sections[index].values.append((key: "retain", value: text)) }
    }
    try service.directory.data.save(records)
  }

  private func payload(_ number: Int) -> [UInt8] {
    Array(#"{"aps":{"alert":"\#(number)"}}"#.utf8)
  }

  private func push(
    _ numbers: ClosedRange<Int>, to token: String, _ service: TestService
  ) throws -> [Int?] {
    let provider = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    return try numbers.map { try provider.exchange(headers, body: payload($0)).status }
  }

  /// The payloads that a connecting device receives, up to the last one from storage.
  private func fetch(_ device: TestDevice, _ service: TestService) throws -> [[UInt8]?] {
    let connected = try service.connect(device)
    try connected.filter([(2, TestDirectory.topic)])
    var payloads: [[UInt8]?] = []
    while true {
      let frame = try connected.notification()
      payloads.append(frame[3])
      try connected.acknowledge(frame)
      if frame[7] == [3] { break }
    }
    try connected.settle()
    connected.client.tls.close()
    try service.awaitConnections(0)
    return payloads
  }

  @Test("The configured number of an app's newest notifications waits, and a reload changes it")
  func retained() throws {
    let service = try service { $0.isEphemeral = false }
    let (device, token) = try service.absentDevice()
    #expect(try push(1...3, to: token, service) == [200, 200, 200])
    #expect(try fetch(device, service) == [payload(3)])
    try retain("3", service)
    service.service.reload()
    _ = try push(1...5, to: token, service)
    #expect(try fetch(device, service) == (3...5).map(payload))
    // They are on the disk, each in its slot.
    _ = try push(6...9, to: token, service)
    service.stop()
    let next = try TestService(service.directory, .init { $0.isEphemeral = false })
    _ = try push(10...10, to: token, next)
    #expect(try fetch(device, next) == (8...10).map(payload))
    try retain(nil, next)
    next.service.reload()
    _ = try push(11...12, to: token, next)
    #expect(try fetch(device, next) == [payload(12)])
    #expect(next.service.topicCounters().allSatisfy { $0.isBalanced && $0.pending == 0 })
    next.stop()
  }

  @Test(
    "An invalid number is rejected with its line",
    arguments: [
      ("many", "retain must be a number of notifications, not \"many\""),
      ("0", "app \"com.example.app\" retains 0 notifications for a device: choose 1 to 100"),
      ("101", "app \"com.example.app\" retains 101 notifications for a device: choose 1 to 100"),
    ])
  func wrong(text: String, problem: String) throws {
    let service = try Shared.service
    let directory = try TestDirectory()
    var records = try directory.data.records()
    let index = try #require(records.sections.firstIndex { $0.name == TestDirectory.topic })
    records.sections[index].values.append((key: "retain", value: text))
    try directory.data.save(records)
    let error = #expect(throws: DirectoryProblem.self) {
      try directory.data.trust(generation: 2, allowsES512: false)
    }
    #expect(error?.description.hasSuffix(problem) == true)
    _ = service
  }

  @Test(
    "Requests for a token beyond the operator's limit are rejected; other tokens are not affected")
  func rate() throws {
    let service = try service {
      $0.requestsPerTokenPerSecond = 1
      $0.requestsPerToken = 3
    }
    try withBystanders(service) {
      let device = try service.connect()
      let token = try device.token()
      let other = try device.token(TestDirectory.otherTopic)
      try device.filter([(5, TestDirectory.topic), (5, TestDirectory.otherTopic)])
      try device.settle()
      let provider = try service.provider()
      // One for all: a connection may not change it within 20 minutes.
      let authorization = try service.authorization()
      let headers = service.pushHeaders(to: token, authorization: authorization)
      var statuses: [Int?] = []
      while statuses.last != 429, statuses.count < 100 {
        let response = try provider.exchange(headers, body: payload(1))
        statuses.append(response.status)
        if response.status == 429 { expectRefusal(response, 429, "TooManyRequests") }
      }
      // On a slow machine the limit recovers by one or two meanwhile.
      #expect(statuses.count >= 4 && statuses.count < 100)
      let others = service.pushHeaders(
        to: other, topic: TestDirectory.otherTopic, authorization: authorization)
      let answer = try provider.exchange(others, body: payload(1))
      #expect(answer.status == 200, "\(answer)")
      #expect(service.service.rejections()[.tooManyRequests] == 1)
    }
    service.stop()
  }

  @Test(
    "A notification is kept for at most 30 days, however far its expiration",
    arguments: [(29, 29), (31, 30), (3650, 30)] as [(Int64, Int64)])
  func longestStorage(askedDays: Int64, keptDays: Int64) throws {
    let service = try Shared.service
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    let provider = try service.provider()
    let before = TestDirectory.nowSeconds
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
      .setting("apns-expiration", "\(before + askedDays * 86_400)")
    let stream = try provider.request(headers, body: payload(1))
    let frame = try device.notification()
    let after = TestDirectory.nowSeconds
    let expiration = (frame[5] ?? []).reduce(Int64(0)) { $0 << 8 | Int64($1) }
    // The service's clock was between the two, and matters only if it limits.
    let latest = askedDays > keptDays ? after : before
    #expect((before + keptDays * 86_400...latest + keptDays * 86_400).contains(expiration))
    try device.acknowledge(frame)
    #expect(try provider.response(to: stream).status == 200)
  }

  @Test("Without a limit no request is rejected")
  func unlimited() throws {
    let service = try service {
      $0.requestsPerTokenPerSecond = 0
      $0.requestsPerToken = 1
    }
    let (_, token) = try service.absentDevice()
    #expect(try push(1...20, to: token, service) == [Int?](repeating: 200, count: 20))
    service.stop()
  }
}
