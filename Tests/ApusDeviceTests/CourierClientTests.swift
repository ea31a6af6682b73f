import ApusRandom
import ApusDevice
import ApusModel
import ApusTrust
import ApusWire
import Testing

/// A client with its output bytes and its events, as text.
struct Scripted {
  var client: CourierClient
  var said: [UInt8] = []
  var heard: [String] = []
  var now: UInt64 = 1000
  /// Whether each notification is acknowledged when it is reported.
  var acknowledges = true

  init(
    _ configuration: CourierClient.Configuration = .init(), baseToken: DeviceToken? = nil
  ) {
    client = CourierClient(configuration: configuration, baseToken: baseToken)
  }

  mutating func begin() { client.begin(nowMilliseconds: now, to: &said) }

  /// An accepted client without further input or output.
  static func connected(_ configuration: CourierClient.Configuration = .init()) -> Scripted {
    var scripted = Scripted(configuration)
    scripted.begin()
    scripted.receive(FromService.accepted())
    scripted.said = []
    scripted.heard = []
    return scripted
  }

  mutating func receive(_ input: [UInt8]) {
    var offset = 0
    while let event = client.next(
      input.span, at: &offset, nowMilliseconds: now, to: &said)
    {
      note(event, input)
    }
  }

  mutating func wait(_ milliseconds: UInt64) {
    now += milliseconds
    if let event = client.timePassed(nowMilliseconds: now, to: &said) { note(event, []) }
  }

  private mutating func note(_ event: CourierClientEvent, _ input: [UInt8]) {
    switch event {
    case .connected(let token, let milliseconds, let isNew, _):
      heard.append("connected \(token.hex) \(milliseconds)\(isNew ? " new" : "")")
    case .refused(let refusal):
      heard.append(
        "refused \(refusal.status.rawValue) \(refusal.badNonceServerMilliseconds ?? 0)")
    case .appToken(let topic, let token): heard.append("token \(name(topic)) \(token.hex)")
    case .tokenRefused(let topic, let status):
      heard.append("no token \(name(topic)) \(status)")
    case .notification(let arrival):
      let fields = arrival.notification
      heard.append(
        "notification \(fields.messageID) \(arrival.payload(in: input.span).text) "
          + "\(name(fields.topic)) \(arrival.collapseID(in: input.span).text) "
          + "\(fields.expirySeconds ?? 0) \(fields.priority?.rawValue ?? 0) "
          + "\(fields.storage.rawValue) \(fields.id?.text ?? "") "
          + "\(fields.pushType.map { "\($0)" } ?? "")")
      if acknowledges { client.acknowledge(fields.messageID, to: &said) }
    case .issued(let issuance): heard.append("issued \(issuance.status.rawValue)")
    case .renewal(let issuance): heard.append("renewal \(issuance.status.rawValue)")
    case .renewalAdvised(let seconds): heard.append("renewal advised \(seconds)")
    case .subscriptions(let confirmation):
      heard.append("subscriptions \(confirmation.index) \(confirmation.status.rawValue)")
    case .noStorage: heard.append("no storage")
    case .goodbye(let reason, let milliseconds):
      heard.append("goodbye \(reason)\(milliseconds.map { " \($0) ms" } ?? "")")
    case .fault(let fault): heard.append("fault \(fault)")
    }
  }

  private func name(_ topic: TopicHash) -> String {
    hex((0..<TopicHash.byteCount).map { topic[$0] }) == appHex ? "app" : "chat"
  }

  mutating func takeSaid() -> String {
    defer { said = [] }
    return hex(said)
  }
}

@Suite("A courier client connects")
struct CourierClientConnectTests {
  @Test("The first connect message has state and flags and no token")
  func firstConnect() {
    var scripted = Scripted()
    scripted.begin()
    #expect(scripted.takeSaid() == "070000000b020001010500040000004" + "1")
    #expect(scripted.client.phase == .connectSent)
  }

