import ApusCore
import ApusDirectory
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

@Suite(
  "The lenient mode accepts well-formed requests, and notes what the service would reject")
struct LenientTests {
  let stage: Stage

  init() throws { stage = try Stage.lenient }

  private var directory: TestDirectory { stage.service.directory }

  private func push(
    _ token: String, topic: String = TestDirectory.topic, key: ProviderKeyPair? = nil,
    identity: TLSIdentity? = nil, change: ([RawHeader]) -> [RawHeader] = { $0 }
  ) throws -> RawResponse {
    let provider = try stage.service.provider(identity: identity)
    let authorization =
      try identity == nil ? key.map { try "bearer \($0.token())" } ?? stage.authorization : nil
    return try provider.exchange(
      change(
        stage.service.pushHeaders(to: token, topic: topic, authorization: authorization)),
      body: TestService.payload)
  }

  /// The notes of lenient mode about the single push to a token.
  private func notes(_ token: String, status: Int = 200) throws -> String {
    let exchange = try stage.interceptor.exchange(token)
    #expect(exchange.status == status)
    return exchange.notes.joined(separator: "; ")
  }

  @Test("A valid request is accepted without a note")
  func right() throws {
    let token = try stage.token()
    #expect(try push(token).status == 200)
    #expect(try notes(token) == "")
  }

  @Test("Any key is accepted if its token is readable")
  func keys() throws {
    for (key, note) in [
      (directory.unknownKey, "is not registered"), (directory.revokedKey, "is revoked"),
      (directory.foreignKey, "the credential is of team FOREIGN001"),
      (directory.developmentKey, "is for development"),
      (directory.unrelatedKey, "is not assigned to key"),
    ] {
      let token = try stage.token()
      #expect(try push(token, key: key).status == 200, "\(key.id.text)")
      #expect(try notes(token).contains(note), "\(key.id.text)")
    }
  }

  @Test("A broadcast of an app that the interceptor does not add is rejected")
  func unknownApp() throws {
    let provider = try stage.service.provider()
    let answer = try provider.exchange(
      [
        RawHeader(.method, "POST"), RawHeader(.scheme, "https"),
        RawHeader(.path, "/4/broadcasts/apps/org.example.refused"),
        RawHeader(.authority, "localhost"), RawHeader(.authorization, stage.authorization),
        RawHeader(.apnsRequestID, "11111111-2222-3333-4444-555555555555"),
      ], body: TestService.payload)
    #expect(answer.status == 403)
    #expect(answer.bodyText == #"{"reason":"TopicMismatch"}"#)
    #expect(answer["apns-request-id"] == "11111111-2222-3333-4444-555555555555")
    #expect(stage.interceptor.askedApps.contains("org.example.refused"))
  }

