import ApusCore
import ApusModel
import ApusRelay
import ApusServer
import ApusStore
import ApusTesting
import Testing

@Suite("Notifications from the binary interface are kept until upstream has answered")
struct SpoolTests {
  private let bench: RelayBench

  init() throws { bench = try RelayBench() }

  private func fields(_ request: ProviderRequest) -> [String: String] {
    Dictionary(uniqueKeysWithValues: request.headers.map { ($0.name, $0.value) })
  }

  /// The one request that upstream got for a token, once the spool is empty.
  private func request(_ token: String) throws -> ProviderRequest {
    try bench.drain()
    let requests = bench.script.requests(token)
    #expect(requests.count == 1)
    return try #require(requests.first)
  }

  /// A token that upstream takes: what it rejects at once may be reported before the frame is confirmed.
  private func token(_ byte: UInt8) -> (bytes: [UInt8], text: String) {
    let token = LegacyFrame.token(byte)
    bench.script.answer(token.text, .respond(.init(status: 200, reason: "")))
    return token
  }

  // MARK: What goes upstream

  @Test("A notification of each command reaches the device")
  func commands() throws {
    let (device, token) = try bench.device()
    let bytes = try LegacyFrame.bytes(token)
    let sender = try bench.sender()
    let frames = [
      LegacyFrame.simple(bytes, LegacyFrame.payload("0")),
      LegacyFrame.enhanced(1, bytes, LegacyFrame.payload("1")),
      LegacyFrame.framed(2, bytes, LegacyFrame.payload("2")),
    ]
    for (number, frame) in frames.enumerated() {
      try sender.send(frame)
      #expect(try device.client.expect(0x0a)[3] == LegacyFrame.payload("\(number)"))
    }
  }

  @Test("Commands become fields: type, priority, expiration, topic, and an id")
  func framed() throws {
    let (bytes, text) = token(0xa1)
    try bench.accept(LegacyFrame.framed(7, bytes, expiration: 4_102_444_800, priority: 5))
    let fields = try fields(request(text))
    #expect(fields["apns-push-type"] == "alert")
    #expect(fields["apns-priority"] == "5")
    #expect(fields["apns-expiration"] == "4102444800")
    #expect(fields["apns-topic"] == TestDirectory.otherTopic)
    #expect(fields["apns-id"]?.isEmpty == false)
    #expect(try request(text).payload == TestService.payload)
  }

  @Test("Without an expiration none is sent, and 0 stays 0")
  func expiration() throws {
    let (first, second) = (token(0xa2), token(0xa3))
    try bench.accept(LegacyFrame.framed(1, first.bytes, expiration: nil))
    try bench.accept(LegacyFrame.enhanced(2, second.bytes, expiration: 0))
    #expect(try fields(request(first.text))["apns-expiration"] == nil)
    #expect(try fields(request(second.text))["apns-expiration"] == "0")
  }

