import ApusDevice
import Testing

@Suite("How a phone shows a payload")
struct PresentationTests {
  private func presentation(
    _ payload: String, strings: [String: String] = [:]
  ) throws -> Presentation {
    try #require(Presentation(payload: Array(payload.utf8), strings: strings))
  }

  @Test("An alert that is a string is the body")
  func text() throws {
    let shown = try presentation(#"{"aps":{"alert":"Bob wants to play poker"}}"#)
    var expected = try presentation(#"{"aps":{}}"#)
    expected.body = "Bob wants to play poker"
    #expect(shown == expected)
    #expect(!shown.isSilent)
  }

  @Test("Every key is read")
  func everything() throws {
    let shown = try presentation(
      """
      {"aps":{"alert":{"title":"Game","subtitle":"Five Card Draw","body":"Bob wants to play"},
      "badge":9,"sound":"bingbong.aiff","category":"GAME_INVITATION","thread-id":"games",
      "interruption-level":"time-sensitive","relevance-score":0.5,"target-content-id":"w1",
      "content-available":1,"mutable-content":1,"unknown":{}},"gameID":"12345678"}
      """)
    #expect(shown.title == "Game")
    #expect(shown.subtitle == "Five Card Draw")
    #expect(shown.body == "Bob wants to play")
    #expect(shown.badge == 9)
    #expect(shown.sound == .named("bingbong.aiff"))
    #expect(!shown.isCriticalSound)
    #expect(shown.category == "GAME_INVITATION")
    #expect(shown.thread == "games")
    #expect(shown.interruptionLevel == .timeSensitive)
    #expect(shown.relevanceScore == 0.5)
    #expect(shown.targetContentID == "w1")
    #expect(shown.wakesApp)
    #expect(shown.isMutable)
  }

  @Test("The button's title and the launch image are read, as older systems show them")
  func action() throws {
    let payload =
      #"{"aps":{"alert":{"body":"b","action-loc-key":"PLAY","launch-image":"Start.png"}}}"#
    let shown = try presentation(payload, strings: ["PLAY": "Play now"])
    #expect(shown.actionTitle == "Play now" && shown.launchImage == "Start.png")
    #expect(try presentation(payload).actionTitle == "PLAY")
    let plain = try presentation(#"{"aps":{"alert":{"action-loc-key":null,"launch-image":1}}}"#)
    #expect(plain.actionTitle == nil && plain.launchImage == nil)
  }

  @Test(
    "A critical sound has a name and a volume",
    arguments: [
      (#"{"critical":1,"name":"alarm.caf","volume":0.25}"#, Presentation.Sound.named("alarm.caf")),
      (#"{"critical":1,"volume":0.25}"#, .standard),
      (#"{"critical":1,"name":"default","volume":0.25}"#, .standard),
    ])
  func criticalSound(sound: String, expected: Presentation.Sound) throws {
    let shown = try presentation(#"{"aps":{"sound":\#(sound)}}"#)
    #expect(shown.sound == expected)
    #expect(shown.isCriticalSound)
    #expect(shown.soundVolume == 0.25)
    #expect(!shown.isSilent)
  }

  @Test(
    "A payload that shows and plays nothing is silent",
    arguments: [
      #"{"aps":{"content-available":1},"acme":"x"}"#, #"{"aps":{}}"#, #"{"mdm":"magic"}"#,
      #"{"aps":{"alert":""}}"#, #"{"aps":{"alert":{}}}"#, #"{"aps":{"alert":7,"badge":"9"}}"#,
      #"{"aps":null}"#, #"{"aps":{"badge":-1}}"#,
    ])
  func silent(payload: String) throws {
    #expect(try presentation(payload).isSilent)
  }

  @Test("A badge alone is not silent, and 0 removes it")
  func badge() throws {
    let shown = try presentation(#"{"aps":{"badge":0}}"#)
    #expect(shown.badge == 0)
    #expect(!shown.isSilent)
  }

  @Test("Only an object is a payload", arguments: ["", "[]", "7", "{", #"{"aps":{}}x"#])
  func noPayload(payload: String) {
    #expect(Presentation(payload: Array(payload.utf8)) == nil)
  }

  private static let strings = [
    "GAME_PLAY_REQUEST_FORMAT": "%@ and %@ have invited you to play Monopoly",
    "REVERSED": "%2$@ and %1$@ have invited you to play Monopoly",
    "TITLE": "Invitation", "SUBTITLE": "by %@",
  ]

  @Test(
    "Arguments replace their specifiers",
    arguments: [
      ("GAME_PLAY_REQUEST_FORMAT", "Jenna and Frank have invited you to play Monopoly"),
      ("REVERSED", "Frank and Jenna have invited you to play Monopoly"),
      ("NOT_THERE", "NOT_THERE"),
    ])
  func localized(key: String, expected: String) throws {
    let shown = try presentation(
      #"{"aps":{"alert":{"loc-key":"\#(key)","loc-args":["Jenna","Frank"]}}}"#,
      strings: Self.strings)
    #expect(shown.body == expected)
  }

  @Test("Title and subtitle have their own localization keys")
  func localizedTitle() throws {
    let shown = try presentation(
      """
      {"aps":{"alert":{"title":"literal","title-loc-key":"TITLE","title-loc-args":null,
      "subtitle-loc-key":"SUBTITLE","subtitle-loc-args":["Frank"],"body":"b","loc-key":null}}}
      """, strings: Self.strings)
    #expect(shown.title == "Invitation")
    #expect(shown.subtitle == "by Frank")
    #expect(shown.body == "b")
  }

  @Test("A Live Activity has key and arguments in an object, and its sound in the alert")
  func liveActivity() throws {
    let shown = try presentation(
      """
      {"aps":{"event":"update","alert":{"title":{"loc-key":"SUBTITLE","loc-args":["Jenna"]},
      "body":{"loc-key":"NOT_THERE"},"sound":"chime.aiff"}}}
      """, strings: Self.strings)
    #expect(shown.title == "by Jenna")
    #expect(shown.body == "NOT_THERE")
    #expect(shown.sound == .named("chime.aiff"))
  }

  @Test(
    "Format strings with arguments",
    arguments: [
      ("%@", ["a"], "a"), ("%@%@", ["a"], "a"), ("%@", [], ""), ("%3$@", ["a"], ""),
      ("%1$@%1$@ %@", ["a", "b"], "aa a"), ("100%% %@", ["a"], "100% a"), ("%%@", ["a"], "%@"),
      ("%", ["a"], "%"), ("%d %@", ["a"], "%d a"), ("%0$@", ["a"], "%0$@"), ("%1$", ["a"], "%1$"),
      ("%1@", ["a"], "%1@"), ("%12$@", ["a"], ""), ("%1234$@", ["a"], "%1234$@"),
      ("ä%@ö", ["ü"], "äüö"), ("%@", ["%@"], "%@"), ("", ["a"], ""),
    ] as [(String, [String], String)])
  func formats(format: String, arguments: [String], expected: String) throws {
    let list = arguments.map { "\"\($0)\"" }.joined(separator: ",")
    let shown = try presentation(
      #"{"aps":{"alert":{"loc-key":"K","loc-args":[\#(list)]}}}"#, strings: ["K": format])
    #expect(shown.body == expected)
  }

  @Test("An argument that is not a string is empty and keeps its position")
  func otherArguments() throws {
    let shown = try presentation(
      #"{"aps":{"alert":{"loc-key":"REVERSED","loc-args":[7,"Frank"]}}}"#, strings: Self.strings)
    #expect(shown.body == "Frank and  have invited you to play Monopoly")
  }
}
