import ApusCore
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import Glibc
import Testing

/// Frames written by hand from the Binary Provider API.
enum GatewayFrame {
  static let payload = TestService.payload

  static func payload(_ text: String) -> [UInt8] { Array(#"{"aps":{"alert":"\#(text)"}}"#.utf8) }

  /// A payload of exactly `count` bytes.
  static func payload(byteCount count: Int) -> [UInt8] {
    payload(String(repeating: "x", count: count - payload("").count))
  }

  private static func measured(_ bytes: [UInt8]) -> [UInt8] {
    bigEndian(UInt16(bytes.count)) + bytes
  }

  static func simple(_ token: [UInt8], _ payload: [UInt8] = payload) -> [UInt8] {
    [0] + measured(token) + measured(payload)
  }

  static func enhanced(
    _ identifier: UInt32, _ token: [UInt8], _ payload: [UInt8] = payload,
    expiration: UInt32 = 0x7fff_ffff
  ) -> [UInt8] {
    [1] + bigEndian(identifier) + bigEndian(expiration) + measured(token) + measured(payload)
  }

  /// Command 2 with these items.
  static func items(_ items: [(UInt8, [UInt8])]) -> [UInt8] {
    raw(items.flatMap { [$0.0] + measured($0.1) })
  }

  /// Command 2 with these bytes instead of items.
  static func raw(_ body: [UInt8]) -> [UInt8] { [2] + bigEndian(UInt32(body.count)) + body }

  static func framed(
    _ identifier: UInt32?, _ token: [UInt8], _ payload: [UInt8] = payload,
    expiration: UInt32? = 0x7fff_ffff, priority: UInt8? = 10
  ) -> [UInt8] {
    var list: [(UInt8, [UInt8])] = [(1, token), (2, payload)]
    if let identifier { list.append((3, bigEndian(identifier))) }
    if let expiration { list.append((4, bigEndian(expiration))) }
    if let priority { list.append((5, [priority])) }
    return items(list)
  }

  /// The notification with which one client asks whether everything before was processed: token and payload of length
  /// 0. Its answer is status 2.
  static func knownBad(_ identifier: UInt32) -> [UInt8] {
    hex("02 00000018 03 0004") + bigEndian(identifier)
      + hex("01 0000 02 0000 04 0004 00000000 05 0001 0a")
  }

  static func packet(_ status: UInt8, _ identifier: UInt32) -> [UInt8] {
    [8, status] + bigEndian(identifier)
  }
}

/// A shared service with a listener for each set of rules.
enum Gateways {
  enum Listener: Int, CaseIterable {
    case standard
    case strict
    case lenient
    case confirming
  }

  static let rules: [BinaryRules] = {
    var confirming = BinaryRules.standard
    confirming.confirmsAccepted = true
    return [.standard, .strict, .lenient, confirming]
  }()

  private static let started = Result {
    try TestService(nil, .init { $0.gatewayRules = rules })
  }

  static var service: TestService { get throws { try started.get() } }

  private static let issued = Result { try service.directory.providerIdentity() }

  /// Shared, because issuing one takes longer than connecting.
  static var identity: TLSIdentity { get throws { try issued.get() } }
}

extension TestService {
  func gateway(_ listener: Gateways.Listener, identity: TLSIdentity) throws -> RawGatewayClient {
    try gateway(listener: listener.rawValue, identity: identity)
  }

  /// The token of `topic` on a new device that listed it and disconnected.
  func absentToken(
    _ topic: String = TestDirectory.topic, _ environment: Environment = .production
  ) throws -> [UInt8] {
    let device = try connect(nil, environment)
    let token = try hex(device.token(topic))
    try device.enable(topic)
    device.client.tls.close()
    return token
  }
}

/// Polls for a condition on another thread.
func waitUntil(_ what: String, _ condition: () throws -> Bool) throws {
  let deadline = Deadline()
  while try !condition() {
    guard deadline.remainingMilliseconds > 0 else { throw RawFault.timedOut(what) }
    sched_yield()
  }
}

/// Expects the packet or no byte, then close_notify in its own record, then FIN without a reset.
func expectEnd(
  _ client: RawGatewayClient, _ packet: [UInt8]?, behind confirmations: [UInt8] = [],
  _ comment: @autoclosure () -> Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
) throws {
  let end = try client.end()
  let expected = GatewayEnd(
    bytes: confirmations + (packet ?? []), end: .closeNotify, transport: .endOfStream)
  #expect(end == expected, comment(), sourceLocation: sourceLocation)
  let last = client.tls.records.suffix(2).map(\.plaintext)
  let records: [[UInt8]] = packet.map { [$0, []] } ?? [[]]
  #expect(last.suffix(records.count) == records[...], comment(), sourceLocation: sourceLocation)
  client.tls.close()
}