  @Test(
    "The payload gives the push type",
    arguments: [
      (#"{"aps":{"content-available":1}}"#, "background", "5"),
      (#"{"aps":{"content-available":1,"alert":"x"}}"#, "alert", "10"),
      (#"{"mdm":"push magic"}"#, "mdm", "10"), (#"{"aps":{"badge":3}}"#, "alert", "10"),
    ])
  func type(payload: String, type: String, priority: String) throws {
    let (bytes, text) = token(0xa4)
    try bench.accept(LegacyFrame.enhanced(1, bytes, Array(payload.utf8)))
    let fields = try fields(request(text))
    #expect(fields["apns-push-type"] == type)
    #expect(fields["apns-priority"] == priority)
  }

  @Test("One connection may serve devices of both services, and is confirmed in order")
  func both() throws {
    let own = try bench.gateway.connect()
    try own.enable(TestDirectory.topic)
    let ownToken = try LegacyFrame.bytes(own.token())
    let (device, token) = try bench.device()
    let other = LegacyFrame.token(0xa5)
    bench.script.answer(other.text, .respond(.init(status: 200, reason: "")))
    let sender = try bench.sender(confirms: true)
    try sender.send(
      LegacyFrame.framed(1, LegacyFrame.bytes(token)),
      LegacyFrame.framed(2, ownToken), LegacyFrame.framed(3, other.bytes))
    #expect(try own.client.expect(0x0a)[3] == TestService.payload)
    #expect(try device.client.expect(0x0a)[3] == TestService.payload)
    for identifier: UInt32 in 1...3 {
      #expect(try sender.packet() == [8, 0] + bigEndian(identifier))
    }
  }

  @Test("A frame that breaks the rules is rejected at once, and goes nowhere")
  func rules() throws {
    let (bytes, text) = LegacyFrame.token(0xa6)
    let sender = try bench.sender()
    try sender.send(LegacyFrame.framed(9, bytes, Array("no json".utf8)))
    #expect(try sender.end().bytes == [8, 1] + bigEndian(UInt32(9)))
    try bench.drain()
    #expect(bench.script.requests(text).isEmpty)
  }

  // MARK: What upstream answers

  @Test("While upstream is busy, a notification waits, and is sent again under its id")
  func busy() throws {
    let (bytes, text) = LegacyFrame.token(0xb1)
    bench.script.answer(
      text, .respond(.init(status: 503, reason: "ServiceUnavailable", retryAfterSeconds: 1)),
      .resetStream(code: 7), .respond(.init(status: 429, reason: "TooManyRequests")),
      .respond(.init(status: 200, reason: "")))
    try bench.accept(LegacyFrame.framed(1, bytes))
    try bench.drain()
    let requests = bench.script.requests(text)
    #expect(requests.count == 4)
    #expect(Set(requests.map { fields($0)["apns-id"] }).count == 1)
  }

  @Test("After a restart it is still sent, under its id")
  func restart() throws {
    let (bytes, text) = LegacyFrame.token(0xb2)
    bench.script.answer(
      text, .respond(.init(status: 503, reason: "ServiceUnavailable", retryAfterSeconds: 60)),
      .respond(.init(status: 200, reason: "")))
    try bench.accept(LegacyFrame.framed(1, bytes, expiration: 4_102_444_800, priority: 5))
    try waitFor { bench.figures().first?.hold == .busy }
    #expect(bench.figures().first?.count == 1)
    try bench.restart()
    try bench.drain()
    let requests = bench.script.requests(text)
    #expect(requests.count == 2)
    #expect(Set(requests.map { fields($0)["apns-id"] }).count == 1)
    #expect(requests[0].payload == requests[1].payload)
    for name in ["apns-push-type", "apns-priority", "apns-expiration", "apns-topic"] {
      #expect(fields(requests[0])[name] == fields(requests[1])[name], "\(name)")
    }
  }

  @Test("A dead token is in the feedback list with upstream's time, and is not asked about again")
  func dead() throws {
    let (bytes, text) = LegacyFrame.token(0xb3)
    bench.script.answer(
      text,
      .respond(.init(status: 410, reason: "Unregistered", timestampMilliseconds: 1_700_000_000_123))
    )
    try bench.accept(LegacyFrame.framed(1, bytes))
    try bench.drain()
    let tuple = RawFeedbackTuple(seconds: 1_700_000_000, token: bytes)
    #expect(try bench.feedback(count: 1) == [tuple])
    try bench.accept(LegacyFrame.framed(1, bytes))
    try bench.restart()
    try bench.accept(LegacyFrame.framed(2, bytes))
    try bench.drain()
    #expect(bench.script.requests(text).count == 1)
  }

  @Test("If most tokens are bad, nobody is told, and a changed configuration sends them again")
  func wrongConfiguration() throws {
    let tokens = (0..<8).map { LegacyFrame.token(0xc0 + $0) }
    for (number, token) in tokens.enumerated() {
      bench.script.answer(
        token.text, .respond(.init(status: 400, reason: "BadDeviceToken")),
        .respond(.init(status: 200, reason: "")))
      let frame = LegacyFrame.framed(UInt32(number), token.bytes)
      if number >= 3 {
        try bench.accept(frame)
        continue
      }
      let sender = try bench.sender()
      try sender.send(frame)
      #expect(try sender.end().bytes == [8, 8] + bigEndian(UInt32(number)))
    }
    try waitFor { bench.figures().first?.doubtedCount == 5 }
    #expect(bench.figures().first?.count == 5)
    #expect(bench.logged("upstream takes most device tokens for bad"))
    try bench.edit("upstream-topic", to: TestDirectory.topic)
    try bench.drain()
    #expect(try bench.gateway.feedback().isEmpty)
    #expect(tokens.reduce(0) { $0 + bench.script.requests($1.text).count } == 13)
  }

  @Test(
    "What is in doubt after a restart is rejected later, although no connection knows it",
    arguments: [true, false])
  func doubtAfterRestart(isConfirmed: Bool) throws {
    let bad = PlannedFault.Effect.respond(.init(status: 400, reason: "BadDeviceToken"))
    let busy = PlannedFault.Answer(
      status: 503, reason: "ServiceUnavailable", retryAfterSeconds: 60)
    for number in 0..<8 {
      let token = LegacyFrame.token(0xc0 + UInt8(number))
      if number == 0 {
        bench.script.answer(token.text, .respond(busy), bad)
      } else {
        bench.script.answer(token.text, bad)
      }
      try bench.accept(LegacyFrame.framed(UInt32(number), token.bytes))
      // The others wait, too.
      try waitFor { bench.figures().first?.hold == .busy }
    }
    try bench.restart()
    bench.relay.obey(.flush, AppID(1))
    try waitFor { bench.figures().first?.doubtedCount == 5 }
    if isConfirmed {
      bench.relay.obey(.confirm, AppID(1))
    } else {
      try bench.edit("upstream-topic", to: TestDirectory.topic)
    }
    let count = isConfirmed ? 8 : 6
    try waitFor { bench.figures().first?.ended.rejected == UInt64(count) }
    #expect(try bench.feedback(count: count).count == count)
  }

  @Test("What is wrong with the gateway holds everything, until the operator has changed it")
  func misconfigured() throws {
    let (bytes, text) = LegacyFrame.token(0xb5)
    bench.script.answer(
      text, .respond(.init(status: 400, reason: "TopicDisallowed")),
      .respond(.init(status: 200, reason: "")))
    try bench.accept(LegacyFrame.framed(1, bytes))
    try waitFor { bench.figures().first?.hold == .misconfigured }
    try bench.edit("upstream-topic", to: TestDirectory.topic)
    try bench.drain()
    let requests = bench.script.requests(text)
    #expect(
      requests.map { fields($0)["apns-topic"] } == [TestDirectory.otherTopic, TestDirectory.topic])
    #expect(try bench.gateway.feedback().isEmpty)
  }

  @Test("With expiration 0 there is one attempt")
  func oneAttempt() throws {
    let (bytes, text) = LegacyFrame.token(0xb6)
    bench.script.answer(text, .respond(.init(status: 429, reason: "TooManyRequests")))
    try bench.accept(LegacyFrame.framed(1, bytes, expiration: 0))
    _ = try request(text)
  }

  @Test(
    "A request on the HTTP/2 interface is kept if the app says so, and upstream cannot take it now",
    arguments: [
      PlannedFault.Answer(status: 503, reason: "ServiceUnavailable", retryAfterSeconds: 1),
      PlannedFault.Answer(status: 429, reason: "TooManyRequests"),
      PlannedFault.Answer(status: 403, reason: "InvalidProviderToken"),
    ])
  func request(answer: PlannedFault.Answer) throws {
    try bench.edit("upstream-spool", to: "on")
    let (_, text) = LegacyFrame.token(0xb9)
    bench.script.answer(text, .respond(answer), .respond(.init(status: 200, reason: "")))
    let id = "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90"
    let headers = try bench.push(to: text).setting("apns-id", id)
    let response = try bench.gateway.provider().exchange(headers, body: TestService.payload)
    #expect(response.status == 200)
    #expect(response["apns-id"] == id)
    try bench.drain()
    #expect(bench.script.requests(text).map { fields($0)["apns-id"] } == [id, id])
  }

  @Test("What upstream rejects for good passes through all the same")
  func rejectedRequest() throws {
    try bench.edit("upstream-spool", to: "on")
    let (_, text) = LegacyFrame.token(0xba)
    let response = try bench.gateway.provider().exchange(
      bench.push(to: text), body: TestService.payload)
    #expect(response.status == 400)
    #expect(bench.figures().allSatisfy { $0.count == 0 })
  }

  @Test("The operator pauses an app, and lets it go on")
  func paused() throws {
    let (bytes, text) = LegacyFrame.token(0xbb)
    bench.script.answer(
      text, .respond(.init(status: 503, reason: "ServiceUnavailable", retryAfterSeconds: 600)),
      .respond(.init(status: 200, reason: "")))
    try bench.accept(LegacyFrame.framed(1, bytes))
    try waitFor { bench.figures().first?.hold == .busy }
    bench.relay.obey(.pause, AppID(1))
    bench.relay.obey(.flush, AppID(1))
    #expect(bench.figures().allSatisfy { $0.hold == .paused })
    #expect(bench.script.requests(text).count == 1)
    bench.relay.obey(.resume, AppID(1))
    try bench.drain()
    #expect(bench.script.requests(text).count == 2)
    #expect(bench.figures().reduce(0) { $0 + $1.ended.accepted } == 1)
  }

  @Test("An app of which nothing was kept can be paused, too")
  func pausedBefore() throws {
    let (bytes, text) = LegacyFrame.token(0xbc)
    bench.script.answer(text, .respond(.init(status: 200, reason: "")))
    bench.relay.obey(.pause, AppID(1))
    try bench.accept(LegacyFrame.framed(1, bytes))
    #expect(bench.figures().contains { $0.count == 1 && $0.hold == .paused })
    #expect(bench.script.requests(text).isEmpty)
    bench.relay.obey(.resume, AppID(1))
    try bench.drain()
    #expect(bench.script.requests(text).count == 1)
  }

  @Test("When the operator confirms that held tokens are bad, the feedback list has them")
  func confirmed() throws {
    for number in 0..<8 {
      // Unknown upstream. Three are reported.
      try bench.accept(
        LegacyFrame.framed(1, LegacyFrame.token(0xd0 + UInt8(number)).bytes), isRejected: true)
    }
    try waitFor { bench.figures().first?.doubtedCount == 5 }
    bench.relay.obey(.confirm, AppID(1))
    try bench.drain()
    let listed = try bench.feedback(count: 5).map { $0.token[0] }
    #expect(Set(listed).isSuperset(of: 0xd3...0xd7))
    #expect(bench.figures().first?.ended.rejected == 8)
  }

  @Test("A paused app stays paused when its upstream changes")
  func pausedThroughChange() throws {
    let (bytes, text) = LegacyFrame.token(0xbd)
    bench.script.answer(text, .respond(.init(status: 200, reason: "")))
    bench.relay.obey(.pause, AppID(1))
    try bench.accept(LegacyFrame.framed(1, bytes))
    try bench.edit("upstream-topic", to: TestDirectory.topic)
    // A worker that judges by the new directory has passed it to the relay before.
    try bench.accept(LegacyFrame.framed(2, bytes))
    #expect(bench.figures().contains { $0.count == 2 && $0.hold == .paused })
    #expect(bench.script.requests(text).isEmpty)
    bench.relay.obey(.resume, AppID(1))
    try bench.drain()
    #expect(bench.script.requests(text).count == 2)
  }

  @Test("What the store did not write of an end is written again")
  func lostEnds() throws {
    let store = MemoryStore()
    let bench = try RelayBench(store: store)
    let (bytes, text) = LegacyFrame.token(0xbe)
    bench.script.answer(
      text,
      .delay(
        milliseconds: 300,
        then: .respond(
          .init(status: 410, reason: "Unregistered", timestampMilliseconds: 1_700_000_000_123))))
    try bench.accept(LegacyFrame.framed(1, bytes))
    try waitFor { bench.script.requests(text).count == 1 && store.pendingCommitCount == 0 }
    store.failNextCommits(1, with: .diskFull(path: "store", detail: "on purpose"))
    try bench.drain()
    try waitFor { Self.relayRows(of: store) == [Self.deadTokenKind] }
    #expect(try bench.feedback(count: 1).map(\.token) == [bytes])
  }

  /// The kind of a dead token's row, the first byte of its key.
  private static let deadTokenKind = DeadTokenRecord.prefix[0]

  /// The kinds of all rows of the relay.
  private static func relayRows(of store: MemoryStore) -> [UInt8] {
    var kinds: [UInt8] = []
    let none: [UInt8] = []
    try? store.scan(.relay, prefix: none.span) { key, _ in
      kinds.append(key[0])
      return true
    }
    return kinds
  }

  @Test("After a restart, a held token is nobody's frame", arguments: [RelayCommand.confirm, nil])
  func heldThroughRestart(command: RelayCommand?) throws {
    let tokens = (0..<8).map { LegacyFrame.token(0xe0 + UInt8($0)) }
    for token in tokens {
      let bad = PlannedFault.Effect.respond(.init(status: 400, reason: "BadDeviceToken"))
      bench.script.answer(token.text, bad, bad, .respond(.init(status: 200, reason: "")))
    }
    // Each with a place of its own among the connections.
    let senders = try tokens.indices.map { _ in try bench.sender(confirms: true) }
    for (number, token) in tokens.enumerated() {
      try senders[number].send(LegacyFrame.framed(UInt32(number), token.bytes))
      #expect(try senders[number].packet() != nil)
    }
    try waitFor { bench.figures().first?.doubtedCount == 5 }
    try bench.restart()
    // The configuration is still in doubt: nothing more is reported.
    try waitFor { bench.figures().first?.doubtedCount == 5 }
    if let command {
      bench.relay.obey(command, AppID(1))
    } else {
      try bench.edit("upstream-topic", to: TestDirectory.topic)
    }
    try bench.drain()
    #expect(try bench.feedback(count: command == nil ? 0 : 5).count == (command == nil ? 0 : 5))
    // The service goes on. Upstream takes the token: a rejection could come before the confirmation has left.
    let last = LegacyFrame.token(0xef)
    bench.script.answer(last.text, .respond(.init(status: 200, reason: "")))
    try bench.accept(LegacyFrame.framed(9, last.bytes))
  }

  @Test("When the spool is full, senders wait, and nothing is lost")
  func full() throws {
    let bench = try RelayBench(SpoolLimits(byteCount: 2000, ageSeconds: 3600))
    let (bytes, text) = LegacyFrame.token(0xb7)
    bench.script.answer(
      text, .respond(.init(status: 503, reason: "ServiceUnavailable", retryAfterSeconds: 2)),
      .respond(.init(status: 200, reason: "")))
    let sender = try bench.sender(confirms: true)
    try sender.send(LegacyFrame.framed(1, bytes))
    try waitFor { bench.figures().first?.hold == .busy }
    let others = LegacyFrame.token(0xb8)
    bench.script.answer(others.text, .respond(.init(status: 200, reason: "")))
    for number: UInt32 in 2...400 {
      try sender.send(LegacyFrame.framed(number, others.bytes))
    }
    for number: UInt32 in 1...400 {
      #expect(try sender.packet() == [8, 0] + bigEndian(number))
    }
    try bench.drain()
    #expect(bench.logged("relay full: providers wait"))
    #expect(bench.logged("relay takes notifications again"))
    #expect(bench.script.requests(others.text).count == 399)
  }
}
