import ApusCore
import ApusModel
import ApusWire
import Testing

/// A frame and its provider, for tests to change.
struct BinaryAttempt: Sendable {
  var frame = Frames.framed(9)
  var claims: TokenClaims? = World.claims()
  var certificate: CertificateCredential? = World.certificate()
  var environment = Environment.production
  var rules = BinaryRules.standard
  var directory = World.directory()

  mutating func payload(_ text: String, priority: UInt8 = 10) {
    frame = Frames.framed(9, priority: priority, payload: Array(text.utf8))
  }

  func sender() throws(Refusal) -> BinarySender {
    try BinarySender(
      certificate: certificate, environment: environment, rules: rules, directory: directory)
  }

  func admit() throws(Refusal) -> AdmittedFrame {
    let sender = try sender()
    switch BinaryFrame.scan(frame.span, limits: sender.frameLimits) {
    case .incomplete: fatalError("the frame is cut")
    case .fault(let fault, _, _): throw Refusal(.frame(fault))
    case .frame(let scanned):
      guard let token = DeviceToken(bytes: frame.span.extracting(scanned.token)) else {
        fatalError("a token has 32 bytes")
      }
      var payloads = PayloadSeries(frame.span)
      return try Admission.admit(
        scanned, payload: scanned.payload, of: &payloads, token: token, claims: claims,
        sender: sender)
    }
  }

  /// The status of a rejection; nil for an accepted frame.
  var status: BinaryStatus? {
    do throws(Refusal) {
      _ = try admit()
      return nil
    } catch {
      return error.explanation.status
    }
  }
}

/// A named way to make a frame or its provider invalid.
struct SpoiledAttempt: Sendable, CustomTestStringConvertible {
  var testDescription: String
  var status: BinaryStatus?
  var spoil: @Sendable (inout BinaryAttempt) -> Void

  init(
    _ name: String, _ status: BinaryStatus?,
    _ spoil: @escaping @Sendable (inout BinaryAttempt) -> Void
  ) {
    testDescription = name
    self.status = status
    self.spoil = spoil
  }
}

@Suite("Admission of binary frames")
struct AdmissionBinaryTests {
  @Test("Each row of the table of statuses holds", arguments: rows)
  func row(_ row: SpoiledAttempt) {
    var attempt = BinaryAttempt()
    row.spoil(&attempt)
    #expect(attempt.status == row.status)
  }

  static let rows: [SpoiledAttempt] = tokens + topics + contents

  static let tokens: [SpoiledAttempt] = [
    SpoiledAttempt("good", nil) { _ in },
    SpoiledAttempt("a token that was not issued here", .invalidToken) { $0.claims = nil },
    SpoiledAttempt("a token of the other environment", .invalidToken) {
      $0.claims = World.claims(World.app, .none, .development)
    },
    SpoiledAttempt("a production token at the listener for development", .invalidToken) {
      $0.environment = .development
    },
    SpoiledAttempt("a token of another app", .invalidToken) {
      $0.claims = World.claims(World.secondApp)
    },
    SpoiledAttempt("a token of the app's VoIP topic", .invalidToken) {
      $0.claims = World.claims(World.app, .voip)
    },
    SpoiledAttempt("a token that names the device", .invalidToken) {
      $0.claims = World.claims(.base)
    },
    SpoiledAttempt("the known-bad notification", .missingDeviceToken) {
      $0.frame = Frames.knownBad
    },
  ]

