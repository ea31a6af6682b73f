import ApusModel
import Testing

@testable import ApusCore

/// A push that breaks a rule, and a similar one that does not.
struct LintCase: CustomTestStringConvertible {
  var rule: LintRule
  var bad: String
  var good: String
  var badContext = LintContext(pushType: .alert, topic: "com.example.app")
  var goodContext: LintContext?

  var testDescription: String { "\(rule.rawValue): \(bad)" }

  init(
    _ rule: LintRule, _ type: PushType = .alert, bad: String, good: String,
    _ change: (inout LintContext) -> Void = { _ in }
  ) {
    (self.rule, self.bad, self.good) = (rule, bad, good)
    badContext = .good(type)
    change(&badContext)
    goodContext = .good(type)
  }

  /// For rules about the header instead of the payload.
  init(
    _ rule: LintRule, _ type: PushType, _ payload: String,
    bad change: (inout LintContext) -> Void
  ) {
    self.init(rule, type, bad: payload, good: payload, change)
  }

  init(_ rule: LintRule, _ payload: String, bad change: (inout LintContext) -> Void) {
    self.init(rule, .alert, payload, bad: change)
  }
}

extension LintContext {
  /// The right header for a push of the type.
  static func good(_ type: PushType) -> LintContext {
    LintContext(
      pushType: type, topic: "com.example.app\(type.topicSuffix.text)",
      priority: type == .background ? .powerSaving : nil,
      expirationSeconds: [.voip, .pushtotalk].contains(type) ? 0 : nil, nowSeconds: 1_800_000_000)
  }
}

@Suite("Lint of pushes before they are sent")
struct PayloadLintTests {
  private static let hello = #"{"aps":{"alert":"Hello"}}"#
  private static let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
  private static let start =
    #"{"aps":{"timestamp":1,"event":"start","content-state":{},"attributes-type":"A","#
    + #""attributes":{},"alert":{"title":{"loc-key":"T"},"body":"B"}}}"#

