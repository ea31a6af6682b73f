import ApusModel
import ApusTesting
import Foundation
import Testing

@Suite("A burst reaches a connected device once and in order")
struct BurstTests {
  private let service: TestService
  private let device: ConnectedDevice
  private let token: String

  init() throws {
    service = try TestService(nil, .init { $0.workers = 2 })
    device = try service.connect()
    token = try device.token()
    try device.enable(TestDirectory.topic)
  }

  /// More than a device's queue and a binary connection's pending frames together. `make burst` sends more.
  private static let count = 4_000

  /// Receives and acknowledges that many.
  private func take(_ count: Int = count) throws -> [[UInt8]?] {
    try (0..<count).map { _ in
      let notification = try device.notification()
      try device.acknowledge(notification)
      return notification[3]
    }
  }

  enum Command: CaseIterable {
    case simple, enhanced, framed
  }

  @Test(
    "4,000 frames of the binary interface arrive", arguments: Command.allCases,
    [0, 3600, nil] as [Int64?])
  func binary(command: Command, expiresInSeconds: Int64?) throws {
    defer { service.stop() }
    // Commands 0 and 1 have no choice.
    if (command == .simple) != (expiresInSeconds == nil), command != .framed { return }
    let expiration = expiresInSeconds.map {
      $0 == 0 ? 0 : UInt32(clamping: TestDirectory.nowSeconds + $0)
    }
    let token = hex(token)
    let payloads = (0..<Self.count).map { GatewayFrame.payload("\($0)") }
    let frames = payloads.enumerated().flatMap { index, payload in
      switch command {
      case .simple: GatewayFrame.simple(token, payload)
      case .enhanced:
        GatewayFrame.enhanced(UInt32(index), token, payload, expiration: expiration ?? 0)
      case .framed: GatewayFrame.framed(UInt32(index), token, payload, expiration: expiration)
      }
    }
    let identity = try service.directory.providerIdentity()
    let client = try service.gateway(listener: 0, identity: identity)
    try client.send(frames, GatewayFrame.knownBad(0xbad))
    #expect(try take() == payloads)
    try expectEnd(client, GatewayFrame.packet(2, 0xbad))
    let counts = service.service.counts()
    #expect(counts[.received] == UInt64(Self.count))
    #expect(counts[.replaced] ?? 0 == 0)
    #expect(counts[.discardedNotStored] ?? 0 == 0)
  }

  @Test("4,000 requests arrive, ten connections at a time", arguments: [0, 3600, nil] as [Int64?])
  func http2(expiresInSeconds: Int64?) throws {
    defer { service.stop() }
    var headers = service.pushHeaders(to: token, authorization: nil)
    if let expiresInSeconds {
      let time = expiresInSeconds == 0 ? 0 : TestDirectory.nowSeconds + expiresInSeconds
      headers = headers.setting("apns-expiration", "\(time)")
    }
    let sending = Sending(headers, to: service)
    try expect(take(), sending.requests())
  }

  @Test("4,000 requests that may wait for an idle device arrive", arguments: ["5", "1"])
  func idle(priority: String) throws {
    defer { service.stop() }
    try device.client.send(RawCourierFrame(0x14, (1, [0]), (2, [0x7f, 0xff, 0xff, 0xff])))
    try device.settle()
    let sending = Sending(
      service.pushHeaders(to: token, authorization: nil).setting("apns-priority", priority),
      to: service)
    // All but the last ones leave early, a full list at a time.
    let early = Self.count - Self.count % Limits.courierQueueFrames
    let first = try take(early)
    try device.client.send(RawCourierFrame(0x14, (1, [1])))
    try expect(first + take(Self.count - early), sending.requests())
    #expect(service.service.counts()[.replaced] ?? 0 == 0)
  }

  /// The requests of one connection.
  private struct Requests {
    var provider: RawHTTP2Client
    var payloads: [[UInt8]]
    var streams: [UInt32]
  }

  /// Sends as many requests on each of ten connections, on a thread of its own: a device that acknowledges nothing
  /// until a busy machine has sent all of them would count as one that is stuck.
  private final class Sending: @unchecked Sendable {
    private let ended = DispatchSemaphore(value: 0)
    private var result: Result<[Requests], any Error>?

    init(_ headers: [RawHeader], to service: TestService) {
      Thread.detachNewThread { [self] in
        result = Result { try Self.send(headers, to: service) }
        ended.signal()
      }
    }

    /// Waits until all are sent.
    func requests() throws -> [Requests] {
      ended.wait()
      return try #require(result).get()
    }

    private static func send(
      _ headers: [RawHeader], to service: TestService
    ) throws -> [Requests] {
      let connections = 10
      let identity = try service.directory.providerIdentity()
      return try (0..<connections).map { connection in
        let provider = try service.provider(identity: identity)
        let payloads = (0..<count / connections).map {
          Array(#"{"aps":{"alert":"\#(connection) \#($0)"}}"#.utf8)
        }
        let streams = try payloads.map { try provider.request(headers, body: $0) }
        return Requests(provider: provider, payloads: payloads, streams: streams)
      }
    }
  }

  /// Everything came, in the order of each connection, and was answered 200.
  private func expect(_ came: [[UInt8]?], _ requests: [Requests]) throws {
    let came = came.compactMap(\.self)
    #expect(Set(came) == Set(requests.flatMap(\.payloads)))
    for requests in requests {
      let own = Set(requests.payloads)
      #expect(came.filter(own.contains) == requests.payloads)
      var others: [String: Int] = [:]
      for stream in requests.streams {
        let response = try requests.provider.response(to: stream)
        guard response.status != 200 else { continue }
        others[String(decoding: response.body, as: UTF8.self), default: 0] += 1
      }
      #expect(others == [:])
    }
    #expect(service.service.counts()[.delivered] == UInt64(Self.count))
  }
}
