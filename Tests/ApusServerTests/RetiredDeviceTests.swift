import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusStore
import ApusTesting
import Testing

@Suite("Retired devices")
struct RetiredDeviceTests {
  let service: TestService
  /// Before the test, so that it differs from every time that the service reads.
  let since = TestDirectory.nowSeconds - 5

  private let store = MemoryStore()

  init() throws {
    let store = store
    service = try TestService(nil, .init { $0.store = store })
  }

  private func isListEmpty() throws -> Bool {
    var isEmpty = true
    try store.scan(.feedback, prefix: Span()) { _, _ in
      isEmpty = false
      return false
    }
    return isEmpty
  }

  private func retire(_ device: TestDevice) throws {
    try service.directory.data.retire(device.id, nowSeconds: since)
    service.service.reload()
  }

  private func push(_ token: String, _ service: TestService) throws -> RawResponse {
    try service.provider().exchange(
      service.pushHeaders(to: token, authorization: service.authorization()),
      body: TestService.payload)
  }

  /// Waits until this many notifications were discarded.
  private func awaitDiscarded(_ count: UInt64, _ service: TestService) throws {
    let deadline = EventLoop.wallClockMilliseconds() + 20_000
    while service.service.counts()[.discardedTokenUnregistered] != count {
      try #require(EventLoop.wallClockMilliseconds() < deadline)
    }
  }

  /// All that the feedback service has, once it has an entry.
  private func feedback(_ service: TestService) throws -> [UInt8] {
    let deadline = EventLoop.wallClockMilliseconds() + 20_000
    while true {
      let reader = try service.tls(
        .feedback, protocols: [], identity: service.directory.providerIdentity())
      let (bytes, end) = try reader.receiveAll()
      #expect(end == .closeNotify)
      try reader.finish()
      if !bytes.isEmpty { return bytes }
      try #require(EventLoop.wallClockMilliseconds() < deadline)
    }
  }

  private func feedbackRow(_ token: String) -> [UInt8] {
    bigEndian(UInt32(since)) + [0, 32] + hex(token)
  }

  @Test("The answer and the feedback service report the token with the same time")
  func tokens() throws {
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    try retire(device.device)
    _ = try device.client.end()
    // Without a push since the retirement.
    #expect(try feedback(service) == feedbackRow(token))
    // A push that comes before the service has seen the reader's end finds the token still listed, and adds nothing.
    try waitUntil("the entry to be removed") { try isListEmpty() }
    let response = try push(token, service)
    #expect(response.status == 410)
    #expect(response.bodyText == #"{"reason":"Unregistered","timestamp":\#(since)000}"#)
    #expect(try feedback(service) == feedbackRow(token))
  }

  @Test("Its connection ends immediately, and it cannot connect until the entry is removed")
  func connections() throws {
    try withBystanders(service) {
      let device = try service.connect()
      let token = try device.token()
      try device.enable(TestDirectory.topic)
      let records = try service.directory.data.records()
      try retire(device.device)
      let end = try device.client.end()
      #expect(end.frames.map(\.command) == [0x80])
      #expect(end.end == .closeNotify)
      for presented in [nil, device.baseToken] {
        let client = try service.courier(device.device)
        var response = RawCourierFrame(0)
        let line = try AuditLines(service).line("device.refused") {
          try client.send(ConnectedDevice.connectMessage(token: presented))
          response = try client.expect(0x08)
        }
        #expect(line["reason"] == "retired" && line["device"] == device.device.id.text, "\(line)")
        #expect(response[1] == [2])
        #expect(response.fieldIDs == [1, 4, 5, 6, 8, 10, 0x40])
        let explanation = String(decoding: response[0x40] ?? [], as: UTF8.self)
        #expect(explanation.contains("is retired"))
        #expect(explanation.contains("enrol it as a new device"))
        #expect(try client.end().frames.isEmpty)
      }
      try service.directory.data.save(records)
      service.service.reload()
      #expect(try push(token, service).status == 200)
      #expect(try service.connect(device.device).baseToken == device.baseToken)
    }
  }

  @Test("Its waiting and unacknowledged notifications are discarded and counted")
  func stored() throws {
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    // Sent, and stored because nobody acknowledges it.
    #expect(try push(token, service).status == 200)
    _ = try device.notification()
    let away = try service.connect()
    let awayToken = try away.token()
    try away.enable(TestDirectory.topic)
    away.client.tls.close()
    #expect(try push(awayToken, service).status == 200)
    let records = try service.directory.data.records()
    try service.directory.data.retire(away.device.id, nowSeconds: since)
    try retire(device.device)
    try awaitDiscarded(2, service)
    try service.directory.data.save(records)
    service.service.reload()
    for device in [device.device, away.device] {
      // Waits for the answer that nothing is stored.
      try service.connect(device).enable(TestDirectory.topic)
    }
    #expect(service.service.counts()[.discardedTokenUnregistered] == 2)
  }

  @Test("A device that was retired while the service was down is processed at the start")
  func atStart() throws {
    let options = TestService.Options { $0.isEphemeral = false }
    let first = try TestService(nil, options)
    let device = try first.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    device.client.tls.close()
    #expect(try push(token, first).status == 200)
    first.stop()
    try first.directory.data.retire(device.device.id, nowSeconds: since)
    let second = try TestService(first.directory, options)
    try awaitDiscarded(1, second)
    #expect(try feedback(second) == feedbackRow(token))
    second.stop()
  }

  @Test(
    "An invalid entry is rejected with its line",
    arguments: [
      ("[retired 0123]\nsince = 1", "a device id must have 16 hexadecimal digits"),
      ("[retired 0123456789abcdef]", "since must be the time in seconds since 1970"),
      ("[retired 0123456789abcdef]\nsince = -1", "since must be the time in seconds since 1970"),
      (
        "[retired 0123456789abcdef]\nsince = 9223372036854775",
        "since must be the time in seconds since 1970"
      ),
      (
        "[retired 0123456789abcdef]\nsince = 1\n[retired 0123456789ABCDEF]\nsince = 2",
        "device 0123456789abcdef is retired twice: remove one entry"
      ),
    ])
  func wrongEntry(text: String, problem: String) throws {
    let data = service.directory.data
    let before = try Files.readText(data.directoryFile)
    try Files.write("\(before)\n\(text)\n", to: data.directoryFile, isPrivate: false)
    let error = #expect(throws: DirectoryProblem.self) {
      try data.trust(generation: 2, allowsES512: false)
    }
    #expect(error?.description.hasSuffix(problem) == true)
  }
}