  @Test("A device with a base token sends it")
  func connectWithToken() {
    var scripted = Scripted(baseToken: token(baseHex))
    scripted.begin()
    #expect(
      scripted.takeSaid() == "070000002e010020\(baseHex)0200010105000400000041")
    scripted.receive(FromService.accepted())
    #expect(scripted.heard == ["connected \(baseHex) 1700000000123"])
  }

  @Test("With securityV3 the connect message contains certificate, nonce and signature")
  func thirdDialect() throws {
    let now: Int64 = 1_700_000_000
    let authority = try CertificateAuthority.create(
      commonName: "devices", validity: Validity(now: now, days: 10))
    let key = try PrivateKey.generateRSA(bits: 2048)
    let certificate = try authority.issueDevice(
      deviceID: DeviceID(7), name: "seven", publicKey: key.publicKey,
      validity: Validity(now: now, days: 5))
    let proof = try CourierProof(
      certificateDER: certificate.der, key: key, milliseconds: 1_700_000_000_123,
      random: bytes("a1a2a3a4a5a6a7a8"))
    var client = CourierClient(configuration: .init(dialect: .securityV3))
    var said: [UInt8] = []
    client.begin(proof: proof, nowMilliseconds: 0, to: &said)

    let der = certificate.der
    var start = bytes("07 00000000 02 0001 01 05 0004 00000041 0c")
    start += [UInt8(der.count >> 8), UInt8(der.count & 255)] + der
    start += bytes("0d 0011 00 0000018bcfe5687b a1a2a3a4a5a6a7a8 0e 0102 0101")
    let length = start.count - 5 + 256
    start[3] = UInt8(length >> 8)
    start[4] = UInt8(length & 255)
    #expect(Array(said.prefix(start.count)) == start)
    #expect(said.count == start.count + 256)
    #expect(
      throws: Never.self,
      "the signature is over the nonce, by the certificate's key",
      performing: {
        _ = try NonceProof.verify(
          nonce: proof.nonce.span, signature: proof.signature.span,
          certificateDER: certificate.der.span)
      })
  }

  @Test("Once accepted, the device sends its filter, its state and the waiting token requests")
  func afterAcceptance() {
    var scripted = Scripted()
    scripted.client.setTopics(
      enabled: [topic(appHex)], paused: [topic(chatHex)], to: &scripted.said)
    scripted.client.setPower(.idle, to: &scripted.said)
    #expect(scripted.client.requestToken(topic(chatHex), to: &scripted.said))
    #expect(scripted.said.isEmpty)
    scripted.begin()
    scripted.said = []
    scripted.receive(FromService.accepted())
    #expect(scripted.heard == ["connected \(baseHex) 1700000000123 new"])
    #expect(
      scripted.takeSaid() == "0900000051010020\(baseHex)020014\(appHex)050014\(chatHex)"
        + "140000000b0100010002" + "00047fffffff"
        + "110000003f010020\(baseHex)020014\(chatHex)0300020000")
    #expect(scripted.client.phase == .filterSent)
  }

  @Test("While connected, a new filter and a new state are sent immediately")
  func laterFilter() {
    var scripted = Scripted.connected()
    #expect(scripted.client.phase == .connected)
    scripted.client.setTopics(
      enabled: [], ignored: [topic(appHex)], opportunistic: [topic(chatHex)], to: &scripted.said)
    #expect(scripted.takeSaid() == "0900000051010020\(baseHex)030014\(appHex)040014\(chatHex)")
    scripted.client.setTopics(enabled: [], nonWaking: [topic(appHex)], to: &scripted.said)
    #expect(scripted.takeSaid() == "090000003a010020\(baseHex)060014\(appHex)")
    scripted.client.setPower(.active, to: &scripted.said)
    #expect(scripted.takeSaid() == "140000000b01000101020004" + "7fffffff")
  }

  @Test("An acceptance without a token keeps the presented one")
  func acceptanceWithoutToken() {
    let answer = bytes(
      """
      08 00000025  01 0001 00  04 0002 1400  05 0002 0002  06 0004 00000000  08 0002 1400
      0a 0008 0000018bcfe5687b
      """)
    var scripted = Scripted(baseToken: token(baseHex))
    scripted.begin()
    scripted.receive(answer)
    #expect(scripted.heard == ["connected \(baseHex) 1700000000123"])

    var foreign = Scripted()
    foreign.begin()
    foreign.receive(answer)
    #expect(foreign.heard == ["fault \(CourierClientFault.noToken)"])
    #expect(foreign.client.phase == .over)
  }

  @Test("A refusal ends the connection, and the next one presents no token")
  func refusal() {
    var scripted = Scripted(baseToken: token(otherHex))
    scripted.begin()
    scripted.receive(
      bytes(
        """
        08 00000030  01 0001 02  04 0002 1400  05 0002 0002  06 0004 00000000
        07 0008 0000018bcfe5687b  08 0002 1400  0a 0008 0000018bcfe5687b  0d 00000000
        """))
    #expect(scripted.heard == ["refused 2 1700000000123"])
    scripted.said = []
    scripted.begin()
    #expect(scripted.takeSaid() == "070000000b0200010105000400000041")
  }
}

