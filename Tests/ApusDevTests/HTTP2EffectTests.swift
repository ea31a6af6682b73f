import ApusClient
import ApusModel
import ApusTesting
import ApusWire
import Testing

@testable import ApusDev

/// Faults armed as a test suite does, observed by a provider on the wire.
@Suite("Faults armed through the API apply to HTTP/2 providers", .serialized)
final class HTTP2EffectTests {
  /// Shared by all tests: each arms its own faults and removes them.
  private static let shared = Result { try Bench.lasting() }

  let bench: Bench
  let token: String

  init() throws {
    bench = try Self.shared.get()
    token = try bench.token()
  }

  /// A trusted connection, which may have several streams; stream 1 is closed.
  private func provider() async throws -> (RawHTTP2Client, [RawHeader]) {
    try await bench.disarm()
    let headers = bench.headers(token, try await bench.authorization())
    let provider = try bench.rawProvider()
    #expect(try provider.exchange(headers, body: Bench.alert).status == 200)
    try provider.ping()
    return (provider, headers)
  }

  /// The names of the applied rules in the inbox, oldest first, without the push that made the connection trusted.
  private func faults(_ count: Int) async throws -> [String?] {
    try await bench.wait("{}", count: count + 1).dropFirst().map { $0["verdict"]?["fault"]?.string }
  }

  /// A response in one line: status, retry-after and body.
  private static func line(_ answer: RawResponse) -> String {
    let wait = answer["retry-after"].map { " retry-after \($0)" } ?? ""
    return "\(answer.status ?? 0)\(wait) \(answer.bodyText)"
  }

  @Test("Every documented reason, with its status")
  func reasons() async throws {
    let (provider, headers) = try await provider()
    for reason in Reason.allCases {
      try await bench.arm(
        #"{"type":"respond","reason":"\#(reason.text)"}"#, match: #"{"token":"\#(token)"}"#,
        #","times":1"#, name: "\(reason.text)")
      let answer = try provider.exchange(headers, body: Bench.alert)
      #expect(Self.line(answer) == #"\#(reason.status) {"reason":"\#(reason.text)"}"#)
    }
    #expect(try provider.exchange(headers, body: Bench.alert).status == 200)
    #expect(
      try await faults(Reason.allCases.count + 1) == Reason.allCases.map { "\($0.text)" } + [nil])
  }

