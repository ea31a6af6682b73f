import ApusClient
import ApusCommand
import ApusModel
import Testing

@testable import apus_bench

@Suite("The time in a payload")
struct SentTimeTests {
  @Test("A payload has the requested length, and only its time changes")
  func payload() {
    var payload = TimedPayload(byteCount: 80)
    #expect(payload.bytes.count == 80)
    payload.set(67_890_123_456_789)
    #expect(
      String(decoding: payload.bytes, as: UTF8.self)
        == #"{"aps":{"alert":"\#(String(repeating: "x", count: 30))"},"sent_ns":     67890123456789}"#
    )
    #expect(SentTime.find(in: payload.bytes.span) == 67_890_123_456_789)
    payload.set(7)
    #expect(SentTime.find(in: payload.bytes.span) == 7)
    #expect(TimedPayload(byteCount: 400).bytes.count == 400)
  }

  @Test(
    "The time is found at any position, and nowhere else",
    arguments: [
      (#"{"sent_ns":12,"aps":{"alert":"x"}}"#, 12), (#"{"aps":{},"sent_ns": 0}"#, 0),
      (#"{"aps":{"alert":"sent_ns"}}"#, nil), (#"{"aps":{},"sent_ns":"12"}"#, nil),
      (#"{"aps":{},"sent_ns":"#, nil), ("", nil),
      (#"{"sent_ns":9223372036854775807}"#, UInt64(Int64.max)),
    ] as [(String, UInt64?)])
  func find(text: String, expected: UInt64?) {
    #expect(SentTime.find(in: Array(text.utf8).span) == expected)
  }
}

@Suite("A timetable")
struct TimetableTests {
  private static let second: UInt64 = 1_000_000_000

  @Test(
    "Each second has as many due times as the rate, in order",
    arguments: [1, 3, 999, 1000, 1001, 25_000, 333_333])
  func rate(rate: UInt64) {
    let timetable = Timetable(startNanoseconds: 5, rate: rate, seconds: 3)
    #expect(timetable.count == Int(3 * rate))
    #expect(timetable.dueNanoseconds(0) == 5)
    for second in 0..<UInt64(3) {
      #expect(timetable.dueNanoseconds(Int(second * rate)) == 5 + second * Self.second)
      #expect(
        timetable.dueNanoseconds(Int((second + 1) * rate - 1)) < 5 + (second + 1) * Self.second)
    }
    let all = (0..<Int(rate)).map { timetable.dueNanoseconds($0) }
    #expect(zip(all, all.dropFirst()).allSatisfy(<=))
    // No more than its share goes at one time.
    let first = all.filter { $0 == 5 }.count
    #expect(first <= Int(rate / 1000) + 1)
  }

  @Test("The id of a push contains its due time and is unique")
  func ids() {
    let ids = (0..<1000).map { PacedPushes.id(dueNanoseconds: 42, index: $0, run: 7) }
    #expect(Set(ids).count == 1000)
    #expect(ids.allSatisfy { PacedPushes.dueNanoseconds(of: $0) == 42 })
  }
}

@Suite("The recipients of a push")
struct PushRecipientTests {
  private struct Unparsed: Error {}

  private func recipients(_ arguments: [String]) throws -> (PushRequest, [String]) {
    let parser = CommandLineParser(program: .bench, environment: [:]) { _ in nil }
    let line = ["push", "--rate", "1", "--seconds", "1", "--topic", "com.example.a"] + arguments
    guard case .run(let invocation) = try parser.parse(line) else { throw Unparsed() }
    return try PushCommand.recipients(invocation, TimedPayload(byteCount: 400))
  }

  @Test("A channel gets broadcasts, which have no device token")
  func channel() throws {
    let (request, tokens) = try recipients(["--channel", "AQI=", "--expiration", "1900000000"])
    #expect(tokens.isEmpty && request.token.isEmpty)
    #expect(request.channel?.text == "AQI=" && request.topic == "com.example.a")
    #expect(request.pushType == .liveactivity && request.expirationSeconds == 1_900_000_000)
    #expect(request.priority == .immediate && request.payload.count == 400)
  }

  @Test("A channel together with devices is rejected, and so is a run without either")
  func both() throws {
    let both = #expect(throws: CommandFailure.self) {
      try recipients(["--channel", "AQI=", "--tokens", "/dev/null"])
    }
    #expect(both?.problem.contains("--tokens") == true)
    #expect(throws: CommandFailure.self) { try recipients([]) }
  }
}

@Suite("The provider's signing key")
struct PushCredentialTests {
  private static let text = """
    # What this service knows.

    [team TEAM123456]
    name = Example

    [key AAAAAAAAAA]
    environments = production
    team = TEAM123456

    [app com.example.app]
    id = 1
    team = TEAM999999

    [key BBBBBBBBBB]
    team = TEAM654321
    """

  @Test("The first or the named key, with its team")
  func key() throws {
    let first = try #require(PushCredential.team(ofKey: nil, in: Self.text))
    #expect(first == ("AAAAAAAAAA", "TEAM123456"))
    let named = try #require(PushCredential.team(ofKey: "BBBBBBBBBB", in: Self.text))
    #expect(named == ("BBBBBBBBBB", "TEAM654321"))
    #expect(PushCredential.team(ofKey: "CCCCCCCCCC", in: Self.text) == nil)
    #expect(PushCredential.team(ofKey: nil, in: "[app com.example.app]\nteam = TEAM999999") == nil)
  }
}