@Suite("A courier client handles what the service sends")
struct CourierClientFrameTests {
  private static let topics = CourierTopics(enabled: [topic(appHex)])

  private func script() -> [UInt8] {
    FromService.accepted()
      + FromService.notification(id: 0x01020304)
      + bytes("12 00000043 01 0001 00 02 0020 \(otherHex) 03 0014 \(appHex) 04 0002 0000")
      + bytes("77 00000003 010203")
      + bytes("0e 00000023 01 0020 \(baseHex)")
      + FromService.notification(id: 5)
      + bytes("0d 00000000")
      + bytes("80 00000006 40 0003 627965")
  }

  private func play(_ parts: [[UInt8]]) -> Scripted {
    var scripted = Scripted()
    scripted.client.setTopics(Self.topics, to: &scripted.said)
    _ = scripted.client.requestToken(topic(appHex), to: &scripted.said)
    scripted.begin()
    scripted.said = []
    for part in parts { scripted.receive(part) }
    return scripted
  }

  @Test("The whole script in one piece gives these events and these answers")
  func whole() {
    let played = play([script()])
    let rest =
      #"{"aps":{}} app slot 1700000255 5 3 00112233-4455-6677-8899-AABBCCDDEEFF background"#
    #expect(
      played.heard == [
        "connected \(baseHex) 1700000000123 new", "notification 16909060 \(rest)",
        "token app \(otherHex)", "no storage", "notification 5 \(rest)", "goodbye bye",
      ])
    let filter = "090000003a010020\(baseHex)020014\(appHex)"
    let request = "110000003f010020\(baseHex)020014\(appHex)0300020000"
    #expect(
      hex(played.said) == filter + request + FromDevice.acknowledgement("01020304")
        + FromDevice.acknowledgement("00000005"))
    #expect(played.client.skippedCount == 1)
    #expect(played.client.pendingTokens.isEmpty)
  }

  @Test("The result does not depend on how the bytes are split")
  func everyBoundary() {
    let script = script()
    let whole = play([script])
    for cut in 1..<script.count {
      let played = play([Array(script[..<cut]), Array(script[cut...])])
      #expect(played.heard == whole.heard, "cut at \(cut)")
      #expect(played.said == whole.said, "cut at \(cut)")
    }
    let bytewise = play(script.map { [$0] })
    #expect(bytewise.heard == whole.heard)
    #expect(bytewise.said == whole.said)
  }

  @Test("A refused token is reported with its status, and unexpected answers are skipped")
  func refusedToken() {
    var scripted = Scripted.connected()
    #expect(scripted.client.requestToken(topic(chatHex), to: &scripted.said))
    #expect(scripted.client.requestToken(topic(chatHex), to: &scripted.said))
    #expect(scripted.takeSaid() == "110000003f010020\(baseHex)020014\(chatHex)0300020000")
    let refusal = bytes("12 0000001e 01 0001 01 02 0000 03 0014 \(chatHex)")
    scripted.receive(refusal + refusal)
    #expect(scripted.heard == ["no token chat 1"])
    #expect(scripted.client.skippedCount == 1)
  }

  @Test("Outside our own dialect the extensions are unknown fields and an unknown command")
  func withoutExtensions() {
    var scripted = Scripted(.init(dialect: .securityV2))
    scripted.begin()
    scripted.receive(
      FromService.accepted() + FromService.notification(id: 5)
        + bytes("80 00000006 40 0003 627965"))
    #expect(
      scripted.heard.dropFirst() == [#"notification 5 {"aps":{}} app  1700000255 5 3  "#])
    #expect(scripted.client.skippedCount == 1)
  }

  @Test(
    "Bytes that are not the protocol end the connection",
    arguments: [
      ("00 00000000", CourierClientFault.malformed(.commandZero)),
      ("0a 00010001", .malformed(.frameTooLong(command: 10, length: 65537))),
      ("0a 00000004 01 0020 00", .malformed(.truncatedField(command: 10, offset: 0))),
      ("0a 00000000", .malformed(.missingField(command: 10, id: 1))),
      ("12 00000003 01 0000", .malformed(.badField(command: 18, id: 1, length: 0))),
      ("08 00000000", .unexpected(command: 8)),
    ])
  func faults(input: String, fault: CourierClientFault) {
    var scripted = Scripted.connected()
    scripted.receive(bytes(input) + FromService.notification(id: 5))
    #expect(scripted.heard == ["fault \(fault)"])
    #expect(scripted.client.phase == .over)
    #expect(scripted.said.isEmpty)
  }

  @Test("The first frame must be the answer to the connect message")
  func firstFrame() {
    var scripted = Scripted()
    scripted.begin()
    scripted.receive(FromService.notification(id: 5))
    #expect(scripted.heard == ["fault \(CourierClientFault.unexpected(command: 10))"])
  }
}