  @Test(
    "A response as armed",
    arguments: [
      (#"{"type":"respond","status":503,"retryAfterSeconds":9}"#, "503 retry-after 9 "),
      (
        #"{"type":"respond","reason":"Unregistered","timestampMilliseconds":1234}"#,
        #"410 {"reason":"Unregistered","timestamp":1234}"#
      ),
      (
        #"{"type":"respond","reason":"a\"b","status":418}"#, #"418 {"reason":"a\"b"}"#
      ),
      (
        #"{"type":"delay","milliseconds":20,"then":{"type":"respond","reason":"BadTopic"}}"#,
        #"400 {"reason":"BadTopic"}"#
      ),
      (#"{"type":"delay","milliseconds":20}"#, "200 "),
      (
        #"{"type":"deadToken","timestampMilliseconds":1700000000000}"#,
        #"410 {"reason":"Unregistered","timestamp":1700000000000}"#
      ),
    ])
  func answers(effect: String, line: String) async throws {
    let (provider, headers) = try await provider()
    try await bench.arm(effect, #","times":1"#)
    #expect(Self.line(try provider.exchange(headers, body: Bench.alert)) == line)
    #expect(Self.line(try provider.exchange(headers, body: Bench.alert)) == "200 ")
    #expect(try await faults(2) == ["armed", nil])
  }

  @Test("A delay holds up only its push, for the given time")
  func delay() async throws {
    let (provider, headers) = try await provider()
    try await bench.arm(#"{"type":"delay","milliseconds":2000}"#, #","nth":1"#)
    let late = try provider.request(headers, body: Bench.alert)
    #expect(try provider.exchange(headers, body: Bench.alert).status == 200)
    #expect(provider.received.allSatisfy { $0.stream != late })
    #expect(try provider.response(to: late).status == 200)
    let push = try #require(try await bench.wait(#"{}"#, count: 3).last)
    #expect(push["verdict"]?["fault"]?.string == "armed")
    let took =
      (push["answeredMilliseconds"]?.integer ?? 0) - (push["receivedMilliseconds"]?.integer ?? 0)
    #expect(took >= 1990)
  }

  @Test("No response: the stream stays open next to others")
  func noAnswer() async throws {
    let (provider, headers) = try await provider()
    try await bench.arm(#"{"type":"noAnswer"}"#, #","nth":1"#)
    let silent = try provider.request(headers, body: Bench.alert)
    #expect(try provider.exchange(headers, body: Bench.alert).status == 200)
    try provider.ping()
    #expect(provider.received.allSatisfy { $0.stream != silent })
    #expect(try await faults(2) == ["armed", nil])
  }

  @Test(
    "RST_STREAM with a code given by name or number",
    arguments: [("\"refusedStream\"", 7), ("\"cancel\"", 8), ("11", 11)] as [(String, UInt32)])
  func reset(code: String, expected: UInt32) async throws {
    let (provider, headers) = try await provider()
    try await bench.arm(#"{"type":"resetStream","code":\#(code)}"#, #","times":1"#)
    let stream = try provider.request(headers, body: Bench.alert)
    guard case .reset(expected) = try provider.outcome(of: stream) else {
      Issue.record("not reset with \(expected)")
      return
    }
    #expect(try provider.exchange(headers, body: Bench.alert).status == 200)
    #expect(try await faults(2) == ["armed", nil])
  }

  /// The push is stream 5, while the response on stream 3 is delayed.
  @Test(
    "GOAWAY with a chosen last stream",
    arguments: [
      (#""lastStream":"all""#, 0x7fff_ffff, true), (#""lastStream":"none""#, 0, false),
      (#""lastStream":"thisOne""#, 5, true), (#""lastStream":"before""#, 3, false),
      (#""lastStream":"thisOne","closes":true,"code":2"#, 5, false),
    ] as [(String, UInt32, Bool)])
  func goAway(members: String, last: UInt32, isAnswered: Bool) async throws {
    let (provider, headers) = try await provider()
    try await bench.arm(#"{"type":"delay","milliseconds":300}"#, #","nth":1"#, name: "held")
    try await bench.arm(#"{"type":"goAway",\#(members)}"#, #","times":1"#)
    let held = try provider.request(headers, body: Bench.alert)
    let stream = try provider.request(headers, body: Bench.alert)
    #expect([held, stream] == [3, 5])
    let frame = try provider.frame(awaiting: "a GOAWAY") { $0.goAway != nil }
    #expect(frame.goAway?.lastStream == last)
    #expect(frame.goAway?.code == (members.contains("code") ? 2 : 0))
    if isAnswered { #expect(try provider.response(to: stream).status == 200) }
    if isAnswered || last == 3 { #expect(try provider.response(to: held).status == 200) }
    if last == 0x7fff_ffff {
      #expect(try provider.exchange(headers, body: Bench.alert).status == 200)
    } else {
      #expect(try provider.end().end == .closeNotify)
    }
    if !isAnswered { #expect(provider.received.allSatisfy { $0.stream != stream }) }
  }

  @Test("The connection ends in the middle of a response")
  func cut() async throws {
    let (provider, headers) = try await provider()
    try await bench.arm(#"{"type":"closeInTheMiddle"}"#, #","times":1"#)
    let stream = try provider.request(headers, body: Bench.alert)
    #expect(throws: RawFault.self) { try provider.response(to: stream) }
    #expect(provider.tls.end != .closeNotify)
    #expect(provider.received.allSatisfy { $0.stream != stream && $0.goAway == nil })
    #expect(try await faults(1) == ["armed"])
  }

  @Test("New connections get fewer streams and a small window")
  func narrow() async throws {
    let (before, headers) = try await provider()
    try await bench.arm(
      #"{"type":"connections","maxConcurrentStreams":2,"initialWindowBytes":9}"#)
    let provider = try bench.rawProvider()
    try provider.ping()
    let settings = try #require(provider.received.first { $0.kind == HTTP2Frame.Kind.settings })
    // RFC 9113, section 6.5.1: identifier (2 bytes), value (4 bytes).
    let values = stride(from: 0, to: settings.payload.count, by: 6).map { start in
      Array(settings.payload[start..<start + 6])
    }
    #expect(values.contains([0, 3, 0, 0, 0, 2]))
    #expect(values.contains([0, 4, 0, 0, 0, 9]))
    #expect(before.received.filter { $0.kind == HTTP2Frame.Kind.settings }.count <= 3)
    // The client library complies with both.
    let client = try bench.client()
    for _ in 0..<3 {
      guard case .accepted = try await client.send(bench.push(#"{"aps":{"alert":"hi"}}"#)) else {
        Issue.record("it was not accepted")
        return
      }
    }
    #expect(try before.exchange(headers, body: Bench.alert).status == 200)
  }

  @Test(
    "A bad certificate is presented while the rule is armed",
    arguments: ["expired", "foreign", "otherName"])
  func certificates(which: String) async throws {
    let (before, headers) = try await provider()
    let id = try await bench.arm(#"{"type":"certificate","which":"\#(which)"}"#)
    #expect(throws: (any Error).self) { try bench.rawProvider() }
    #expect(throws: (any Error).self) { try bench.gateway() }
    #expect(try before.exchange(headers, body: Bench.alert).status == 200)
    #expect(try await bench.ask("DELETE", "/api/v1/faults/\(id)").status == 200)
    #expect(try bench.rawProvider().exchange(headers, body: Bench.alert).status == 200)
    _ = try bench.gateway()
  }

  @Test("A fault applies to a share of pushes, the same ones with the same seed")
  func seeds() async throws {
    let (provider, headers) = try await provider()
    func run(_ seed: Int) async throws -> [Int] {
      let id = try await bench.arm(
        #"{"type":"respond","reason":"ServiceUnavailable"}"#, #","rate":0.5,"seed":\#(seed)"#)
      let statuses = try (0..<40).map { _ in
        try provider.exchange(headers, body: Bench.alert).status ?? 0
      }
      #expect(try await bench.ask("DELETE", "/api/v1/faults/\(id)").status == 200)
      return statuses
    }
    let first = try await run(7)
    #expect(Set(first) == [200, 503])
    #expect(try await run(7) == first)
    #expect(try await run(8) != first)
  }

  @Test("A device that a push takes offline gets the push when it reconnects")
  func offline() async throws {
    let (provider, headers) = try await provider()
    try await bench.arm(#"{"type":"deviceOffline"}"#, #","times":1"#)
    let later = headers + [RawHeader(.apnsExpiration, "4102444800")]
    #expect(try provider.exchange(later, body: Bench.alert).status == 200)
    let push = try #require(try await bench.wait("{}", count: 2).last)
    #expect(push["verdict"]?["fault"]?.string == "armed")
    #expect(push["shown"] == .null)
    let number = try #require(push["number"]?.integer)
    let devices = try await bench.ask("GET", "/api/v1/devices").json["devices"]?.array
    #expect(devices?.first { $0["id"]?.string == "phone" }?["online"]?.bool == false)
    let back = try await bench.ask("PATCH", "/api/v1/devices/phone", #"{"online":true}"#)
    #expect(back.json["connected"]?["production"]?.bool == true)
    let shown = try await bench.poll(number, "the rendering") { $0["shown"] != .null }
    #expect(shown["shown"]?["body"]?.string == "hi")
  }
}
