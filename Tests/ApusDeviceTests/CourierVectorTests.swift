import ApusDevice
import ApusModel
import ApusTrust
import ApusWire
import CourierVectors
import Foundation
import Testing

@Suite("A device takes the courier vectors")
struct CourierVectorTests {
  // MARK: What the service sends

  /// A client at the stage that the vector asks for. While connected it waits for the token of com.example.app, and for
  /// the confirmation with index 1.
  private func client(for vector: CourierVector) throws -> CourierClient {
    let dialect = try #require(
      CourierALPN.allCases.first { "\($0.name)" == vector.dialect }, "no such dialect")
    let enrolment = CourierEnrolmentRequest(certificateRequest: [0x30, 0])
    var client = CourierClient(
      configuration: CourierClient.Configuration(
        dialect: dialect, enrolment: vector.stage == "enrolling" ? enrolment : nil))
    var said: [UInt8] = []
    let proof = CourierProof(certificateDER: [1], nonce: [2], signature: [3])
    client.begin(proof: dialect == .securityV3 ? proof : nil, nowMilliseconds: 0, to: &said)
    guard vector.stage.isEmpty else { return client }
    #expect(client.requestToken(topic(appHex), to: &said))
    #expect(client.subscribe(CourierSubscriptions(), to: &said) == 1)
    let accepted = FromService.accepted()
    var offset = 0
    let event = client.next(accepted.span, at: &offset, nowMilliseconds: 0, to: &said)
    guard case .connected? = event else {
      Issue.record("the client did not connect")
      return client
    }
    return client
  }

  /// What an event says, in the words of the vectors; it says less than the frame.
  private func facts(_ event: CourierClientEvent, _ input: [UInt8]) -> [String: String] {
    var facts: [String: String] = [:]
    switch event {
    case .connected(let token, let milliseconds, _, let hint):
      facts = [
        "message": "connectResponse", "status": "0", "token": token.hex,
        "serverMilliseconds": "\(milliseconds)",
      ]
      if !hint.isEmpty { facts["hint"] = hint }
    case .refused(let refusal):
      facts = [
        "message": "connectResponse", "status": "\(refusal.status.rawValue)",
        "serverMilliseconds": "\(refusal.serverMilliseconds)",
      ]
      if let time = refusal.badNonceServerMilliseconds {
        facts["badNonceServerMilliseconds"] = "\(time)"
      }
      if !refusal.explanation.isEmpty { facts["explanation"] = refusal.explanation }
    case .issued(let issuance): facts = self.facts(issuance, "enrolmentAnswer")
    case .renewal(let issuance): facts = self.facts(issuance, "renewalAnswer")
    case .renewalAdvised(let seconds):
      facts = ["message": "renewalAdvice", "withinSeconds": "\(seconds)"]
    case .appToken(let topic, let token):
      facts = [
        "message": "appTokenAnswer", "status": "0", "token": token.hex, "topic": digits(topic),
      ]
    case .tokenRefused(let topic, let status):
      facts = ["message": "appTokenAnswer", "status": "\(status)", "topic": digits(topic)]
    case .notification(let arrival): facts = self.facts(arrival, input)
    case .subscriptions(let confirmation):
      facts = [
        "message": "channelConfirmation", "index": "\(confirmation.index)",
        "status": "\(confirmation.status.rawValue)",
      ]
    case .noStorage: facts = ["message": "noStorage"]
    case .goodbye(let reason, let milliseconds):
      facts = ["message": "goodbye", "reason": reason]
      if let milliseconds { facts["reconnectMilliseconds"] = "\(milliseconds)" }
    case .fault(let fault): facts = ["message": "fault", "fault": fault.description]
    }
    return facts
  }

  private func facts(_ issuance: CourierIssuance, _ message: String) -> [String: String] {
    var facts = ["message": message, "status": "\(issuance.status.rawValue)"]
    if let reason = issuance.reason { facts["reason"] = "\(reason.rawValue)" }
    let text = String(decoding: issuance.text, as: UTF8.self)
    if !text.isEmpty { facts["text"] = text }
    let certificates = issuance.certificates.map { hex($0) }.joined(separator: " ")
    if !certificates.isEmpty { facts["certificates"] = certificates }
    if let seconds = issuance.retrySeconds { facts["retrySeconds"] = "\(seconds)" }
    return facts
  }

  private func facts(_ arrival: CourierArrival, _ input: [UInt8]) -> [String: String] {
    let message = arrival.notification
    let payload = arrival.payload(in: input.span).copied()
    let collapseID = arrival.collapseID(in: input.span).text
    var facts = [
      "message": "notification", "token": message.token.hex, "topic": digits(message.topic),
      "messageID": "\(message.messageID)", "storageFlags": "\(message.storage.rawValue)",
    ]
    if payload.count > 64 {
      facts["payloadBytes"] = "\(payload.count)"
    } else {
      facts["payload"] = String(decoding: payload, as: UTF8.self)
    }
    if let seconds = message.expirySeconds { facts["expirySeconds"] = "\(seconds)" }
    if let sent = message.sentNanoseconds { facts["sentNanoseconds"] = "\(sent)" }
    if let priority = message.priority { facts["priority"] = "\(priority.rawValue)" }
    if let id = message.id { facts["id"] = id.text }
    if let pushType = message.pushType { facts["pushType"] = "\(pushType.rawValue)" }
    if !collapseID.isEmpty { facts["collapseID"] = collapseID }
    let channel = arrival.channelID(in: input.span).copied()
    if !channel.isEmpty { facts["channel"] = hex(channel) }
    return facts
  }

  private func digits(_ topic: TopicHash) -> String {
    hex((0..<TopicHash.byteCount).map { topic[$0] })
  }

  @Test(
    "Each is reported, skipped or ends the connection",
    arguments: CourierVector.all.filter { !$0.isToService })
  func heard(vector: CourierVector) throws {
    var client = try client(for: vector)
    let skipped = client.skippedCount
    var said: [UInt8] = []
    var offset = 0
    let event = client.next(vector.bytes.span, at: &offset, nowMilliseconds: 0, to: &said)
    #expect(said.isEmpty)
    if vector.closes {
      guard case .fault(let fault)? = event else {
        Issue.record("no fault")
        return
      }
      #expect(client.phase == .over)
      guard case .malformed(let malformed) = fault else {
        #expect(vector.fault == nil)
        return
      }
      #expect(CourierVector.facts(of: malformed) == vector.fault)
      return
    }
    guard let event else {
      #expect(client.phase != .over)
      let isAnswer = vector.decoded?["message"] == "keepAliveAnswer"
      #expect(client.skippedCount == skipped + (isAnswer ? 0 : 1))
      return
    }
    let decoded = try #require(vector.decoded)
    for (fact, value) in facts(event, vector.bytes) { #expect(decoded[fact] == value) }
    if case .subscriptions = event { #expect(decoded["index"] == "1") }
    if case .notification = event { #expect(facts(event, vector.bytes) == decoded) }
  }

  // MARK: What the device sends

  private func connected() throws -> CourierClient {
    var client = CourierClient(configuration: CourierClient.Configuration())
    var said: [UInt8] = []
    client.begin(nowMilliseconds: 0, to: &said)
    let accepted = FromService.accepted()
    var offset = 0
    let event = client.next(accepted.span, at: &offset, nowMilliseconds: 0, to: &said)
    guard case .connected? = event else {
      Issue.record("the client did not connect")
      return client
    }
    return client
  }

  /// Expects that what `say` makes a connected client say is the vector.
  private func expect(
    _ name: String, sourceLocation: SourceLocation = #_sourceLocation,
    _ say: (inout CourierClient, inout [UInt8]) -> Void
  ) throws {
    var client = try connected()
    var said: [UInt8] = []
    say(&client, &said)
    let expected = try CourierVector.named(name).bytes
    #expect(said == expected, "\(name)", sourceLocation: sourceLocation)
  }

  @Test("A client says the connect messages of the vectors")
  func connect() throws {
    let cases: [(String, DeviceToken?)] = [
      ("connect-first", nil), ("connect-token", token(baseHex)),
    ]
    for (name, token) in cases {
      let expected = try CourierVector.named(name).bytes
      var client = CourierClient(
        configuration: CourierClient.Configuration(), baseToken: token)
      var said: [UInt8] = []
      client.begin(nowMilliseconds: 0, to: &said)
      #expect(said == expected, "\(name)")
    }
  }

  @Test("A client signs the nonce of the vector as the vector does")
  func signature() throws {
    let vector = try CourierVector.named("connect-in-band")
    let certificate = bytes(vector.decoded?["certificate"] ?? "")
    let lines = Data(vector.privateKey).base64EncodedString(
      options: [.lineLength64Characters, .endLineWithLineFeed])
    let key = try PrivateKey(
      pem: "-----BEGIN PRIVATE KEY-----\n\(lines)\n-----END PRIVATE KEY-----\n")
    let proof = try CourierProof(
      certificateDER: certificate, key: key, milliseconds: 1_700_000_000_000,
      random: [1, 2, 3, 4, 5, 6, 7, 8])
    var client = CourierClient(
      configuration: CourierClient.Configuration(dialect: .securityV3))
    var said: [UInt8] = []
    client.begin(proof: proof, nowMilliseconds: 0, to: &said)
    #expect(said == vector.bytes)
  }

  @Test("A client says the other messages of the vectors")
  func messages() throws {
    func hash(_ byte: String) -> TopicHash { topic(String(repeating: byte, count: 20)) }
    try expect("filter-nothing") { $0.setTopics(CourierTopics(), to: &$1) }
    try expect("filter-one-topic") { $0.setTopics(enabled: [topic(appHex)], to: &$1) }
    try expect("filter-all-lists") {
      $0.setTopics(
        enabled: [topic(appHex)], ignored: [topic(chatHex)], opportunistic: [hash("c1")],
        paused: [hash("c2")], nonWaking: [hash("c3")], to: &$1)
    }
    try expect("set-state-active") { $0.setPower(.active, to: &$1) }
    try expect("set-state-idle") { $0.setPower(.idle, to: &$1) }
    try expect("app-token-request") { _ = $0.requestToken(topic(appHex), to: &$1) }
    try expect("acknowledgement") { $0.acknowledge(0x0102_0304, to: &$1) }
    try expect("acknowledgement-failed") {
      $0.acknowledge(0x0102_0304, status: .failed, to: &$1)
    }
    try expect("acknowledgement-rejected") {
      $0.acknowledge(0x0102_0304, status: .rejected, to: &$1)
    }
    try expect("keep-alive-interval") {
      _ = $0.timePassed(nowMilliseconds: 900_000, to: &$1)
    }
    try expect("renewal-request") {
      _ = $0.requestRenewal(CourierRenewalRequest(certificateRequest: [0x30, 0]), to: &$1)
    }
  }

  @Test("A device without a certificate says the requests of the vectors")
  func enrolment() throws {
    let code = Array("04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205A".utf8)
    let requests = [
      (
        "enrolment-request",
        CourierEnrolmentRequest(
          code: code, certificateRequest: [0x30, 0], name: Array("phone".utf8))
      ),
      ("enrolment-request-bare", CourierEnrolmentRequest(certificateRequest: [0x30, 0])),
    ]
    for (name, request) in requests {
      let expected = try CourierVector.named(name).bytes
      var client = CourierClient(
        configuration: CourierClient.Configuration(enrolment: request))
      var said: [UInt8] = []
      client.begin(nowMilliseconds: 0, to: &said)
      #expect(said == expected, "\(name)")
    }
  }
}
