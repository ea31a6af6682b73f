import ApusModel
import ApusTLS
import ApusTesting
import Testing

@Suite("Notifications of the binary interface reach devices")
struct GatewayDeliveryTests {
  let service: TestService

  init() throws { service = try Gateways.service }

  private func gateway(
    _ listener: Gateways.Listener = .standard
  ) throws -> RawGatewayClient {
    try service.gateway(listener, identity: Gateways.identity)
  }

  /// Waits until everything sent on the connection was accepted, and ends it.
  private func settle(_ client: RawGatewayClient) throws {
    try client.send(GatewayFrame.knownBad(0xabcd))
    try expectEnd(client, GatewayFrame.packet(2, 0xabcd))
  }

  /// The format of a frame, and what the device gets from it.
  struct Form: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var priority: UInt8
    /// The expiration sent to the device; nil for "not stored", which is ff ff ff ff.
    var expiration: Expiration
    var frame: @Sendable (_ token: [UInt8], _ payload: [UInt8], _ soon: UInt32) -> [UInt8]

    enum Expiration: Sendable {
      case none
      case soon
      /// The longest retention.
      case longest
    }

    init(
      _ name: String, _ priority: UInt8, _ expiration: Expiration,
      _ frame: @escaping @Sendable ([UInt8], [UInt8], UInt32) -> [UInt8]
    ) {
      testDescription = name
      self.priority = priority
      self.expiration = expiration
      self.frame = frame
    }
  }

  static let forms: [Form] = [
    Form("command 0", 10, .longest) { token, payload, _ in GatewayFrame.simple(token, payload) },
    Form("command 1", 10, .soon) { GatewayFrame.enhanced(1, $0, $1, expiration: $2) },
    Form("command 1, expiration 0", 10, .none) { token, payload, _ in
      GatewayFrame.enhanced(1, token, payload, expiration: 0)
    },
    Form("command 1, expiration 0xffffffff", 10, .longest) { token, payload, _ in
      GatewayFrame.enhanced(1, token, payload, expiration: 0xffff_ffff)
    },
    Form("command 1, expiration in the past", 10, .none) { token, payload, _ in
      GatewayFrame.enhanced(1, token, payload, expiration: 0x5f5e_1000)
    },
    Form("command 2", 10, .soon) { GatewayFrame.framed(1, $0, $1, expiration: $2) },
    Form("command 2, priority 5", 5, .soon) {
      GatewayFrame.framed(1, $0, $1, expiration: $2, priority: 5)
    },
    Form("command 2, expiration 0", 10, .none) { token, payload, _ in
      GatewayFrame.framed(1, token, payload, expiration: 0)
    },
    Form("command 2 without items 3 to 5", 10, .longest) { token, payload, _ in
      GatewayFrame.framed(nil, token, payload, expiration: nil, priority: nil)
    },
  ]

  private func expect(
    _ frame: RawCourierFrame, _ form: Form, _ payload: [UInt8], _ soon: UInt32, isStored: Bool
  ) {
    #expect(frame[3] == payload)
    #expect(frame[13] == [form.priority])
    let expiration = (frame[5] ?? []).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    switch form.expiration {
    case .none: #expect(expiration == 0xffff_ffff)
    case .soon: #expect(expiration == soon)
    case .longest:
      let latest = UInt32(TestDirectory.nowSeconds + Limits.storageSeconds)
      #expect((latest - 60...latest).contains(expiration))
    }
    #expect((frame[7] == [0]) != isStored)
  }

  @Test("A connected device receives the notification as it was sent", arguments: forms)
  func connected(form: Form) throws {
    let device = try service.connect()
    let token = try device.requestToken(TestDirectory.topic)[2] ?? []
    try device.enable(TestDirectory.topic)
    let payload = GatewayFrame.payload(form.testDescription)
    let soon = UInt32(TestDirectory.nowSeconds + 1000)
    let client = try gateway()
    try client.send(form.frame(token, payload, soon))
    let frame = try device.notification()
    #expect(frame[1] == token && frame[2] == ConnectedDevice.hash(TestDirectory.topic))
    expect(frame, form, payload, soon, isStored: false)
    try device.acknowledge(frame)
    try settle(client)
    // Once, and nothing else.
    try device.settle()
    #expect(device.client.received.filter { $0.command == 0x0a }.count == 1)
  }

  @Test(
    "A device that is not ready gets it later, unless it must not be stored", arguments: forms)
  func absent(form: Form) throws {
    let device = try service.directory.device()
    let first = try service.connect(device)
    let token = try first.requestToken(TestDirectory.topic)[2] ?? []
    try first.enable(TestDirectory.topic)
    first.client.tls.reset()
    // Connected again with the topic paused: the service knows for certain that the notification must wait.
    let away = try service.connect(device)
    try away.filter([(5, TestDirectory.topic)])
    try away.client.send(RawCourierFrame(0x0f, (1, [0, 0])))
    // The frame for no stored notifications is sent once the new filter is durable: before this answer or after it.
    while try away.client.nextFrame(awaiting: "the answer to a flush")?.command == 0x0e {}
    let payload = GatewayFrame.payload(form.testDescription)
    let soon = UInt32(TestDirectory.nowSeconds + 1000)
    let client = try gateway()
    try client.send(form.frame(token, payload, soon))
    try settle(client)
    away.client.tls.reset()
    let again = try service.connect(device)
    if case .none = form.expiration {
      // The answer to a device without stored notifications.
      try again.enable(TestDirectory.topic)
    } else {
      try again.filter([(2, TestDirectory.topic)])
      let frame = try again.notification()
      expect(frame, form, payload, soon, isStored: true)
      try again.acknowledge(frame)
    }
    try again.settle()
  }

  @Test("Notifications in one write arrive in order, with every command")
  func order() throws {
    let device = try service.connect()
    let token = try hex(device.token())
    try device.enable(TestDirectory.topic)
    let client = try gateway()
    let payloads = (0..<90).map { GatewayFrame.payload("\($0)") }
    try client.send(
      payloads.enumerated().flatMap { index, payload in
        switch index % 3 {
        case 0: GatewayFrame.simple(token, payload)
        case 1: GatewayFrame.enhanced(0, token, payload)
        default: GatewayFrame.framed(0, token, payload)
        }
      })
    for payload in payloads {
      let frame = try device.notification()
      #expect(frame[3] == payload)
      try device.acknowledge(frame)
    }
    try settle(client)
  }

  @Test("A VoIP certificate allows 4096 bytes, with every command")
  func voip() throws {
    let topic = "\(TestDirectory.topic).voip"
    let identity = try service.directory.providerIdentity(topic: topic)
    let device = try service.connect()
    let token = try hex(device.token(topic))
    try device.enable(topic)
    let payload = GatewayFrame.payload(byteCount: 4096)
    let client = try service.gateway(.standard, identity: identity)
    try client.send(
      GatewayFrame.simple(token, payload), GatewayFrame.enhanced(1, token, payload),
      GatewayFrame.framed(2, token, payload))
    for _ in 0..<3 {
      let frame = try device.notification()
      #expect(frame[3] == payload && frame[2] == ConnectedDevice.hash(topic))
      try device.acknowledge(frame)
    }
    try client.send(GatewayFrame.framed(3, token, GatewayFrame.payload(byteCount: 4097)))
    try expectEnd(client, GatewayFrame.packet(7, 3))
  }

  @Test("A lenient listener delivers payloads that are not JSON, byte for byte")
  func lenient() throws {
    let device = try service.connect()
    let token = try hex(device.token())
    try device.enable(TestDirectory.topic)
    let client = try gateway(.lenient)
    let payload: [UInt8] = [0xff, 0x00, 0x7b, 0x61]
    try client.send(
      GatewayFrame.items([(200, [1, 2]), (2, payload), (1, token), (3, [0, 0, 0, 9]), (200, [])]))
    let frame = try device.notification()
    #expect(frame[3] == payload)
    try device.acknowledge(frame)
    try settle(client)
  }

  @Test("The development listener serves devices of that environment only")
  func development() throws {
    let token = try service.absentToken(TestDirectory.topic, .development)
    let client = try service.gateway(.development, identity: Gateways.identity)
    try client.send(GatewayFrame.framed(1, token))
    try settle(client)
    let other = try gateway()
    try other.send(GatewayFrame.framed(1, token))
    try expectEnd(other, GatewayFrame.packet(8, 1))
  }

  @Test(
    "On a healthy connection the service writes nothing, not even a session ticket",
    arguments: [
      TLSVersion.v1_2, .v1_3,
    ])
  func silence(version: TLSVersion) throws {
    let device = try service.connect()
    let token = try hex(device.token())
    try device.enable(TestDirectory.topic)
    let client = try service.gateway(identity: Gateways.identity) {
      ($0.minimumVersion, $0.maximumVersion) = (version, version)
    }
    #expect(client.tls.version == version)
    for number in 0..<20 {
      try client.send(GatewayFrame.framed(UInt32(number), token))
      try device.acknowledge(device.notification())
    }
    try device.settle()
    #expect(try client.tls.isQuiet())
    try client.tls.finish()
    try expectEnd(client, nil)
    // close_notify is the only record.
    #expect(client.tls.records.count == 1)
    let reader = try service.feedbackReader(
      topic: TestDirectory.otherTopic
    ) { ($0.minimumVersion, $0.maximumVersion) = (version, version) }
    #expect(try reader.receiveAll() == ([], .closeNotify))
    #expect(reader.records.count == 1)
  }
}
