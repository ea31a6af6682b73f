import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import Testing

@Suite("Planned faults on the binary interface")
struct PlannedBinaryFaultTests {
  let stage: Stage

  init() throws { stage = try Stage.strict }

  /// Sends three frames, of which the second meets the fault.
  private func send(
    _ effect: PlannedFault.Effect
  ) throws -> (gateway: RawGatewayClient, token: String, tokens: [String]) {
    let tokens = try (0..<3).map { _ in try stage.token() }
    stage.interceptor.plan(tokens[1], effect)
    let gateway = try stage.service.gateway(identity: Gateways.identity(of: stage))
    let frames = tokens.enumerated().map { GatewayFrame.framed(UInt32($0 + 1), hex($1)) }
    try gateway.send(frames[0], frames[1], frames[2])
    return (gateway, tokens[1], tokens)
  }

  @Test(
    "A fault can be an error packet with any status, and nothing after it is accepted",
    arguments: [.processingError, .invalidToken, .unknown, .shutdown] as [BinaryStatus])
  func error(status: BinaryStatus) throws {
    let (gateway, token, tokens) = try send(.binaryError(status: status, lateMilliseconds: 0))
    try expectEnd(gateway, GatewayFrame.packet(status.rawValue, 2))
    let exchange = try stage.interceptor.exchange(token)
    #expect(exchange.status == Int(status.rawValue) && exchange.fault == "planned")
    #expect(try stage.interceptor.exchange(tokens[0]).isAccepted)
    #expect(try stage.interceptor.exchanges(tokens[2], count: 0).isEmpty)
  }

  @Test("A delayed packet still arrives, and frames received meanwhile are lost")
  func late() throws {
    let (gateway, _, tokens) = try send(
      .binaryError(status: .invalidToken, lateMilliseconds: 300))
    let late = try stage.token()
    try gateway.send(GatewayFrame.framed(4, hex(late)))
    try expectEnd(gateway, GatewayFrame.packet(8, 2))
    for token in [tokens[2], late] {
      #expect(try stage.interceptor.exchanges(token, count: 0).isEmpty)
    }
  }

  @Test("A lost packet leaves an end without a reason")
  func silence() throws {
    let (gateway, token, _) = try send(.binarySilence)
    try expectEnd(gateway, nil)
    #expect(try stage.interceptor.exchange(token).status == 1)
  }

  @Test("A shutdown names the last accepted notification")
  func shutdown() throws {
    let (gateway, token, tokens) = try send(.binaryShutdown)
    try expectEnd(gateway, GatewayFrame.packet(10, 2))
    #expect(try stage.interceptor.exchange(token).isAccepted)
    #expect(try stage.interceptor.exchanges(tokens[2], count: 0).isEmpty)
  }

  @Test("A delay keeps the order: later frames are accepted, and confirmed after it")
  func delay() throws {
    let (gateway, token, tokens) = try send(
      .delay(milliseconds: 200, then: .binaryError(status: .missingTopic, lateMilliseconds: 0)))
    try expectEnd(gateway, GatewayFrame.packet(3, 2))
    #expect(try stage.interceptor.exchange(token).status == 3)
    #expect(try stage.interceptor.exchange(tokens[2]).isAccepted)
  }

  @Test("A reason of the HTTP/2 interface becomes the closest status")
  func respond() throws {
    let (gateway, token, _) = try send(.respond(.init(status: 413, reason: "PayloadTooLarge")))
    try expectEnd(gateway, GatewayFrame.packet(7, 2))
    #expect(try stage.interceptor.exchange(token).reason == "PayloadTooLarge")
  }

  @Test("A discarded notification counts as accepted")
  func thrownAway() throws {
    let (gateway, token, tokens) = try send(.noAnswer)
    #expect(try stage.interceptor.exchange(tokens[2]).isAccepted)
    let exchange = try stage.interceptor.exchange(token)
    #expect(exchange.isAccepted && exchange.notificationID == nil)
    try gateway.tls.finish()
    try expectEnd(gateway, nil)
  }

  @Test("A fault can end the connection in the middle of the packet")
  func cut() throws {
    let (gateway, _, _) = try send(.closeInTheMiddle)
    let end = try gateway.end()
    #expect(end.bytes.count == 3 && end.end != .closeNotify)
  }
}

extension Gateways {
  static func identity(of stage: Stage) throws -> TLSIdentity {
    try stage.service.directory.providerIdentity()
  }
}
