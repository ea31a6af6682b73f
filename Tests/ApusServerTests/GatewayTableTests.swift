import ApusModel
import ApusServer
import ApusTesting
import Testing

/// An input of a provider, and the service's reaction.
struct GatewayRow: Sendable, CustomTestStringConvertible {
  /// Tokens for the rows.
  struct Tokens: Sendable {
    /// Of an offline device that listed the app.
    var good: [UInt8]
    var ofOtherApp: [UInt8]
    var ofDevelopment: [UInt8]
    /// The device's own, not valid for any app.
    var base: [UInt8]
    var forged: [UInt8]
  }

  enum Outcome: Sendable {
    case accepted
    /// With this packet, in hexadecimal digits.
    case refused(String)
    /// Closed without a packet.
    case silent
  }

  var testDescription: String
  var listener: Gateways.Listener
  var outcome: Outcome
  /// Whether the frame is also split at each of its bytes.
  var isCut: Bool
  var bytes: @Sendable (Tokens) -> [UInt8]

  init(
    _ name: String, _ outcome: Outcome, on listener: Gateways.Listener = .standard,
    cut isCut: Bool = false, _ bytes: @escaping @Sendable (Tokens) -> [UInt8]
  ) {
    testDescription = name
    self.listener = listener
    self.outcome = outcome
    self.isCut = isCut
    self.bytes = bytes
  }
}

@Suite("The binary interface's reaction to each input")
struct GatewayTableTests {
  let service: TestService
  private let tokens: GatewayRow.Tokens

  init() throws {
    service = try Gateways.service
    let device = try service.connect()
    let good = try hex(device.token())
    try device.enable(TestDirectory.topic)
    device.client.tls.close()
    var forged = good
    forged[31] ^= 1
    let id = device.device.id
    func words(_ token: DeviceToken) -> [UInt8] { hex(token.hex) }
    tokens = GatewayRow.Tokens(
      good: good, ofOtherApp: words(service.directory.deviceToken(id, app: 2)),
      ofDevelopment: words(service.directory.deviceToken(id, environment: .development)),
      base: words(service.directory.baseToken(id)), forged: forged)
  }

  private func gateway(_ row: GatewayRow) throws -> RawGatewayClient {
    try service.gateway(row.listener, identity: Gateways.identity)
  }

  /// Ends a connection on which everything was valid so far, and checks that it is treated so.
  private func expectGood(_ client: RawGatewayClient, _ row: GatewayRow) throws {
    try client.send(GatewayFrame.knownBad(0x0000_0099))
    try expectEnd(client, GatewayFrame.packet(2, 0x99), "\(row.testDescription)")
  }

  private func expectOutcome(
    _ client: RawGatewayClient, _ row: GatewayRow, _ how: String
  ) throws {
    let comment = Comment(rawValue: "\(row.testDescription), \(how)")
    switch row.outcome {
    case .accepted: try expectGood(client, row)
    case .refused(let packet): try expectEnd(client, hex(packet), comment)
    case .silent: try expectEnd(client, nil, comment)
    }
  }

  @Test("Each input has its result, in one piece and byte by byte", arguments: rows)
  func whole(row: GatewayRow) throws {
    let bytes = row.bytes(tokens)
    let whole = try gateway(row)
    try whole.send(bytes)
    let slow = try gateway(row)
    // Records that the service discards cost as much as others.
    try slow.tls.sendByteByByte(Array(bytes.prefix(400)))
    try slow.send(Array(bytes.dropFirst(400)))
    try expectOutcome(whole, row, "in one piece")
    try expectOutcome(slow, row, "byte by byte")
  }

  @Test("Of many equal inputs in one write, the first bad one is answered", arguments: rows)
  func copies(row: GatewayRow) throws {
    let client = try gateway(row)
    let bytes = row.bytes(tokens)
    try client.send(joined(repeatElement(bytes, count: bytes.count > 1000 ? 100 : 1000)))
    try expectOutcome(client, row, "many times")
  }

  @Test(
    "An input has the same result when split at any byte", arguments: rows.filter(\.isCut))
  func cuts(row: GatewayRow) throws {
    let bytes = row.bytes(tokens)
    if case .accepted = row.outcome {
      let client = try gateway(row)
      for cut in 1..<bytes.count {
        try client.send(Array(bytes[..<cut]))
        try client.send(Array(bytes[cut...]))
      }
      return try expectGood(client, row)
    }
    let clients = try (1..<bytes.count).map { cut in
      let client = try gateway(row)
      try client.send(Array(bytes[..<cut]))
      return client
    }
    for (index, client) in clients.enumerated() {
      try client.send(Array(bytes[(index + 1)...]))
    }
    for (index, client) in clients.enumerated() {
      try expectOutcome(client, row, "cut behind byte \(index + 1)")
    }
  }

  @Test("A thousand valid notifications in one write are a thousand accepted ones")
  func batch() throws {
    let client = try service.gateway(.confirming, identity: Gateways.identity)
    try client.send((0..<1000).flatMap { GatewayFrame.framed(UInt32($0), tokens.good) })
    let expected = (0..<1000).flatMap { GatewayFrame.packet(0, UInt32($0)) }
    #expect(try client.tls.take(6000) == expected)
    try client.send(GatewayFrame.knownBad(7))
    try expectEnd(client, GatewayFrame.packet(2, 7))
  }

  @Test("Hand-written frames in Apple's layouts get the documented results")
  func vectors() throws {
    let token = tokens.good
    let good: [[UInt8]] = [
      hex("000020") + token + hex("0016") + GatewayFrame.payload,
      hex("01 000004d2 5f5e1000 0020") + token + hex("0016") + GatewayFrame.payload,
      hex("020000004e 01 0020") + token + hex("02 0016") + GatewayFrame.payload
        + hex("03 0004 000004d2 04 0004 5f5e1000 05 0001 0a"),
      hex("02 00000043 01 0020") + token + hex("02 0016") + GatewayFrame.payload
        + hex("03 0004 000004d2"),
    ]
    #expect(good.map(\.count) == [59, 67, 83, 72])
    let client = try service.gateway(.standard, identity: Gateways.identity)
    for frame in good { try client.send(frame) }
    try client.send(hex("020000001803000400000007010000020000040004000000000500010a"))
    try expectEnd(client, hex("080200000007"))
  }
}