@Suite("A courier client reports a notification once")
struct CourierClientDuplicateTests {
  @Test("A repeated notification is acknowledged again and not reported")
  func acknowledgedAgain() {
    var scripted = Scripted.connected()
    scripted.receive(FromService.notification(id: 5))
    scripted.client.disconnected()
    scripted.begin()
    scripted.receive(FromService.accepted())
    scripted.said = []
    scripted.heard = []
    scripted.receive(FromService.notification(id: 5))
    #expect(scripted.heard.isEmpty)
    #expect(scripted.takeSaid() == FromDevice.acknowledgement("00000005"))
    #expect(scripted.client.duplicateCount == 1)
  }

  @Test("A repeated notification without an acknowledgement is neither reported nor acknowledged")
  func open() {
    var scripted = Scripted.connected()
    scripted.acknowledges = false
    scripted.receive(FromService.notification(id: 5) + FromService.notification(id: 5))
    #expect(scripted.heard.count == 1)
    #expect(scripted.said.isEmpty)
    scripted.client.acknowledge(5, status: .rejected, to: &scripted.said)
    #expect(scripted.takeSaid() == FromDevice.acknowledgement("00000005", status: "03"))
    scripted.receive(FromService.notification(id: 5))
    #expect(scripted.takeSaid() == FromDevice.acknowledgement("00000005"))
    #expect(scripted.heard.count == 1)
  }

  @Test("An acknowledgement without a connection is sent when the notification arrives again")
  func offline() {
    var scripted = Scripted.connected()
    scripted.acknowledges = false
    scripted.receive(FromService.notification(id: 5))
    scripted.client.disconnected()
    scripted.client.acknowledge(5, to: &scripted.said)
    #expect(scripted.said.isEmpty)
    scripted.begin()
    scripted.receive(FromService.accepted())
    scripted.said = []
    scripted.receive(FromService.notification(id: 5))
    #expect(scripted.takeSaid() == FromDevice.acknowledgement("00000005"))
    #expect(scripted.heard.filter { $0.hasPrefix("notification") }.count == 1)
  }

  @Test("A declined notification is reported again")
  func declined() {
    var scripted = Scripted.connected()
    scripted.acknowledges = false
    scripted.receive(FromService.notification(id: 5))
    scripted.client.decline(5)
    scripted.receive(FromService.notification(id: 5))
    #expect(scripted.heard.count == 2)
    #expect(scripted.client.duplicateCount == 0)
  }

  @Test("A reused id with another time is a new notification")
  func sameIDAnotherTime() {
    var scripted = Scripted.connected()
    scripted.receive(
      FromService.notification(id: 5, sentMilliseconds: 1_700_000_000_000)
        + FromService.notification(id: 5, sentMilliseconds: 1_600_000_000_000))
    #expect(scripted.heard.count == 2)
  }

  @Test("The window holds the last notifications, whatever the order of their ids")
  func window() {
    var window = DuplicateWindow(capacity: 3)
    func note(_ id: UInt32) -> DuplicateWindow.Standing {
      window.insert(Self.notification(id))
    }
    #expect([9, 2, 7].map(note) == [.new, .new, .new])
    #expect([9, 2, 7].map(note) == [.open, .open, .open])
    window.handle(2)
    #expect([2, 9].map(note) == [.handled, .open])
    // 9 is the oldest and is replaced.
    #expect(note(1) == .new)
    #expect([2, 7, 1].map(note) == [.handled, .open, .open])
    #expect(note(9) == .new)
    #expect(note(2) == .new)
  }

  private static func notification(_ messageID: UInt32) -> CourierNotification {
    let bytes = [UInt8](repeating: 7, count: TopicHash.byteCount)
    guard let topic = TopicHash(bytes.span) else { preconditionFailure("20 bytes are a topic") }
    return CourierNotification(
      token: DeviceToken(words: (1, 2, 3, 4)), topic: topic,
      messageID: messageID, sentNanoseconds: 1_000_000)
  }