  static let cases: [LintCase] = [
    LintCase(.payloadEmpty, bad: "", good: hello),
    LintCase(.payloadNotJSON, bad: #"{"aps":{"alert":"a}}"#, good: hello),
    LintCase(.payloadNotJSON, bad: #"[{"aps":{}}]"#, good: hello),
    LintCase(.payloadTooLarge, bad: alert(bytes: 4097), good: alert(bytes: 4096)),
    LintCase(
      .payloadTooLarge, .voip, bad: #"{"aps":{},"a":"\#(String(repeating: "a", count: 5120))"}"#,
      good: #"{"aps":{},"a":"\#(String(repeating: "a", count: 5000))"}"#),
    LintCase(.apsMissing, bad: #"{"alert":"Hello"}"#, good: hello),
    LintCase(.apsMissing, bad: #"{"aps":"Hello"}"#, good: hello),
    LintCase(.backgroundPriority, .background, #"{"aps":{"content-available":1}}"#) {
      $0.priority = .immediate
    },
    LintCase(.backgroundPriority, .background, #"{"aps":{"content-available":1}}"#) {
      $0.priority = nil
    },
    LintCase(.topicSuffix, .voip, #"{"aps":{}}"#) { $0.topic = "com.example.app" },
    LintCase(.topicSuffix, .liveactivity, update) { $0.topic = "com.example.app.voip" },
    LintCase(.collapseIDTooLong, hello) { $0.collapseIDByteCount = 65 },
    LintCase(.pushTypeMissing, hello) { $0.pushType = nil },
    LintCase(.topicOfOtherType, hello) { $0.topic = "com.example.app.push-type.widgets" },
    LintCase(
      .backgroundVisible, .background, bad: #"{"aps":{"content-available":1,"badge":1}}"#,
      good: #"{"aps":{"content-available":1},"unread":1}"#),
    LintCase(
      .backgroundNotSilent, .background, bad: #"{"aps":{}}"#,
      good: #"{"aps":{"content-available":1}}"#),
    LintCase(
      .alertInvisible, bad: #"{"aps":{"content-available":1}}"#,
      good: #"{"aps":{"content-available":1,"badge":1}}"#),
    LintCase(.alertInvisible, bad: #"{"aps":{}}"#, good: #"{"aps":{"sound":"default"}}"#),
    LintCase(.mdmKey, .mdm, bad: #"{"aps":{}}"#, good: #"{"mdm":"magic"}"#),
    LintCase(.mdmKey, .alert, bad: #"{"mdm":"magic"}"#, good: hello),
    LintCase(
      .shownByApp, .location, bad: #"{"aps":{"alert":"Where?"}}"#, good: #"{"aps":{},"a":1}"#),
    LintCase(.shownByApp, .voip, bad: #"{"aps":{"sound":"a"}}"#, good: #"{"aps":{}}"#),
    LintCase(
      .contentChanged, .widgets, bad: #"{"aps":{}}"#, good: #"{"aps":{"content-changed":true}}"#),
    LintCase(
      .contentChanged, .controls, bad: #"{"aps":{"content-changed":false}}"#,
      good: #"{"aps":{"content-changed":true}}"#),
    LintCase(.pushToTalkHeaders, .pushtotalk, #"{"aps":{}}"#) { $0.priority = .powerSaving },
    LintCase(.pushToTalkHeaders, .pushtotalk, #"{"aps":{}}"#) { $0.expirationSeconds = nil },
    LintCase(.voipStored, .voip, #"{"aps":{}}"#) { $0.expirationSeconds = nil },
    LintCase(
      .urgentPriority, #"{"aps":{"alert":"a","interruption-level":"time-sensitive"}}"#
    ) { $0.priority = .powerSaving },
    LintCase(.keyOutsideAPS, bad: #"{"aps":{"alert":"a"},"badge":1}"#, good: hello),
    LintCase(
      .keyOutsideAlert, bad: #"{"aps":{"title":"a","sound":"b"}}"#,
      good: #"{"aps":{"alert":{"title":"a"},"sound":"b"}}"#),
    LintCase(
      .keyMisspelt, bad: #"{"aps":{"alert":"a","content_available":1}}"#,
      good: #"{"aps":{"alert":"a","content-available":1}}"#),
    LintCase(
      .keyMisspelt, bad: #"{"aps":{"alert":"a","threadId":"b"}}"#,
      good: #"{"aps":{"alert":"a","thread-id":"b"}}"#),
    LintCase(.keyMisspelt, bad: #"{"aps":{},"APS":{"alert":"a"}}"#, good: hello),
    LintCase(
      .keyUnknown, bad: #"{"aps":{"alert":"a","order":4}}"#,
      good: #"{"aps":{"alert":"a"},"order":4}"#
    ),
    LintCase(.keyRepeated, bad: #"{"aps":{"alert":"a","alert":"b"}}"#, good: hello),
    LintCase(.keyRepeated, bad: #"{"aps":{"alert":"a"},"a":1,"\u0061":2}"#, good: hello),
    LintCase(.keyRepeated, bad: #"{"aps":{"alert":{"body":"a","body":"b"}}}"#, good: hello),
    LintCase(.valueType, bad: #"{"aps":{"badge":"1"}}"#, good: #"{"aps":{"badge":1}}"#),
    LintCase(.valueType, bad: #"{"aps":{"alert":7}}"#, good: hello),
    LintCase(
      .valueType, bad: #"{"aps":{"alert":{"loc-key":"a","loc-args":[1]}}}"#,
      good: #"{"aps":{"alert":{"loc-key":"a","loc-args":["1"]}}}"#),
    LintCase(
      .valueType, .alert, bad: #"{"aps":{"alert":{"title":{"loc-key":"T"}}}}"#,
      good: #"{"aps":{"alert":{"title-loc-key":"T","title":null}}}"#),
    LintCase(.alertEmpty, bad: #"{"aps":{"alert":""}}"#, good: hello),
    LintCase(
      .alertEmpty, bad: #"{"aps":{"alert":{"launch-image":"a"}}}"#,
      good: #"{"aps":{"alert":{"body":"a"}}}"#),
    LintCase(
      .flagNotOne, bad: #"{"aps":{"alert":"a","content-available":true}}"#,
      good: #"{"aps":{"alert":"a","content-available":1.0}}"#),
    LintCase(
      .flagNotOne, bad: #"{"aps":{"alert":"a","mutable-content":"1"}}"#,
      good: #"{"aps":{"alert":"a","mutable-content":1}}"#),
    LintCase(.badgeValue, bad: #"{"aps":{"badge":-1}}"#, good: #"{"aps":{"badge":0}}"#),
    LintCase(.badgeValue, bad: #"{"aps":{"badge":1.5}}"#, good: #"{"aps":{"badge":2}}"#),
    LintCase(
      .interruptionLevel, bad: #"{"aps":{"alert":"a","interruption-level":"timeSensitive"}}"#,
      good: #"{"aps":{"alert":"a","interruption-level":"time-sensitive"}}"#),
    LintCase(
      .relevanceScore, bad: #"{"aps":{"alert":"a","relevance-score":75}}"#,
      good: #"{"aps":{"alert":"a","relevance-score":0.75}}"#),
    LintCase(
      .soundValue, bad: #"{"aps":{"sound":{"critical":1,"name":"a","volume":2}}}"#,
      good: #"{"aps":{"sound":{"critical":1,"name":"a","volume":1}}}"#),
    LintCase(
      .soundValue, bad: #"{"aps":{"sound":{"critical":true,"name":"a"}}}"#,
      good: #"{"aps":{"sound":{"critical":1,"name":"a"}}}"#),
    LintCase(.soundValue, bad: #"{"aps":{"alert":"a","sound":{"critical":1}}}"#, good: hello),
    LintCase(.soundValue, bad: #"{"aps":{"alert":"a","sound":""}}"#, good: hello),
    LintCase(
      .soundOfPassive, bad: #"{"aps":{"alert":"a","sound":"b","interruption-level":"passive"}}"#,
      good: #"{"aps":{"alert":"a","sound":"b","interruption-level":"active"}}"#),
    LintCase(
      .argumentsWithoutKey, bad: #"{"aps":{"alert":{"body":"a","loc-args":["b"]}}}"#,
      good: #"{"aps":{"alert":{"loc-key":"a","loc-args":["b"]}}}"#),
    LintCase(
      .argumentsWithoutKey, bad: #"{"aps":{"alert":{"body":"a","title-loc-args":["b"]}}}"#,
      good: #"{"aps":{"alert":{"title-loc-key":"a","title-loc-args":["b"]}}}"#),
    LintCase(
      .mutableWithoutAlert, bad: #"{"aps":{"sound":"a","mutable-content":1}}"#,
      good: #"{"aps":{"alert":"a","mutable-content":1}}"#),
    LintCase(.millisecondsForSeconds, hello) { $0.expirationSeconds = 1_800_000_000_000 },
    LintCase(
      .millisecondsForSeconds, .liveactivity,
      bad: #"{"aps":{"timestamp":1800000000000,"event":"update","content-state":{}}}"#,
      good: update),
    LintCase(.expirationPast, hello) { $0.expirationSeconds = 1_799_999_999 },
    LintCase(
      .liveActivityTimestamp, .liveactivity, bad: #"{"aps":{"event":"update","content-state":{}}}"#,
      good: update),
    LintCase(
      .liveActivityEvent, .liveactivity, bad: #"{"aps":{"timestamp":1,"content-state":{}}}"#,
      good: update),
    LintCase(
      .liveActivityState, .liveactivity, bad: #"{"aps":{"timestamp":1,"event":"update"}}"#,
      good: #"{"aps":{"timestamp":1,"event":"end"}}"#),
    LintCase(
      .liveActivityStart, .liveactivity,
      bad: #"{"aps":{"timestamp":1,"event":"start","content-state":{}}}"#, good: start),
    LintCase(
      .liveActivityKey, bad: #"{"aps":{"alert":"a","content-state":{}}}"#,
      good: #"{"aps":{"alert":"a"},"event":"b"}"#),
    LintCase(
      .liveActivityDismissal, .liveactivity,
      bad: #"{"aps":{"timestamp":1,"event":"update","content-state":{},"dismissal-date":1}}"#,
      good: #"{"aps":{"timestamp":1,"event":"end","dismissal-date":1}}"#),
  ]

  private static func alert(bytes: Int) -> String {
    let frame = #"{"aps":{"alert":""}}"#
    return frame.replacing(
      "\"\"", with: "\"\(String(repeating: "a", count: bytes - frame.utf8.count))\"")
  }

  private func rules(_ payload: String, _ context: LintContext) -> [LintFinding] {
    let bytes = Array(payload.utf8)
    return PayloadLint.findings(in: bytes.span, context)
  }

  @Test("Each rule finds its violation", arguments: cases)
  func bad(_ test: LintCase) {
    let findings = rules(test.bad, test.badContext).filter { $0.rule == test.rule }
    #expect(findings.count == 1 || test.rule == .liveActivityStart && findings.count == 3)
    for finding in findings {
      #expect(!finding.place.isEmpty && !finding.problem.isEmpty && finding.remedy.hasSuffix("."))
    }
  }

  @Test("No rule finds anything in a valid push", arguments: cases)
  func good(_ test: LintCase) throws {
    #expect(rules(test.good, try #require(test.goodContext)).isEmpty)
  }

  @Test("Every rule has a case, a name of its own and a source")
  func complete() {
    #expect(Set(Self.cases.map(\.rule)) == Set(LintRule.allCases))
    for rule in LintRule.allCases {
      #expect(!rule.source.isEmpty)
      #expect(rule.rawValue.allSatisfy { $0.isLowercase || $0 == "-" })
    }
  }

  @Test("Errors come first, and a finding reads as a sentence")
  func order() {
    let findings = rules(#"{"alert":"a"}"#, .good(.background))
    #expect(findings.map(\.severity) == [.error, .warning])
    #expect(
      findings[1].description
        == "warning: alert: is outside aps, where the system does not read it. "
        + "Move it into aps. [key-outside-aps]")
  }

  @Test("A request's own fields are used as received")
  func requestFields() {
    var fields = RequestFields()
    func add(_ name: HeaderName, _ value: String) {
      let bytes = Array(value.utf8)
      let fits = fields.add(name, value: bytes.span)
      #expect(fits)
    }
    add(.apnsPushType, "Background")
    add(.apnsPriority, "10")
    add(.apnsTopic, "com.example.app")
    add(.apnsExpiration, "12")
    add(.apnsCollapseID, "abc")
    #expect(
      LintContext(fields, nowSeconds: 7)
        == LintContext(
          pushType: .background, topic: "com.example.app", priority: .immediate,
          expirationSeconds: 12, collapseIDByteCount: 3, nowSeconds: 7))
    #expect(LintContext(RequestFields()) == LintContext())
  }
}
