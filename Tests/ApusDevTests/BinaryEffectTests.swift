import ApusClient
import ApusModel
import ApusTLS
import ApusTesting
import ApusWire
import Testing

@testable import ApusDev

@Suite("Faults armed through the API apply to legacy senders", .serialized)
final class BinaryEffectTests {
  private static let shared = Result { try Bench.lasting() }

  let bench: Bench
  let token: String

  init() throws {
    bench = try Self.shared.get()
    token = try bench.token()
  }

  /// Sends three frames; the effect applies to the second.
  private func send(_ effect: String) async throws -> RawGatewayClient {
    try await bench.disarm()
    try await bench.arm(effect, match: #"{"interface":"binary"}"#, #","nth":2"#)
    let gateway = try bench.gateway()
    try gateway.send(Bench.frame(1, token), Bench.frame(2, token), Bench.frame(3, token))
    return gateway
  }

  /// A packet of the error response: command 8, status, identifier.
  private static func packet(_ status: UInt8, _ identifier: UInt8) -> [UInt8] {
    [8, status, 0, 0, 0, identifier]
  }

  /// Identifier, status and rule of each push in the inbox, sorted, because the inbox has them in response order.
  private func inbox(_ count: Int) async throws -> [String] {
    try await bench.wait("{}", count: count).map { push in
      let verdict = push["verdict"]
      return "\(push["identifier"]?.integer ?? 0) \(verdict?["status"]?.integer ?? -1) "
        + (verdict?["fault"]?.string ?? "-")
    }.sorted()
  }

  @Test(
    "An error packet with each status; nothing after the notification is accepted",
    arguments: BinaryStatus.allCases.filter { $0 != .noError })
  func errors(status: BinaryStatus) async throws {
    let gateway = try await send(#"{"type":"binaryError","status":"\#(status)"}"#)
    let end = try gateway.end()
    #expect(end.bytes == Self.packet(status.rawValue, 2) && end.end == .closeNotify)
    #expect(try await inbox(2) == ["1 0 -", "2 \(status.rawValue) armed"])
  }

  @Test("A late error packet leaves time to send notifications that are lost")
  func late() async throws {
    let gateway = try await send(
      #"{"type":"binaryError","status":"invalidToken","lateMilliseconds":2000}"#)
    try gateway.send(Bench.frame(4, token))
    #expect(try gateway.end().bytes == Self.packet(8, 2))
    #expect(try await inbox(2) == ["1 0 -", "2 8 armed"])
  }

  @Test(
    "What a sender reads, to the end",
    arguments: [
      (#"{"type":"binarySilence"}"#, [], ["1 0 -", "2 1 armed"]),
      (#"{"type":"binaryShutdown"}"#, packet(10, 2), ["1 0 -", "2 0 armed"]),
      (
        #"{"type":"respond","reason":"PayloadTooLarge"}"#, packet(7, 2),
        ["1 0 -", "2 7 armed"]
      ),
      (
        #"{"type":"delay","milliseconds":20,"then":{"type":"binaryError","status":"missingTopic"}}"#,
        packet(3, 2), ["1 0 -", "2 3 armed", "3 0 -"]
      ),
    ])
  func ends(effect: String, bytes: [UInt8], pushes: [String]) async throws {
    let end = try await send(effect).end()
    #expect(end.bytes == bytes && end.end == .closeNotify)
    #expect(try await inbox(pushes.count) == pushes)
  }

  @Test("The connection ends in the middle of the error packet")
  func cut() async throws {
    let end = try await send(#"{"type":"closeInTheMiddle"}"#).end()
    #expect(end.bytes == [8, 1, 0] && end.end != .closeNotify)
  }

  @Test("A notification without a response is discarded, the others continue")
  func thrownAway() async throws {
    let gateway = try await send(#"{"type":"noAnswer"}"#)
    #expect(try await inbox(3) == ["1 0 -", "2 0 armed", "3 0 -"])
    try gateway.tls.finish()
    #expect(try gateway.end().bytes.isEmpty)
  }

  @Test("A push that takes its device offline is stored")
  func offline() async throws {
    let gateway = try await send(#"{"type":"deviceOffline"}"#)
    #expect(try await inbox(3) == ["1 0 -", "2 0 armed", "3 0 -"])
    try gateway.tls.finish()
    #expect(try gateway.end().bytes.isEmpty)
    let struck = try await bench.wait(#"{"interface":"binary"}"#, count: 3).first {
      $0["identifier"]?.integer == 2
    }
    #expect(struck?["shown"] == .null)
    let back = try await bench.ask("PATCH", "/api/v1/devices/phone", #"{"online":true}"#)
    #expect(back.json["connected"]?["production"]?.bool == true)
  }

  @Test("An invalid token gets no response, and the feedback service lists it with its time")
  func deadToken() async throws {
    let gateway = try await send(
      #"{"type":"deadToken","timestampMilliseconds":1700000000999}"#)
    #expect(try await inbox(3) == ["1 0 -", "2 0 armed", "3 0 -"])
    try gateway.tls.finish()
    #expect(try gateway.end().bytes.isEmpty)
    #expect(try await listed(token) == 1_700_000_000)
    let dead = try #require(
      try await bench.wait(#"{"payload.aps":{"exists":true}}"#, count: 3).first {
        $0["identifier"]?.integer == 2
      })
    #expect(dead["verdict"]?["timestampMilliseconds"]?.integer == 1_700_000_000_999)
    // Only the reader of the list sees it.
    #expect(dead["states"]?.array?.isEmpty == true && dead["shown"] == .null)
  }

  @Test(
    "In lenient mode any reader sees an unknown token as it was sent")
  func foreignToken() async throws {
    let bench = try Bench { $0.isLenient = true }
    defer { bench.stop() }
    let identity = try Bench.foreignIdentity()
    let tokens = ["5a", "5b"].map { String(repeating: $0, count: 32) }
    try await bench.arm(#"{"type":"deadToken","timestampMilliseconds":1600000000000}"#)
    let gateway = try bench.gateway(identity)
    try gateway.send(Bench.frame(1, tokens[0]))
    #expect(try await listed(tokens[0], bench, identity) == 1_600_000_000)
    let outcome = try await bench.client().send(
      bench.push(#"{"aps":{"alert":"A"}}"#, to: tokens[1]))
    guard case .rejected(let rejection) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(rejection.reason == .unregistered)
    #expect(rejection.timestampMilliseconds == 1_600_000_000_000)
    #expect(try await listed(tokens[1], bench) == 1_600_000_000)
  }

  @Test("A strict service lists nothing for a reader with an unknown certificate")
  func foreignReader() async throws {
    #expect(throws: (any Error).self) { try bench.feedback(Bench.foreignIdentity()) }
  }

  /// Waits until the feedback service lists a token, which may be after the response; returns its time.
  private func listed(
    _ token: String, _ other: Bench? = nil, _ identity: TLSIdentity? = nil
  ) async throws -> UInt32? {
    for _ in 0..<400 {
      let found = try (other ?? bench).feedback(identity).first { row in
        String(decoding: Hex.encode(row.token.span), as: UTF8.self) == token
      }
      if let found { return found.seconds }
      try await Task.sleep(for: .milliseconds(25))
    }
    return nil
  }
}