  @Test("One that may be repeated is recognised by its apns-id and topic under any message id")
  func mayBeRepeated() {
    var scripted = Scripted.connected()
    scripted.receive(FromService.notification(id: 5, flags: "00"))
    _ = scripted.takeSaid()
    scripted.begin()
    scripted.receive(FromService.accepted())
    scripted.said = []
    scripted.receive(
      FromService.notification(id: 9, sentMilliseconds: 1_700_000_009_000, flags: "04"))
    // Acknowledged again, under its new message id.
    #expect(scripted.takeSaid() == FromDevice.acknowledgement("00000009"))
    // Without the flag, a provider's repeated apns-id is another notification; so is another apns-id with it.
    scripted.receive(
      FromService.notification(id: 10, sentMilliseconds: 1_700_000_009_000, flags: "00"))
    scripted.receive(
      FromService.notification(
        id: 11, sentMilliseconds: 1_700_000_009_000, flags: "07",
        apnsID: Self.otherID))
    #expect(scripted.heard.filter { $0.hasPrefix("notification") }.count == 3)
  }

  @Test("One that comes again under another id while it is open is acknowledged with the first")
  func openCopy() {
    var scripted = Scripted.connected()
    scripted.acknowledges = false
    scripted.receive(FromService.notification(id: 5, flags: "00"))
    for id in [9, 12] as [UInt32] {
      scripted.receive(
        FromService.notification(id: id, sentMilliseconds: 1_700_000_009_000, flags: "04"))
    }
    #expect(scripted.heard.filter { $0.hasPrefix("notification") }.count == 1)
    #expect(scripted.said.isEmpty)
    scripted.client.acknowledge(5, to: &scripted.said)
    #expect(
      scripted.takeSaid()
        == ["00000005", "00000009", "0000000c"].map { FromDevice.acknowledgement($0) }.joined())
    // On the next connection it is none of those.
    scripted.receive(FromService.notification(id: 6, flags: "00", apnsID: Self.otherID))
    scripted.receive(
      FromService.notification(
        id: 13, sentMilliseconds: 1_700_000_009_000, flags: "04", apnsID: Self.otherID))
    scripted.client.disconnected()
    scripted.begin()
    scripted.receive(FromService.accepted())
    scripted.said = []
    scripted.client.acknowledge(6, to: &scripted.said)
    #expect(scripted.takeSaid() == FromDevice.acknowledgement("00000006"))
  }

  private static let otherID = "ffeeddccbbaa99887766554433221100"

  @Test("A window agrees with a plain list", arguments: 1...20)
  func windowAgainstList(seed: UInt64) {
    var generator = SeededRandom(seed: seed)
    let capacity = Int.random(in: 1...9, using: &generator)
    var window = DuplicateWindow(capacity: capacity)
    var list: [(id: UInt32, isHandled: Bool)?] = []
    for step in 0..<400 {
      let id = UInt32.random(in: 1...14, using: &generator)
      let index = list.lastIndex { $0?.id == id }
      switch Int.random(in: 0..<4, using: &generator) {
      case 0:
        window.handle(id)
        if let index { list[index]?.isHandled = true }
      case 1:
        window.forget(id)
        if let index { list[index] = nil }
      default:
        let standing = window.insert(Self.notification(id))
        let expected: DuplicateWindow.Standing =
          index.flatMap { list[$0] }.map { $0.isHandled ? .handled : .open } ?? .new
        #expect(standing == expected, "seed \(seed), step \(step)")
        guard index == nil else { continue }
        list.append((id, false))
        if list.count > capacity { list.removeFirst() }
      }
    }
  }
}

@Suite("A courier client detects a service that is gone")
struct CourierClientTimeTests {
  private let configuration = CourierClient.Configuration(
    responseMilliseconds: 10_000, keepAliveMilliseconds: 840_001, answerMilliseconds: 30_000)

  @Test("A connect message without an answer in time is a fault")
  func noResponse() {
    var scripted = Scripted(configuration)
    #expect(scripted.client.deadlineMilliseconds == nil)
    scripted.begin()
    #expect(scripted.client.deadlineMilliseconds == 11_000)
    scripted.wait(9999)
    #expect(scripted.heard.isEmpty)
    scripted.wait(1)
    #expect(scripted.heard == ["fault \(CourierClientFault.noResponse)"])
    #expect(scripted.client.deadlineMilliseconds == nil)
  }

