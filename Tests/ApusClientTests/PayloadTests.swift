import ApusModel
import Foundation
import Testing

@testable import ApusClient

private func text(_ payload: some PushPayload) -> String {
  String(decoding: payload.bytes, as: UTF8.self)
}

@Suite("Payloads match the JSON of Apple's documentation")
struct PayloadTests {
  @Test("An alert supports every documented key")
  func alert() throws {
    var payload = AlertPayload(title: "T", subtitle: "S", body: "B", badge: 0, sound: "bell.aiff")
    payload.localizedTitle = LocalizedText("TITLE", "Jenna")
    payload.localizedSubtitle = LocalizedText("SUB")
    payload.localizedBody = LocalizedText("PLAY_%@_%@", "Jenna", "Frank")
    payload.actionKey = "OPEN"
    payload.launchImage = "Launch.png"
    payload.category = "INVITE"
    payload.threadID = "game-4"
    payload.interruptionLevel = .timeSensitive
    payload.relevanceScore = 0.25
    payload.targetContentID = "board"
    payload.filterCriteria = "work"
    payload.urlArguments = ["a", "b"]
    payload.isContentAvailable = true
    payload.isMutableContent = true
    try payload.custom.set("game", 4)
    #expect(
      text(payload)
        == #"{"aps":{"alert":{"title":"T","title-loc-key":"TITLE","title-loc-args":["Jenna"],"#
        + #""subtitle":"S","subtitle-loc-key":"SUB","body":"B","loc-key":"PLAY_%@_%@","#
        + #""loc-args":["Jenna","Frank"],"action-loc-key":"OPEN","launch-image":"Launch.png"},"badge":0,"#
        + #""sound":"bell.aiff","category":"INVITE","thread-id":"game-4","#
        + #""interruption-level":"time-sensitive","relevance-score":0.25,"#
        + #""target-content-id":"board","filter-criteria":"work","url-args":["a","b"],"#
        + #""content-available":1,"mutable-content":1},"game":4}"#)
  }

  @Test("A critical alert's sound is an object")
  func criticalSound() {
    let payload = AlertPayload(sound: .critical(name: "alarm.aiff", volume: 0.5))
    #expect(
      text(payload) == #"{"aps":{"sound":{"critical":1,"name":"alarm.aiff","volume":0.5}}}"#)
  }

  @Test("A Live Activity start contains everything it needs")
  func liveActivityStart() throws {
    var alert = LiveActivityAlert(title: "Order", sound: "default")
    alert.localizedBody = LocalizedText("ON_ITS_WAY", "Frank")
    var payload = try LiveActivityPayload.start(
      attributesType: "Delivery", attributes: ["order": 7], contentState: ["stops": 3],
      alert: alert, timestampSeconds: 1_685_952_000, updatedBy: .token)
    payload.staleSeconds = 1_685_959_200
    payload.relevanceScore = 100
    payload.priority = .powerSaving
    #expect(
      text(payload)
        == #"{"aps":{"timestamp":1685952000,"event":"start","attributes-type":"Delivery","#
        + #""attributes":{"order":7},"input-push-token":1,"content-state":{"stops":3},"#
        + #""stale-date":1685959200,"relevance-score":100.0,"alert":{"title":"Order","#
        + #""body":{"loc-key":"ON_ITS_WAY","loc-args":["Frank"]},"sound":"default"}}}"#)
    let request = PushRequest(token: "0a", app: "com.example.app", payload)
    #expect(request.topic == "com.example.app.push-type.liveactivity")
    #expect(request.priority == .powerSaving)
    #expect(request.lint().isEmpty)
  }