  @Test("A bad signature of a known key and an unknown team are noted")
  func signature() throws {
    let own = directory.key
    let forged = ProviderKeyPair(id: own.id, team: own.team, key: directory.unknownKey.key)
    let token = try stage.token()
    #expect(try push(token, key: forged).status == 200)
    #expect(try notes(token).contains("its signature does not match that key"))
    let other = try stage.token()
    let short = try own.token(
      header: own.header, claims: #"{"iss":"T","iat":\#(TestDirectory.nowSeconds)}"#)
    let answer = try push(other) { $0.setting("authorization", "bearer \(short)") }
    #expect(answer.status == 200)
    #expect(try !notes(other).isEmpty)
  }

  @Test("An unreadable, expired or missing token is still rejected")
  func noCredential() throws {
    let old = try directory.unknownKey.token(issuedAt: TestDirectory.nowSeconds - 4000)
    for (value, reason) in [
      ("bearer a.b.c", "InvalidProviderToken"), ("bearer \(old)", "ExpiredProviderToken"),
    ] {
      let token = try stage.token()
      let answer = try push(token) { $0.setting("authorization", value) }
      expectRefusal(answer, 403, reason)
    }
    let answer = try push(stage.token()) { $0.without("authorization") }
    expectRefusal(answer, 403, "MissingProviderToken")
  }

  @Test("Two tokens of unrelated keys on one connection are noted")
  func related() throws {
    let provider = try stage.service.provider()
    let token = try stage.token()
    let own = stage.authorization
    let others = try [directory.unrelatedKey, directory.unknownKey].map {
      try "bearer \($0.token())"
    }
    for authorization in [own] + others + [own] {
      let headers = stage.headers(token).setting("authorization", authorization)
      #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    }
    let notes = try stage.interceptor.exchanges(token, count: 4).map(\.notes.isEmpty)
    #expect(notes == [true, false, false, true])
  }

  @Test("Any certificate is accepted and noted", arguments: [false, true])
  func certificate(isExpired: Bool) throws {
    let identity = try directory.providerIdentity(
      validity: isExpired ? TestDirectory.expired : nil,
      authority: isExpired ? nil : directory.foreignAuthority)
    let token = try stage.token()
    let answer = try push(token, identity: identity) { $0.without("apns-topic") }
    #expect(answer.status == 200)
    #expect(try stage.interceptor.exchange(token).request.topic == TestDirectory.topic)
  }

  @Test("A certificate for the other environment, or not for push, is noted")
  func unfitCertificate() throws {
    let token = try stage.token()
    let development = try directory.providerIdentity(environments: .development)
    #expect(try push(token, identity: development).status == 200)
    #expect(try notes(token).contains("the certificate is for development"))
    let other = try stage.token()
    let device = try directory.device().identity
    #expect(try push(other, identity: device).status == 200)
    #expect(try !notes(other).isEmpty)
  }

  @Test(
    "A device token of any length is mapped to the device that adopts it",
    arguments: [1, 32, 40, 100])
  func adopted(byteCount: Int) throws {
    let device = try stage.service.connect()
    let own = try device.token()
    try device.enable(TestDirectory.topic)
    let foreign = hexText(randomBytes(byteCount))
    stage.interceptor.adopt(foreign, as: DeviceToken(hex: Array(own.utf8).span))
    #expect(try push(foreign).status == 200)
    #expect(try device.notification()[3] == TestService.payload)
    let notes = try notes(foreign)
    #expect(notes.contains(byteCount == 32 ? "this service did not issue" : "digits; tokens of"))
    #expect(stage.interceptor.asked(foreign) == [TestDirectory.topic])
  }

  @Test("A token that no device adopts, and an invalid one, are rejected")
  func notAdopted() throws {
    let foreign = hexText(randomBytes(32))
    expectRefusal(try push(foreign), 400, "BadDeviceToken")
    #expect(try stage.interceptor.exchange(foreign).status == 400)
    for bad in ["abc", "zz", "", hexText(randomBytes(101))] {
      let answer = try push(bad)
      #expect(answer.status == 400)
      #expect(stage.interceptor.asked(bad).isEmpty)
    }
  }

  @Test("A topic is valid once an app was created for it and assigned to a device")
  func freshTopic() throws {
    // With its own directory, since others read the shared one.
    let stage = try Stage(isLenient: true)
    let topic = "com.example.fresh"
    let device = Unshared(try stage.service.connect())
    let foreign = hexText(randomBytes(40))
    let service = stage.service
    stage.interceptor.adopt(foreign) {
      try? Self.addApp(topic, to: service)
      try? device.value.enable(topic)
      return Self.token(device.value)
    }
    let provider = try service.provider()
    let headers = service.pushHeaders(
      to: foreign, topic: topic, authorization: stage.authorization)
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    #expect(try device.value.notification()[3] == TestService.payload)
    let base = try #require(Self.token(device.value))
    stage.interceptor.adopt(foreign) { base }
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    let exchanges = try stage.interceptor.exchanges(foreign, count: 2)
    // The second time the topic is known.
    #expect(exchanges.map(\.notes.count) == [1, 1])
    #expect(stage.interceptor.asked(foreign) == [topic, topic])
  }

  private static func token(_ device: ConnectedDevice) -> DeviceToken? {
    let token = device.baseToken
    return DeviceToken(bytes: token.span)
  }

  private static func addApp(_ topic: String, to service: TestService) throws {
    var records = try service.directory.data.records()
    records.sections.append(
      .init(
        kind: "app", name: topic, values: [("id", "9"), ("team", service.directory.team.text)]))
    try service.directory.data.save(records)
    service.service.reload()
  }

  @Test("A topic without an app, and without a created one, is rejected")
  func topic() throws {
    let topic = "com.example.fresh\(TestDirectory.nowSeconds)"
    let token = try stage.token()
    expectRefusal(try push(token, topic: topic), 400, "TopicDisallowed")
    #expect(stage.interceptor.asked(token) == [topic])
    let refused = try stage.interceptor.exchange(token)
    #expect(refused.notes.joined().contains("no app is registered for topic"))
  }

  @Test("Malformed requests are still rejected")
  func form() throws {
    let token = try stage.token()
    for (name, value, reason) in [
      ("apns-priority", "7", "BadPriority"), ("apns-id", "x", "BadMessageId"),
      ("apns-push-type", "x", "InvalidPushType"), ("apns-topic", "a..b", "BadTopic"),
    ] {
      let answer = try push(token) { $0.setting(name, value) }
      expectRefusal(answer, 400, reason)
    }
  }

  // MARK: The binary interface

  @Test("Frames without a certificate are adopted in order")
  func binary() throws {
    let device = try stage.service.connect()
    let own = try device.token()
    try device.enable(TestDirectory.topic)
    let foreign = hexText(randomBytes(32))
    stage.interceptor.adopt(foreign, as: DeviceToken(hex: Array(own.utf8).span))
    let gateway = RawGatewayClient(try stage.service.tls(.gateway, protocols: []))
    for identifier in 1...3 as ClosedRange<UInt32> {
      try gateway.send(
        GatewayFrame.framed(identifier, hex(foreign), GatewayFrame.payload("\(identifier)")))
    }
    for number in 1...3 {
      let notification = try device.notification()
      #expect(notification[3] == GatewayFrame.payload("\(number)"))
      try device.acknowledge(notification)
    }
    let exchanges = try stage.interceptor.exchanges(foreign, count: 3)
    #expect(exchanges.map(\.status) == [0, 0, 0])
    #expect(exchanges.allSatisfy { $0.notificationID != nil })
    #expect(exchanges[0].notes.joined().contains("this service did not issue"))
    #expect(stage.interceptor.asked(foreign) == ["", "", ""])
  }

  @Test("A frame that no device adopts ends the connection with its identifier")
  func binaryNotAdopted() throws {
    let gateway = RawGatewayClient(try stage.service.tls(.gateway, protocols: []))
    try gateway.send(GatewayFrame.framed(9, randomBytes(32)))
    try expectEnd(gateway, GatewayFrame.packet(8, 9))
  }

  @Test("A foreign certificate for an unknown topic is accepted and noted")
  func binaryCertificate() throws {
    let identity = try directory.providerIdentity(
      topic: TestDirectory.unknownTopic, authority: directory.foreignAuthority)
    let token = try stage.token()
    let gateway = try stage.service.gateway(identity: identity)
    try gateway.send(GatewayFrame.framed(3, hex(token)))
    #expect(try notes(token, status: 0).contains("no app is registered"))
    #expect(
      try stage.interceptor.exchange(token).request.topic == TestDirectory.unknownTopic)
  }
}

/// Used on one thread at a time.
private struct Unshared<Value>: @unchecked Sendable {
  var value: Value

  init(_ value: Value) { self.value = value }
}

private func hexText(_ bytes: [UInt8]) -> String {
  bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
}