  @Test("Silence triggers a keep-alive with its period in whole minutes")
  func keepAlive() {
    var scripted = Scripted.connected(configuration)
    #expect(scripted.client.deadlineMilliseconds == 841_001)
    scripted.wait(840_000)
    #expect(scripted.said.isEmpty)
    scripted.wait(1)
    #expect(scripted.takeSaid() == "0c00000005050002000f")
    #expect(scripted.client.deadlineMilliseconds == 871_001)
    scripted.wait(29_999)
    scripted.receive(bytes("0d 00000000"))
    #expect(scripted.client.deadlineMilliseconds == 871_000 + 840_001)
    #expect(scripted.heard.isEmpty)
  }

  @Test("Any frame counts as activity")
  func otherFrame() {
    var scripted = Scripted.connected(configuration)
    scripted.wait(840_001)
    scripted.said = []
    scripted.wait(29_000)
    scripted.receive(FromService.notification(id: 5))
    scripted.wait(1000)
    #expect(scripted.heard.count == 1)
    #expect(scripted.client.isConnected)
  }

  @Test("A keep-alive without an answer in time is a fault")
  func noAnswer() {
    var scripted = Scripted.connected(configuration)
    scripted.wait(840_001)
    scripted.wait(30_000)
    #expect(scripted.heard == ["fault \(CourierClientFault.noAnswer)"])
    #expect(scripted.client.phase == .over)
  }

  @Test("The next connection does not wait for an answer to the last one's keep-alive")
  func freshConnection() {
    var scripted = Scripted.connected(configuration)
    scripted.wait(840_001)
    scripted.client.disconnected()
    scripted.begin()
    scripted.receive(FromService.accepted())
    #expect(scripted.client.deadlineMilliseconds == scripted.now + 840_001)
  }

  @Test("Keep-alives can be switched off")
  func none() {
    let scripted = Scripted.connected(.init(keepAliveMilliseconds: 0))
    #expect(scripted.client.deadlineMilliseconds == nil)
  }
}

@Suite("Waits between connections")
struct BackoffTests {
  @Test("The generator is SplitMix64")
  func generator() {
    var generator = SeededRandom(seed: 0)
    #expect(
      [generator.next(), generator.next(), generator.next()] == [
        0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f,
      ])
  }

  @Test("Each wait is between half and all of 1, 2, 4 ... 300 s", arguments: 1...50)
  func doubling(seed: UInt64) {
    var backoff = Backoff(configuration: .init(), seed: seed)
    for seconds: UInt64 in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300] {
      let wait = backoff.wait(afterConnectionOf: nil)
      #expect((seconds * 500...seconds * 1000).contains(wait), "seed \(seed)")
    }
  }

  @Test("Only a long enough connection resets the waits")
  func reset() {
    var backoff = Backoff(configuration: .init(), seed: 1)
    for _ in 0..<5 { _ = backoff.wait(afterConnectionOf: nil) }
    #expect((16_000...32_000).contains(backoff.wait(afterConnectionOf: 29_999)))
    #expect((500...1000).contains(backoff.wait(afterConnectionOf: 30_000)))
    #expect((1000...2000).contains(backoff.wait(afterConnectionOf: nil)))
  }

  @Test("An announced end is not a failure: the service sets the wait, and resets the next")
  func announced() {
    var backoff = Backoff(configuration: .init(), seed: 1)
    for _ in 0..<5 { _ = backoff.wait(afterConnectionOf: nil) }
    #expect(backoff.announced(waitMilliseconds: 1234) == 1234)
    #expect((500...1000).contains(backoff.wait(afterConnectionOf: nil)))
    #expect(backoff.announced(waitMilliseconds: .max) == 300_000)
  }

  @Test("With full jitter each wait is between almost zero and its maximum")
  func fullJitter() {
    var backoff = Backoff(
      configuration: .init(
        firstMilliseconds: 1000, maximumMilliseconds: 1000, hasFullJitter: true), seed: 1)
    let waits = (0..<1000).map { _ in backoff.wait(afterConnectionOf: nil) }
    #expect(waits.allSatisfy { 1...1000 ~= $0 })
    // Each tenth of the range gets at least half of its share.
    for part in UInt64(0)..<10 {
      #expect(waits.filter { ($0 - 1) / 100 == part }.count > 50, "part \(part)")
    }
  }

  @Test("Devices do not reconnect at the same time")
  func spread() {
    let waits = (0..<200).map { seed in
      var backoff = Backoff(configuration: .init(), seed: UInt64(seed))
      return backoff.wait(afterConnectionOf: nil)
    }
    #expect(Set(waits).count > 100)
  }
}
