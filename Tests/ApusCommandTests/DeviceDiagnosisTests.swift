import ApusWire
import Testing

@testable import ApusCommand

@Suite("The diagnosis of a device")
struct DeviceDiagnosisTests {
  /// One case: facts as the administration gives them, and the cause.
  struct Case: Sendable, CustomTestStringConvertible {
    var cause: DeviceDiagnosis.Cause
    var words: String
    var device: String? = connected("enabled")
    var lines: [String] = []
    var refused: [String] = []
    var connections: [String] = []
    var ends: [Int64] = []
    var topic: String?

    var testDescription: String { "\(cause.rawValue): \(words)" }
  }

  private static func connected(
    _ list: String, power: String = "active", inFlight: Int = 0
  ) -> String {
    #"""
    {"device":"0123456789abcdef","connected":true,"stored_notifications":2,
     "environments":[{"environment":"production","connected":true,"power":"\#(power)",
     "in_flight":\#(inFlight),"waiting":\#(inFlight * 2),"topics":[
     {"topic":"com.example.app","list":"\#(list)","since":"2026-01-01T00:00:00.000Z"}]}]}
    """#
  }

  private static let offline =
    #"{"last_seen":"2026-01-02T00:00:00.000Z","stored_notifications":1,"environments":[{"connected":false}]}"#

  private static func line(_ state: String, hour: Int = 5, topic: String = "com.example.app")
    -> String
  {
    #"{"time":"2026-01-02T0\#(hour):00:00.000Z","state":"\#(state)","topic":"\#(topic)"}"#
  }

  private static func refusal(_ reason: String, hour: Int) -> String {
    #"{"time":"2026-01-02T0\#(hour):00:00.000Z","reason":"\#(reason)","explanation":"use another"}"#
  }

  /// 2026-01-03.
  private static let now: Int64 = 1_767_398_400_000

  private static let cases: [Case] = [
    Case(cause: .unknown, words: "no such device", device: nil),
    Case(cause: .neverConnected, words: "never connected", device: nil, ends: [now + 1]),
    Case(cause: .certificateExpired, words: "expired on 2026-01-02", device: nil, ends: [now - 1]),
    Case(
      cause: .certificateRefused, words: "expired", device: nil,
      connections: [refusal("certificate has expired", hour: 4)]),
    Case(
      cause: .retired, words: "since 2026-01-01",
      device: #"{"retired":"2026-01-01T00:00:00.000Z","environments":[]}"#,
      connections: [refusal("retired", hour: 4)]),
    Case(cause: .neverConnected, words: "never connected", device: #"{"environments":[]}"#),
    Case(
      cause: .certificateRefused, words: "revoked", device: offline,
      connections: [refusal("revoked", hour: 4)]),
    Case(
      cause: .certificateRefused, words: "authority removed", device: #"{"environments":[]}"#,
      connections: [refusal("revoked", hour: 1), refusal("authority removed", hour: 4)]),
    Case(
      cause: .offline, words: "since 2026-01-02T00:00:00.000Z; 1 waits", device: offline,
      connections: [#"{"time":"2026-01-01T04:00:00.000Z","reason":"clock"}"#], ends: [now + 1]),
    Case(
      cause: .certificateExpired, words: "expired on 2026-01-01", device: offline,
      ends: [now - 86_400_000 - 1, 5]),
    Case(
      cause: .topicNotRegistered, words: "com.example.other", topic: "com.example.other"),
    Case(
      cause: .topicNotRegistered, words: "any app",
      device: #"{"environments":[{"connected":true,"topics":[]}]}"#),
    Case(cause: .topicRemoved, words: "no longer registered", device: connected("unlisted")),
    Case(cause: .topicIgnored, words: "ignores com.example.app", device: connected("ignored")),
    Case(cause: .topicPaused, words: "paused", device: connected("paused")),
    Case(
      cause: .powerSaving, words: "saves power (idle)",
      device: connected("opportunistic", power: "idle")),
    Case(
      cause: .none, words: "acknowledged", device: connected("opportunistic"),
      lines: [line("Delivered to Device")]),
    Case(cause: .nothingSent, words: "no notification was sent"),
    Case(
      cause: .nothingSent, words: "no notification was sent",
      lines: [line("Delivered to Device", topic: "com.example.app.voip")],
      topic: "com.example.app"),
    Case(
      cause: .requestRefused, words: "TopicDisallowed", lines: [line("Delivered to Device")],
      refused: [refusal("BadDeviceToken", hour: 6), refusal("TopicDisallowed", hour: 7)]),
    Case(
      cause: .none, words: "acknowledged its last notification at 2026-01-02T05",
      lines: [line("Discarded - Expired", hour: 3), line("Delivered to Device (From Storage)")],
      refused: [refusal("TopicDisallowed", hour: 4)]),
    Case(
      cause: .unacknowledged, words: "3 were sent to it, and 6 wait behind them; 2 wait",
      device: connected("enabled", inFlight: 3), lines: [line("Sent to Device")]),
    Case(
      cause: .powerSaving, words: "Stored - Power Considerations",
      lines: [line("Stored - Power Considerations")]),
    Case(
      cause: .deadToken, words: "dead token", lines: [line("Discarded - Token Unregistered")]),
    Case(
      cause: .discarded, words: "Discarded - Not Stored", lines: [line("Discarded - Not Stored")]),
    Case(cause: .none, words: "on its way", lines: [line("Received by APNs")]),
  ]

  @Test("The first cause counts, and has a remedy", arguments: cases)
  func causes(example: Case) throws {
    func json(_ text: String) throws -> JSONValue {
      let bytes = Array(text.utf8)
      return try JSONValue(parsing: bytes.span)
    }
    var facts = DeviceFacts(nowMilliseconds: Self.now)
    facts.device = try example.device.map(json)
    facts.lines = try example.lines.map(json)
    facts.refusedRequests = try example.refused.map(json)
    facts.refusedConnections = try example.connections.map(json)
    facts.certificateEnds = example.ends
    facts.topic = example.topic
    let found = DeviceDiagnosis(facts)
    #expect(found.cause == example.cause && found.text.contains(example.words), "\(found)")
    #expect(found.remedy.isEmpty == (found.cause == .none))
  }

  @Test("Every cause has an example")
  func complete() {
    #expect(Set(Self.cases.map(\.cause)) == Set(DeviceDiagnosis.Cause.allCases))
  }
}
