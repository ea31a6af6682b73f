import ApusModel
import ApusServer
import ApusWire
import Testing

@testable import ApusDev

@Suite("Which pushes a fault applies to")
struct FaultRuleTests {
  static func rule(_ text: String) throws(InputFault) -> FaultRule {
    try FaultRule(JSONText.parse(Array(text.utf8)), id: 1)
  }

  /// The numbers of the pushes to which the rule applies, counted from 1.
  static func struck(_ rule: FaultRule, of count: Int) -> [Int] {
    var rule = rule
    return (1...count).filter { _ in rule.strikes(MatcherTests.facts) }
  }

  @Test(
    "nth, every and times select the right pushes",
    arguments: [
      ("", [1, 2, 3, 4, 5, 6]), (#","times":2"#, [1, 2]), (#","nth":3"#, [3]),
      (#","every":2"#, [2, 4, 6]), (#","every":2,"times":2"#, [2, 4]), (#","rate":0"#, []),
      (#","rate":1"#, [1, 2, 3, 4, 5, 6]),
    ])
  func triggers(members: String, expected: [Int]) throws {
    let rule = try Self.rule(#"{"effect":{"type":"noAnswer"}\#(members)}"#)
    #expect(Self.struck(rule, of: 6) == expected)
  }

  @Test("The seed alone selects a share of pushes")
  func seeds() throws {
    let text = #"{"effect":{"type":"noAnswer"},"rate":0.25,"seed":7}"#
    let first = Self.struck(try Self.rule(text), of: 4000)
    #expect(first == Self.struck(try Self.rule(text), of: 4000))
    #expect(900...1100 ~= first.count, "\(first.count)")
    let other = text.replacing("7", with: "8")
    #expect(first != Self.struck(try Self.rule(other), of: 4000))
  }

  @Test("Pushes that do not match are not counted")
  func matching() throws {
    var rule = try Self.rule(
      #"{"match":{"title":"Hello"},"nth":2,"effect":{"type":"noAnswer"}}"#)
    var other = MatcherTests.facts
    other.title = "Bye"
    let struck = [other, MatcherTests.facts, other, MatcherTests.facts].map { rule.strikes($0) }
    #expect(struck == [false, false, false, true])
    #expect(rule.isSpent && rule.matched == 2 && rule.struck == 1)
  }

  @Test("Each effect is parsed")
  func effects() throws {
    let table: [(String, PlannedFault.Effect)] = [
      (
        #"{"type":"respond","reason":"Unregistered","timestampMilliseconds":5}"#,
        .respond(.init(status: 410, reason: "Unregistered", timestampMilliseconds: 5))
      ),
      (
        #"{"type":"respond","status":503,"retryAfterSeconds":9}"#,
        .respond(.init(status: 503, reason: "", retryAfterSeconds: 9))
      ),
      (#"{"type":"delay","milliseconds":20}"#, .delay(milliseconds: 20, then: .none)),
      (
        #"{"type":"delay","milliseconds":20,"then":{"type":"noAnswer"}}"#,
        .delay(milliseconds: 20, then: .noAnswer)
      ),
      (#"{"type":"resetStream","code":"refusedStream"}"#, .resetStream(code: 7)),
      (#"{"type":"resetStream","code":11}"#, .resetStream(code: 11)),
      (
        #"{"type":"goAway","lastStream":"before","reason":"Shutdown","closes":true}"#,
        .goAway(.init(lastStream: .before, reason: "Shutdown", closes: true))
      ),
      (#"{"type":"closeInTheMiddle"}"#, .closeInTheMiddle),
      (#"{"type":"deadToken"}"#, .deadToken(sinceMilliseconds: nil)),
      (#"{"type":"deadToken","timestampMilliseconds":7}"#, .deadToken(sinceMilliseconds: 7)),
      (
        #"{"type":"binaryError","status":"invalidToken","lateMilliseconds":3}"#,
        .binaryError(status: .invalidToken, lateMilliseconds: 3)
      ),
      (#"{"type":"binarySilence"}"#, .binarySilence),
      (#"{"type":"binaryShutdown"}"#, .binaryShutdown),
    ]
    for (text, effect) in table {
      #expect(try Self.rule("{\"effect\":\(text)}").effect == .request(effect), "\(text)")
    }
    #expect(try Self.rule(#"{"effect":{"type":"deviceOffline"}}"#).effect == .deviceOffline)
    #expect(
      try Self.rule(#"{"effect":{"type":"certificate","which":"expired"}}"#).effect
        == .opening(ConnectionOpening(certificate: .expired)))
  }

  @Test(
    "Faults of a rule have a position",
    arguments: [
      (#"{}"#, nil, 1, 1),
      (#"{"effect":{"type":"explode"}}"#, "effect.type", 1, 12),
      (#"{"effect":{"type":"noAnswer"},"nth":1,"every":2}"#, "every", 1, 39),
      (#"{"effect":{"type":"noAnswer"},"seed":2}"#, "seed", 1, 31),
      (#"{"effect":{"type":"noAnswer"},"rate":1.5}"#, "rate", 1, 31),
      (#"{"effect":{"type":"respond"}}"#, "effect", 1, 2),
      (#"{"effect":{"type":"respond","reason":"Odd"}}"#, "effect.reason", 1, 29),
      (#"{"effect":{"type":"noAnswer","code":1}}"#, "effect.code", 1, 30),
      (#"{"match":{"status":200},"effect":{"type":"noAnswer"}}"#, "match.status", 1, 11),
      (
        #"{"effect":{"type":"delay","milliseconds":1,"then":{"type":"delay","milliseconds":1}}}"#,
        "effect.then", 1, 44
      ),
      (#"{"effect":{"type":"certificate","which":"expired"},"nth":1}"#, "effect", 1, 2),
    ])
  func faults(text: String, field: String?, line: Int, column: Int) throws {
    do throws(InputFault) {
      _ = try Self.rule(text)
      Issue.record("it was accepted")
    } catch {
      #expect(error.field == field, "\(error)")
      let position = error.position(in: Array(text.utf8))
      #expect(position?.line == line && position?.column == column, "\(error)")
    }
  }

  @Test("A file of rules is added completely or not at all, and its faults have line and column")
  func files() throws {
    let faults = FaultInjector()
    let bad = """
      {"rules": [
        {"effect": {"type": "noAnswer"}},
        {"effect": {"type": "noAnswer"}, "tims": 3}
      ]}
      """
    do throws(InputFault) {
      try faults.add(file: Array(bad.utf8))
      Issue.record("it was accepted")
    } catch {
      #expect(error.field == "rules[1].tims")
      let position = error.position(in: Array(bad.utf8))
      #expect(position?.line == 3 && position?.column == 36, "\(error)")
    }
    #expect(faults.rules.isEmpty)
    #expect(faults.decide(MatcherTests.facts)?.rule == nil)
    try faults.add(file: Array(bad.replacing("tims", with: "times").utf8))
    #expect(faults.rules.count == 2)
    #expect(faults.decide(MatcherTests.facts)?.rule == "noAnswer")
  }

  @Test("Rules for connections combine, and end with their removal")
  func openings() throws {
    let faults = FaultInjector()
    let first = try faults.add(
      JSONText.parse(Array(#"{"effect":{"type":"connections","maxConcurrentStreams":1}}"#.utf8)))
    _ = try faults.add(
      JSONText.parse(Array(#"{"effect":{"type":"certificate","which":"foreign"}}"#.utf8)))
    #expect(faults.opening == ConnectionOpening(certificate: .foreign, maxConcurrentStreams: 1))
    #expect(faults.decide(MatcherTests.facts)?.rule == nil)
    #expect(faults.remove(first.id) && !faults.remove(first.id))
    #expect(faults.opening == ConnectionOpening(certificate: .foreign))
    faults.removeAll()
    #expect(faults.opening == ConnectionOpening())
  }
}
