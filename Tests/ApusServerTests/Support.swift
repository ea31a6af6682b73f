import ApusLoop
import ApusModel
import ApusTesting
import ApusTrust
import Glibc
import Testing

/// One service for all tests that do not stop it; each test uses new devices.
enum Shared {
  private static let started = Result { try TestService() }

  static var service: TestService { get throws { try started.get() } }

  /// The token of an app on an offline device: pushes to it are accepted and stored.
  private static let absent = Result { try absentToken(of: service) }

  /// The same for another service.
  static func absentToken(of service: TestService) throws -> String {
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    return token
  }

  static var absentToken: String { get throws { try absent.get() } }

  /// Generating a key takes a moment, so the devices of the in-band dialect share one.
  private static let rsa = Result { try PrivateKey.generateRSA(bits: 2048) }

  static var rsaKey: PrivateKey { get throws { try rsa.get() } }
}

extension TestService {
  /// A device that was connected once and is offline.
  func absentDevice() throws -> (device: TestDevice, token: String) {
    let count = service.connectionCount()
    let device = try connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    device.client.tls.close()
    try awaitConnections(count)
    return (device.device, token)
  }

  /// Waits until at most this many connections are left.
  func awaitConnections(_ count: Int) throws {
    let deadline = EventLoop.monotonicMilliseconds() + 20_000
    while service.connectionCount() > count {
      try #require(EventLoop.monotonicMilliseconds() < deadline, "connections stay open")
      sched_yield()
    }
  }
}

/// Lower-case digits, two for each byte; spaces are ignored.
func hex(_ text: String) -> [UInt8] {
  let digits = text.filter { $0 != " " && $0 != "\n" }
  return stride(from: 0, to: digits.count, by: 2).compactMap { offset in
    let start = digits.index(digits.startIndex, offsetBy: offset)
    return UInt8(digits[start..<digits.index(start, offsetBy: 2)], radix: 16)
  }
}

/// A well-behaved provider and device next to a misbehaving peer.
final class Bystanders {
  private let provider: RawHTTP2Client
  private let device: ConnectedDevice
  private let headers: [RawHeader]
  private var count = 0

  init(_ service: TestService, _ environment: Environment = .production) throws {
    provider = try service.provider(environment)
    device = try service.connect(nil, environment)
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    headers = try service.pushHeaders(to: token, authorization: service.authorization())
    try push()
  }

  private func push() throws {
    count += 1
    let payload = Array(#"{"aps":{"alert":"bystander \#(count)"}}"#.utf8)
    let stream = try provider.request(headers, body: payload)
    let notification = try device.notification()
    #expect(notification[3] == payload)
    try device.acknowledge(notification)
    #expect(try provider.response(to: stream).status == 200)
  }

  /// Sends one more push over the same two connections, and expects nothing else on them.
  func expectUndisturbed() throws {
    try push()
    #expect(device.client.received.map(\.command).dropFirst(3).allSatisfy { $0 == 0x0a })
    #expect(provider.received.compactMap(\.goAway).isEmpty)
    #expect(provider.received.allSatisfy { $0.resetCode == nil })
  }
}

/// Runs `body` next to two peers that must not be affected.
func withBystanders<Result>(
  _ service: TestService, _ environment: Environment = .production,
  _ body: () throws -> Result
) throws -> Result {
  let bystanders = try Bystanders(service, environment)
  let result = try body()
  try bystanders.expectUndisturbed()
  return result
}

/// Expects the form of every rejection: HEADERS, then the reason in one DATA frame that ends the stream.
func expectRefusal(
  _ response: RawResponse, _ status: Int, _ reason: String,
  sourceLocation: SourceLocation = #_sourceLocation
) {
  #expect(response.status == status, sourceLocation: sourceLocation)
  #expect(response.bodyText == #"{"reason":"\#(reason)"}"#, sourceLocation: sourceLocation)
  expectRefusalForm(response, sourceLocation: sourceLocation)
}

func expectRefusalForm(
  _ response: RawResponse, sourceLocation: SourceLocation = #_sourceLocation
) {
  #expect(response.frames.map(\.kind) == [1, 0], sourceLocation: sourceLocation)
  #expect(response.frames.map(\.endsStream) == [false, true], sourceLocation: sourceLocation)
  #expect(response["content-type"] == "application/json", sourceLocation: sourceLocation)
  #expect(response["apns-id"]?.isUUID == true, sourceLocation: sourceLocation)
  #expect(response["apns-unique-id"] == nil, sourceLocation: sourceLocation)
}

extension String {
  /// Whether the text has the form 8-4-4-4-12, in either case.
  var isUUID: Bool {
    let groups = split(separator: "-", omittingEmptySubsequences: false)
    return groups.map(\.count) == [8, 4, 4, 4, 12]
      && groups.allSatisfy { $0.utf8.allSatisfy { hexValue($0) != nil } }
  }
}
