import ApusLoop
import ApusModel
import ApusServer
import ApusTesting
import Glibc
import Testing

@Suite("Notifications reach the device, and only the device, until it has them")
struct DeliveryTests {
  let service: TestService
  private let provider: RawHTTP2Client
  private let authorization: String

  init() throws {
    service = try Shared.service
    provider = try service.provider()
    authorization = try service.authorization()
  }

  private func headers(
    _ token: String, _ topic: String = TestDirectory.topic
  ) -> [RawHeader] {
    service.pushHeaders(to: token, topic: topic, authorization: authorization)
  }

  private func payload(_ text: String) -> [UInt8] { Array(#"{"aps":{"alert":"\#(text)"}}"#.utf8) }

  /// Sends a push and expects it to be accepted. Only for pushes that need no acknowledgement first.
  private func push(_ headers: [RawHeader], _ text: String) throws {
    #expect(try provider.exchange(headers, body: payload(text)).status == 200)
  }

  // MARK: Bytes

  @Test("A notification sent after an idle period is accepted after it, not before")
  func acceptanceTime() throws {
    // Without other clients, whose work would update the worker's clock.
    let service = try TestService()
    defer { service.stop() }
    let device = try service.connect()
    let headers = try service.pushHeaders(
      to: device.token(), authorization: service.authorization())
    try device.enable(TestDirectory.topic)
    let provider = try service.provider()
    for _ in 0..<4 {
      // Shorter than a second, after which each worker becomes active.
      usleep(300_000)
      let before = EventLoop.wallClockMilliseconds()
      let stream = try provider.request(headers, body: TestService.payload)
      let frame = try device.notification()
      let sent = (frame[6] ?? []).reduce(Int64(0)) { $0 << 8 | Int64($1) } / 1_000_000
      #expect(sent >= before, "\(before - sent) ms before it was sent")
      try device.acknowledge(frame)
      #expect(try provider.response(to: stream).status == 200)
    }
  }

  @Test(
    "A notification is, byte for byte, the protocol's frame with the service's own fields")
  func exactFrame() throws {
    let device = try service.connect()
    let token = try device.requestToken(TestDirectory.topic)[2] ?? []
    try device.enable(TestDirectory.topic)
    let expiration = TestDirectory.nowSeconds + 1000
    let headers = try headers(device.token())
      .setting("apns-id", "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90")
      .setting("apns-push-type", "alert").setting("apns-priority", "5")
      .setting("apns-expiration", "\(expiration)").setting("apns-collapse-id", "score")
    let before = EventLoop.wallClockMilliseconds()
    let stream = try provider.request(headers, body: TestService.payload)
    let frame = try device.notification()
    let messageID = frame[4] ?? []
    let sent = frame[6] ?? []
    let expected = RawCourierFrame(
      0x0a, (1, token), (2, ConnectedDevice.hash(TestDirectory.topic)), (3, TestService.payload),
      (4, messageID), (5, bigEndian(UInt32(expiration))), (6, sent), (7, [0]), (13, [5]),
      (0x40, hex("a1b2c3d4e5f60718293a4b5c6d7e8f90")), (0x41, [PushType.alert.rawValue]),
      (0x42, Array("score".utf8)))
    #expect(frame.bytes == expected.bytes)
    // 1...0x7fffffff, because one client reads a signed number.
    let id = messageID.reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    #expect((1...0x7fff_ffff).contains(id) && messageID.count == 4)
    let nanoseconds = sent.reduce(Int64(0)) { $0 << 8 | Int64($1) }
    let after = EventLoop.wallClockMilliseconds()
    #expect((before - 1000...after).contains(nanoseconds / 1_000_000))
    try device.acknowledge(frame)
    #expect(try provider.response(to: stream).status == 200)
  }

  @Test("The compatibility dialects send no extensions")
  func compatibleFrame() throws {
    let device = try service.directory.device()
    let client = try ConnectedDevice(
      service.courier(device, protocols: [TestService.oldCourierProtocol]), device)
    let headers = try headers(client.token()).setting("apns-expiration", "0")
      .setting("apns-push-type", "alert").setting("apns-collapse-id", "score")
    try client.enable(TestDirectory.topic)
    try push(headers, "hi")
    let frame = try client.notification()
    #expect(frame.fieldIDs == [1, 2, 3, 4, 5, 6, 7, 13])
    #expect(frame[5] == [0xff, 0xff, 0xff, 0xff])
    #expect(frame[13] == [10])
    // There is no goodbye either: an invalid frame ends the connection immediately.
    try client.client.tls.send([0])
    let end = try client.client.end()
    #expect(end.frames.isEmpty)
    #expect(end.end == .closeNotify)
  }

  // MARK: Tokens

  @Test("An app's token is the same on every connection, and different for each app and device")
  func stableTokens() throws {
    let device = try service.connect()
    let answer = try device.requestToken(TestDirectory.topic)
    #expect(answer.fieldIDs == [1, 2, 3, 4])
    #expect(answer[1] == [0] && answer[2]?.count == 32 && answer[4] == [0, 0])
    #expect(answer[3] == ConnectedDevice.hash(TestDirectory.topic))
    let token = try device.token()
    #expect(token == service.directory.deviceToken(device.device.id).hex)
    let other = try device.token(TestDirectory.otherTopic)
    device.client.tls.reset()
    let again = try service.connect(device.device)
    #expect(try again.token() == token)
    #expect(try again.token(TestDirectory.otherTopic) == other)
    let foreign = try service.connect()
    #expect(try Set([token, other, foreign.token()]).count == 3)
    // Without field 3 in the request, the answer has none.
    try again.client.send(RawCourierFrame(0x11, (2, ConnectedDevice.hash(TestDirectory.topic))))
    #expect(try again.client.expect(0x12).fieldIDs == [1, 2, 3])
  }

  @Test("A request for an unavailable token is refused with the fields that clients need")
  func refusedTokens() throws {
    let device = try service.connect()
    let foreign = try service.connect()
    let unknown = ConnectedDevice.hash(TestDirectory.unknownTopic)
    let known = ConnectedDevice.hash(TestDirectory.topic)
    for (token, topic) in [(device.baseToken, unknown), (foreign.baseToken, known)] {
      try device.client.send(RawCourierFrame(0x11, (1, token), (2, topic), (3, [0, 9])))
      let answer = try device.client.expect(0x12)
      #expect(answer.fieldIDs == [1, 2, 3, 4])
      #expect(answer[1] != [0] && answer[1]?.count == 1)
      #expect(answer[2] == [] && answer[3] == topic && answer[4] == [0, 9])
    }
  }

  @Test("A push to a device's own token goes to its topic")
  func baseToken() throws {
    let device = try service.connect()
    try device.enable(TestDirectory.topic)
    let token = service.directory.baseToken(device.device.id)
    try push(headers(token.hex).setting("apns-expiration", "0"), "hi")
    let frame = try device.notification()
    #expect(frame[1] == token.bytes)
    #expect(frame[2] == ConnectedDevice.hash(TestDirectory.topic))
    // A topic that the device does not list is not delivered.
    let other = try provider.exchange(
      headers(token.hex, TestDirectory.otherTopic), body: TestService.payload)
    expectRefusal(other, 400, "DeviceTokenNotForTopic")
  }

  // MARK: Lists

  /// Lists of the filter: 2 enabled, 3 ignored, 4 opportunistic, 5 paused, 6 non-waking.
  @Test("Each list of a filter has its effect on a push", arguments: [2, 3, 4, 5, 6] as [UInt8])
  func lists(list: UInt8) throws {
    let device = try service.connect()
    let token = try device.token()
    try device.filter([(list, TestDirectory.topic)])
    _ = try device.client.expect(0x0e)
    let stream = try provider.request(headers(token), body: payload("hi"))
    switch list {
    case 2, 4, 6:
      let frame = try device.notification()
      #expect(frame[3] == payload("hi") && frame[7] == [0])
      try device.acknowledge(frame)
      #expect(try provider.response(to: stream).status == 200)
    default:
      #expect(try provider.response(to: stream).status == 200)
      try device.settle()
      try device.filter([(2, TestDirectory.topic)])
      if list == 5 {
        // Stored while the topic was paused.
        let frame = try device.notification()
        #expect(frame[3] == payload("hi") && frame[7] == [3])
        try device.acknowledge(frame)
      } else {
        _ = try device.client.expect(0x0e)
      }
    }
    try device.settle()
  }

  @Test("If several lists contain a topic, the most restrictive one applies")
  func restrictive() throws {
    let device = try service.connect()
    let token = try device.token()
    try device.filter([2, 3, 4, 5, 6].map { ($0, TestDirectory.topic) })
    _ = try device.client.expect(0x0e)
    try push(headers(token), "hi")
    try device.settle()
  }

  @Test("Each filter replaces the previous one")
  func replaced() throws {
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic, TestDirectory.otherTopic)
    try device.filter([(2, TestDirectory.otherTopic)])
    try device.settle()
    #expect(try provider.exchange(headers(token), body: TestService.payload).status == 410)
  }

  @Test(
    "While a device is inactive it gets only immediate notifications; the rest waits")
  func power() throws {
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    try device.client.send(RawCourierFrame(0x14, (1, [0]), (2, [0x7f, 0xff, 0xff, 0xff])))
    try device.settle()
    try push(headers(token).setting("apns-priority", "5"), "later")
    try device.settle()
    try push(
      headers(token).setting("apns-priority", "5").setting("apns-expiration", "0"), "never")
    try device.settle()
    let stream = try provider.request(headers(token), body: payload("now"))
    // The radio is awake for it, so waiting notifications are sent too.
    let frames = try [device.notification(), device.notification()]
    #expect(Set(frames.compactMap { $0[3] }) == [payload("now"), payload("later")])
    for frame in frames { try device.acknowledge(frame) }
    #expect(try provider.response(to: stream).status == 200)
    try push(headers(token).setting("apns-priority", "1"), "when active")
    try device.settle()
    try device.client.send(RawCourierFrame(0x14, (1, [1])))
    #expect(try device.notification()[3] == payload("when active"))
  }

  // MARK: Redelivery

  @Test("An unacknowledged notification is sent again with the same id, as the last from storage")
  func redelivery() throws {
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    try push(headers(token), "hi")
    let first = try device.notification()
    #expect(first[7] == [0])
    device.client.tls.reset()
    var current = try service.connect(device.device)
    for _ in 0..<2 {
      try current.filter([(2, TestDirectory.topic)])
      let again = try current.notification()
      #expect(again[4] == first[4])
      #expect(again[7] == [3])
      var expected = first
      expected.fields[expected.fields.firstIndex { $0.id == 7 } ?? 0].value = [3]
      #expect(again.bytes == expected.bytes)
      try current.settle()
      current.client.tls.reset()
      current = try service.connect(device.device)
    }
    try current.filter([(2, TestDirectory.topic)])
    try current.acknowledge(current.notification())
    try current.settle()
    current.client.tls.reset()
    // Acknowledged, so it is never sent again.
    try service.connect(device.device).enable(TestDirectory.topic)
  }

  @Test("Of several stored notifications, all but the last announce more, oldest first")
  func severalStored() throws {
    let device = try service.connect()
    let tokens = try (device.token(), device.token(TestDirectory.otherTopic))
    try device.enable(TestDirectory.topic, TestDirectory.otherTopic)
    device.client.tls.reset()
    try push(headers(tokens.1, TestDirectory.otherTopic), "replaced")
    try push(headers(tokens.0), "first")
    try push(headers(tokens.1, TestDirectory.otherTopic), "second")
    let again = try service.connect(device.device)
    try again.filter([(2, TestDirectory.topic), (2, TestDirectory.otherTopic)])
    let frames = try [again.notification(), again.notification()]
    #expect(frames.map { $0[3] } == [payload("first"), payload("second")])
    #expect(frames.map { $0[7] } == [[1], [3]])
    #expect(frames[0][4] != frames[1][4])
    try again.settle()
  }

  @Test(
    "An acknowledgement with any status counts; unknown ids and repetitions are ignored",
    arguments: [0, 2, 3, 0x80])
  func acknowledgements(status: Int) throws {
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    let stream = try provider.request(headers(token), body: TestService.payload)
    let frame = try device.notification()
    // Without a token, as one client sends it; and with unknown ids.
    try device.client.send(
      RawCourierFrame(0x0b, (4, [0x7f, 0xff, 0xff, 0xfe]), (8, [0])),
      RawCourierFrame(0x0b, (4, [0, 0, 0, 0]), (8, [0])),
      RawCourierFrame(0x0b, (4, frame[4] ?? []), (8, [UInt8(status)])))
    try device.acknowledge(frame)
    #expect(try provider.response(to: stream).status == 200)
    try device.settle()
    device.client.tls.reset()
    try service.connect(device.device).enable(TestDirectory.topic)
  }

  // MARK: Takeover

  @Test("The newer connection of a device wins, and gets the remaining notifications")
  func takeover() throws {
    try withBystanders(service) {
      let first = try service.connect()
      let token = try first.token()
      try first.enable(TestDirectory.topic)
      try push(headers(token), "hi")
      let frame = try first.notification()
      let second = try service.connect(first.device)
      let end = try first.client.end()
      #expect(end.frames.map(\.command) == [0x80])
      #expect(end.end == .closeNotify)
      try second.filter([(2, TestDirectory.topic)])
      let again = try second.notification()
      #expect(again[4] == frame[4] && again[7] == [3])
      // The old connection's input no longer counts.
      try second.acknowledge(again)
      let stream = try provider.request(headers(token), body: payload("next"))
      let next = try second.notification()
      #expect(next[3] == payload("next") && next[7] == [0])
      try second.acknowledge(next)
      #expect(try provider.response(to: stream).status == 200)
    }
  }

  @Test("Two holders of one identity do not replace each other endlessly")
  func fight() throws {
    try withBystanders(service) {
      let device = try service.directory.device()
      // All stay open, so that each takes over from the previous one.
      var clients: [RawCourierClient] = []
      var answer: UInt8? = 0x08
      while answer == 0x08, clients.count <= 2 * Limits.courierTakeoversPerMinute {
        let client = try service.courier(device)
        try client.send(ConnectedDevice.connectMessage())
        answer = try client.nextFrame()?.command
        clients.append(client)
      }
      // The first one replaced none; on a slow machine the limit may recover by one or two meanwhile.
      #expect(clients.count >= Limits.courierTakeoversPerMinute + 2)
      #expect(answer == 0x80)
      #expect(try clients.last?.end().end == .closeNotify)
      // The existing connection stays.
      let holder = clients[clients.count - 2]
      try holder.send(RawCourierFrame(0x0c))
      #expect(try holder.expect(0x0d).bytes == hex("0d 00000000"))
    }
  }

  // MARK: Slow devices

  @Test("A device gets 32 unacknowledged notifications; each acknowledgement allows one more")
  func window() throws {
    try withBystanders(service) {
      let device = try service.connect()
      let token = try device.token()
      try device.enable(TestDirectory.topic)
      let streams = try (0..<40).map {
        try provider.request(headers(token), body: payload("\($0)"))
      }
      let frames = try (0..<32).map { _ in try device.notification() }
      #expect(frames.map { $0[3] } == (0..<32).map { payload("\($0)") })
      for stream in streams { #expect(try provider.response(to: stream).status == 200) }
      try device.settle()
      for number in 32..<40 {
        try device.acknowledge(frames[number - 32])
        #expect(try device.notification()[3] == payload("\(number)"))
        try device.settle()
      }
    }
  }

  @Test("A device that never reads delays nobody else")
  func neverReads() throws {
    try withBystanders(service) {
      let device = try service.connect()
      let token = try device.token()
      try device.enable(TestDirectory.topic)
      let body = payload(String(repeating: "x", count: 4000))
      let streams = try (0..<200).map { _ in try provider.request(headers(token), body: body) }
      for stream in streams { #expect(try provider.response(to: stream).status == 200) }
      // Unread answers to flushes fill the connection.
      for _ in 0..<200 {
        try device.client.tls.send(
          (0..<16).flatMap { _ in RawCourierFrame(0x0f, (1, [2, 0])).bytes })
      }
      let bystanders = try Bystanders(service)
      try bystanders.expectUndisturbed()
      device.client.tls.reset()
    }
  }
}