  static let topics: [SpoiledAttempt] = [
    SpoiledAttempt("a certificate that names no topic", .missingTopic) { $0.certificate = nil },
    SpoiledAttempt("a topic that is not registered", .missingTopic) {
      $0.certificate = World.certificate("com.example.none")
    },
    SpoiledAttempt("a topic of another team", .missingTopic) {
      $0.certificate = World.certificate("net.foreign.app")
    },
    SpoiledAttempt("a suffix without an app", .missingTopic) {
      $0.certificate = World.certificate("com.example.none.voip")
    },
    SpoiledAttempt("no topic, and a bad token", .missingTopic) {
      $0.certificate = nil
      $0.claims = nil
    },
    SpoiledAttempt("no topic, and a bad frame", .missingDeviceToken) {
      $0.certificate = nil
      $0.frame = Frames.knownBad
    },
    SpoiledAttempt("a certificate for VoIP", nil) {
      $0.certificate = World.certificate("com.example.mail.voip")
      $0.claims = World.claims(World.app, .voip)
    },
    SpoiledAttempt("a listed topic beside the certificate's own", .invalidToken) {
      $0.certificate = World.certificate(
        "com.example.mail", listed: ["com.example.chat"], several: true)
      $0.claims = World.claims(World.secondApp)
    },
  ]