  @Test("A Live Activity has channel starts, updates and both kinds of end")
  func liveActivityOthers() throws {
    let start = try LiveActivityPayload.start(
      attributesType: "A", attributes: [String: Int](), contentState: [String: Int](),
      alert: LiveActivityAlert(title: "t"), timestampSeconds: 1, updatedBy: .channel("YWI="))
    #expect(text(start).contains(#""input-push-channel":"YWI=""#))
    let update = try LiveActivityPayload.update(contentState: ["a": true], timestampSeconds: 2)
    #expect(
      text(update) == #"{"aps":{"timestamp":2,"event":"update","content-state":{"a":true}}}"#)
    let end = LiveActivityPayload.end(timestampSeconds: 3, dismissalSeconds: 0)
    #expect(text(end) == #"{"aps":{"timestamp":3,"event":"end","dismissal-date":0}}"#)
    let last = try LiveActivityPayload.end(contentState: ["a": 1], timestampSeconds: 3)
    #expect(text(last) == #"{"aps":{"timestamp":3,"event":"end","content-state":{"a":1}}}"#)
    #expect(throws: PushRequestError.self) {
      try LiveActivityPayload.update(contentState: 4, timestampSeconds: 2)
    }
  }

  @Test("Quiet pushes have their keys, topic and headers, and pass the lint")
  func quiet() throws {
    let custom = try CustomKeys(["a": 1])
    try check(
      BackgroundPayload(custom: custom), #"{"aps":{"content-available":1},"a":1}"#, "", .powerSaving
    )
    try check(VoIPPayload(custom: custom), #"{"aps":{},"a":1}"#, ".voip", nil, 0)
    try check(PushToTalkPayload(), #"{"aps":{}}"#, ".voip-ptt", .immediate, 0)
    try check(
      PushToTalkPayload(isServiceUpdate: true), #"{"aps":{"ptt-push-type":"service-update"}}"#,
      ".voip-ptt", .immediate, 0)
    try check(LocationPayload(), #"{"aps":{}}"#, ".location-query")
    try check(ComplicationPayload(custom: custom), #"{"aps":{},"a":1}"#, ".complication")
    try check(
      FileProviderPayload(containerIdentifier: "c", domain: "d", custom: custom),
      #"{"aps":{},"container-identifier":"c","domain":"d","a":1}"#, ".pushkit.fileprovider")
    try check(MDMPayload(pushMagic: "m"), #"{"mdm":"m"}"#, "")
    try check(WidgetsPayload(), #"{"aps":{"content-changed":true}}"#, ".push-type.widgets")
    try check(ControlsPayload(), #"{"aps":{"content-changed":true}}"#, ".push-type.controls")
  }

  private func check(
    _ payload: some PushPayload, _ json: String, _ suffix: String, _ priority: Priority? = nil,
    _ expiration: Int64? = nil
  ) throws {
    #expect(text(payload) == json)
    let request = PushRequest(token: "0a", app: "com.example.app", payload)
    #expect(request.topic == "com.example.app" + suffix)
    #expect(request.pushType == payload.pushType)
    #expect(request.priority == priority)
    #expect(request.expirationSeconds == expiration)
    #expect(request.lint(nowSeconds: 1) == [])
  }

  @Test("A request reports its contradictions")
  func lint() {
    var request = PushRequest(
      token: "0a", topic: "com.example.app", pushType: .background,
      payload: AlertPayload(body: "x").bytes)
    request.priority = .immediate
    #expect(
      Set(request.lint().map(\.rule))
        == [.backgroundPriority, .backgroundNotSilent, .backgroundVisible])
  }
}

@Suite("A body is shortened between characters, as little as possible")
struct ShorteningTests {
  private func shortened(_ body: String, to limit: Int, _ ending: String = "…") throws -> String? {
    let payload = try AlertPayload(title: "T", body: body).shortened(toBytes: limit, ending: ending)
    #expect(payload.bytes.count <= limit)
    #expect(payload.title == "T")
    return payload.body
  }

  /// Bytes of the payload around the body.
  private var frame: Int { AlertPayload(title: "T", body: "").bytes.count }

  @Test("A payload that fits is unchanged")
  func fits() throws {
    #expect(try shortened("hello", to: frame + 5) == "hello")
    #expect(try shortened("hello", to: frame + 4) == "h…")
    #expect(try shortened("hello", to: frame + 4, "") == "hell")
    #expect(try shortened("hello", to: frame + 3) == "…")
  }

  @Test("Neither a multi-scalar emoji nor an accented letter is split")
  func graphemes() throws {
    let family = "👨‍👩‍👧‍👦"
    #expect(family.utf8.count == 25)
    #expect(try shortened("a\(family)\(family)", to: frame + 1 + 25 + 3) == "a\(family)…")
    #expect(try shortened("a\(family)\(family)", to: frame + 1 + 24 + 3) == "a…")
    #expect(try shortened("e\u{301}e\u{301}", to: frame + 3, "") == "e\u{301}")
    #expect(try shortened("e\u{301}e\u{301}", to: frame + 2, "") == "")
  }

  @Test("Escaped characters count with all their bytes")
  func escapes() throws {
    #expect(try shortened("\"\"\"", to: frame + 5, "") == "\"\"")
    #expect(try shortened("\u{1}\u{1}", to: frame + 11, "") == "\u{1}")
    #expect(try shortened("\r\n\r\n", to: frame + 7, "") == "\r\n")
  }

  @Test("A payload that is too large without its body is an error")
  func hopeless() throws {
    #expect(throws: PushRequestError.self) { try shortened("hello", to: frame + 2) }
    #expect(throws: PushRequestError.self) {
      try AlertPayload(title: "T").shortened(toBytes: 10)
    }
  }
}