  static let contents: [SpoiledAttempt] = [
    SpoiledAttempt("not JSON", .processingError) { $0.payload("alert") },
    SpoiledAttempt("no object", .processingError) { $0.payload("[1]") },
    SpoiledAttempt("no aps", .processingError) { $0.payload(#"{"a":1}"#) },
    SpoiledAttempt("not JSON, on a lenient listener", nil) {
      $0.payload("alert")
      $0.rules = .lenient
    },
    SpoiledAttempt("no aps, on a lenient listener", nil) {
      $0.payload(#"{"a":1}"#)
      $0.rules = .lenient
    },
    SpoiledAttempt("priority 7", .processingError) { $0.frame = Frames.framed(9, priority: 7) },
    SpoiledAttempt("priority 7, on a lenient listener", .processingError) {
      $0.frame = Frames.framed(9, priority: 7)
      $0.rules = .lenient
    },
    SpoiledAttempt("content-available at priority 10", nil) {
      $0.payload(#"{"aps":{"content-available":1}}"#)
    },
    SpoiledAttempt("the same, on a strict listener", .processingError) {
      $0.payload(#"{"aps":{"content-available":1}}"#)
      $0.rules = .strict
    },
    SpoiledAttempt("the same at priority 5, on a strict listener", nil) {
      $0.payload(#"{"aps":{"content-available":1}}"#, priority: 5)
      $0.rules = .strict
    },
    SpoiledAttempt("a bad token and a bad payload", .invalidToken) {
      $0.claims = nil
      $0.payload("alert")
    },
  ]

  @Test("The content of a frame becomes the notification's head")
  func head() throws {
    var attempt = BinaryAttempt()
    let framed = try attempt.admit()
    #expect(framed.claims == World.claims())
    #expect(framed.head.priority == .immediate)
    #expect(framed.head.expirationSeconds == 0x5f5e_1000)
    #expect(framed.head.messageID == nil && framed.head.pushType == nil)
    #expect(
      framed.head.token.hex == Frames.token.map { $0 < 16 ? "0" + hex($0) : hex($0) }.joined())
    attempt.frame = Frames.framed(9, priority: 5)
    #expect(try attempt.admit().head.priority == .powerSaving)
    attempt.frame = Frames.enhanced(9)
    #expect(try attempt.admit().head.expirationSeconds == 0x5f5e_1000)
    // "Delivered regardless of age."
    attempt.frame = Frames.simple()
    #expect(try attempt.admit().head.expirationSeconds == nil)
  }

  private func hex(_ byte: UInt8) -> String { String(byte, radix: 16) }

  @Test("Without items 4 and 5 a notification is stored as the newest, with priority 10")
  func absentItems() throws {
    var attempt = BinaryAttempt()
    let body =
      [0x01, 0x00, 0x20] + Frames.token + [0x02, 0x00, UInt8(Frames.payload.count)]
      + Frames.payload
    attempt.frame = [0x02, 0, 0, 0, UInt8(body.count)] + body
    let head = try attempt.admit().head
    #expect(head.expirationSeconds == nil)
    #expect(head.priority == .immediate)
  }

  @Test("A push with only content-available is sent with priority 5, whatever the frame says")
  func background() throws {
    var attempt = BinaryAttempt()
    attempt.payload(#"{"aps":{"content-available":1}}"#)
    #expect(try attempt.admit().head.priority == .powerSaving)
    attempt.frame = Frames.simple(payload: Array(#"{"aps":{"content-available":1}}"#.utf8))
    #expect(try attempt.admit().head.priority == .powerSaving)
    // A priority that the frame does not contain breaks no rule.
    attempt.rules = .strict
    #expect(try attempt.admit().head.priority == .powerSaving)
  }

  @Test("The payload limit depends on the listener and on the certificate's topic")
  func limits() throws {
    func limits(_ topic: String, _ rules: BinaryRules) throws -> [Int] {
      var attempt = BinaryAttempt()
      attempt.certificate = World.certificate(topic)
      attempt.rules = rules
      let limits = try attempt.sender().frameLimits
      return [limits.simplePayloadBytes, limits.framedPayloadBytes]
    }
    #expect(try limits("com.example.mail", .standard) == [2048, 2048])
    #expect(try limits("com.example.mail", .strict) == [256, 2048])
    #expect(try limits("com.example.mail.voip", .standard) == [4096, 4096])
    #expect(try limits("com.example.mail.voip", .strict) == [4096, 4096])
  }

  @Test("A certificate that is revoked or for the other environment is rejected as a whole")
  func refusedSender() {
    var attempt = BinaryAttempt()
    attempt.certificate = World.certificate(environments: .development)
    #expect(throws: Refusal(.certificateEnvironment(listener: .production))) {
      try attempt.sender()
    }
    attempt = BinaryAttempt()
    attempt.directory = World.directory { $0.revokedCertificates = [World.fingerprint(1)] }
    #expect(throws: Refusal(.certificateRevoked)) { try attempt.sender() }
  }

  @Test("A new directory can take away and restore a provider's topic, or the provider")
  func reexamined() throws {
    var attempt = BinaryAttempt()
    attempt.certificate = World.certificate("com.example.chat")
    var sender = try attempt.sender()
    let topic = try sender.requiredTopic()
    #expect(topic.key == TopicKey(app: World.secondApp))
    let without = World.directory(generation: 2) { builder in
      builder.apps.removeAll { $0.id == World.secondApp }
      builder.keys.removeAll { $0.topics?.contains(World.secondApp) == true }
    }
    try sender.reexamine(directory: without, nowSeconds: World.now)
    #expect(throws: Refusal(.topicUnknown)) { try sender.requiredTopic() }
    try sender.reexamine(directory: World.directory(generation: 3), nowSeconds: World.now)
    #expect(try sender.requiredTopic().key == topic.key)
    let revoking = World.directory(generation: 4) {
      $0.revokedCertificates = [World.fingerprint(1)]
    }
    #expect(throws: Refusal(.certificateRevoked)) {
      try sender.reexamine(directory: revoking, nowSeconds: World.now)
    }
  }

  @Test("A provider loses trust when its certificate expires or its authority is removed")
  func ended() throws {
    var sender = try BinaryAttempt().sender()
    let end = World.certificateEnd
    try sender.reexamine(directory: World.directory(), nowSeconds: end)
    #expect(throws: Refusal(.certificateExpired)) {
      try sender.reexamine(directory: World.directory(), nowSeconds: end + 1)
    }
    let without = World.directory(generation: 2) { $0.authorities = [World.otherAuthority] }
    #expect(throws: Refusal(.certificateAuthority)) {
      try sender.reexamine(directory: without, nowSeconds: World.now)
    }
    try sender.reexamine(directory: World.directory(generation: 3), nowSeconds: World.now)
  }

  @Test("Every rejection of a frame has a status of Apple's table that may be sent")
  func statuses() {
    for row in Self.rows {
      var attempt = BinaryAttempt()
      row.spoil(&attempt)
      if let status = attempt.status {
        #expect(status != .noError && status != .unknown && status != .shutdown)
      }
    }
  }
}
