import ApusModel
import ApusWire
import Testing

@testable import ApusCommand

@Suite("Output")
struct OutputTests {
  @Test("JSON output is one line, whatever it contains")
  func escaping() {
    let value = JSONValue.members([
      "a": .string("\"\\/\n\r\t\u{0}\u{1b}ü😀"), "absent": nil, "b": .strings(["x"]),
    ])
    #expect(value.text == #"{"a":"\"\\/\n\r\t\u0000\u001bü😀","b":["x"]}"#)
  }

  private func message(_ line: String, file: String = "") throws -> Message {
    try Message(invocation("send --token ab " + line)) { _ in file }
  }

  @Test(
    "Options become the payload",
    arguments: [
      ("--alert Hi", #"{"aps":{"alert":"Hi"}}"#),
      ("--alert Hi --title T", #"{"aps":{"alert":{"title":"T","body":"Hi"}}}"#),
      ("--title T --subtitle S", #"{"aps":{"alert":{"title":"T","subtitle":"S"}}}"#),
      ("--badge 0 --sound default", #"{"aps":{"badge":0,"sound":"default"}}"#),
      ("--content-available", #"{"aps":{"content-available":1}}"#),
      (#"--payload {"x":1.50}"#, #"{"x":1.50}"#),
      ("--payload-file f", "from the file"),
    ])
  func payload(line: String, expected: String) throws {
    #expect(try message(line, file: "from the file").payload == expected)
  }

  @Test(
    "Exactly one payload option is required",
    arguments: [
      ("", "the notification has no payload"), ("--title=", nil),
      ("--alert a --payload {}", "the payload is given in more than one way"),
      ("--payload-file a --payload {}", "the payload is given in more than one way"),
    ])
  func onePayload(line: String, problem: String?) {
    do {
      _ = try message(line)
      #expect(problem == nil)
    } catch {
      #expect((error as? CommandFailure)?.problem == problem)
    }
  }

  @Test(
    "A notification that shows nothing becomes a background push with the required priority")
  func background() throws {
    let silent = try message("--content-available")
    #expect(silent.pushType == .background && silent.priority == .powerSaving)
    let visible = try message("--content-available --alert a")
    #expect(visible.pushType == .alert && visible.priority == nil)
    let explicit = try message("--content-available --push-type voip --priority 10")
    #expect(explicit.pushType == .voip && explicit.priority == .immediate)
  }

  private func card(
    _ payload: String, texts: [String] = [], isFromStorage: Bool = false, channel: String? = nil
  ) -> String {
    NotificationCard(
      topic: "com.example.app", texts: texts, payload: payload, isFromStorage: isFromStorage,
      channel: channel, time: "12:00:00"
    ).text(columns: 44)
  }

  @Test("A card shows what a device would show")
  func card() {
    let payload = """
      {"aps":{"alert":{"title":"ServiceListener","body":"It rang.\\nTwice, and nobody went to see who it was."},
      "badge":3,"sound":{"name":"bell"}},"id":[1]}
      """
    #expect(
      card(
        payload, texts: ["ServiceListener", "It rang.\nTwice, and nobody went to see who it was."],
        isFromStorage: true) == """
          ┌─ com.example.app · 12:00:00 · was stored
          │ ServiceListener
          │ It rang.
          │ Twice, and nobody went to see who it was.
          │ badge 3 · sound bell
          │ id: [1]
          └

          """)
  }

  @Test("A card names the channel of a broadcast")
  func channel() {
    let shown = card(#"{"aps":{}}"#, isFromStorage: true, channel: "w8PDww==")
    #expect(shown.hasPrefix("┌─ com.example.app · 12:00:00 · channel w8PDww== · was stored\n"))
  }

  @Test(
    "A payload without visible text is shown unchanged",
    arguments: [#"{"aps":{}}"#, "{\"aps\":", "[]"])
  func plainCard(payload: String) {
    #expect(card(payload).contains("│ \(payload)\n"))
  }

  @Test("What happens to a Live Activity is one line")
  func activity() {
    let topic = "com.example.app.push-type.liveactivity"
    var line = ActivityLine(
      topic: topic, event: "updated", activity: 2, attributesType: "Match",
      contentState: JSONValue(text: #"{"score": "1:0"}"#))
    #expect(line.text == "\(topic)  Live Activity 2 (Match) updated: {\"score\":\"1:0\"}\n")
    #expect(
      line.json.text
        == #"{"event":"activity","topic":"\#(topic)","activity":2,"change":"updated","#
        + #""attributes_type":"Match","content_state":{"score":"1:0"}}"#)
    line.attributesType = "\u{1b}[31m\nMatch"
    line.contentState = .string(String(repeating: "x", count: 5000))
    #expect(line.text.utf8.count < 400 && line.text.split(separator: "\n").count == 1)
    #expect(!line.text.contains("\u{1b}"))
    let dropped = ActivityLine(topic: topic, event: "dropped", reason: "the activity has ended")
    #expect(dropped.text == "\(topic)  Live Activity dropped: the activity has ended\n")
    #expect(
      dropped.json.text
        == #"{"event":"activity","topic":"\#(topic)","change":"dropped","#
        + #""reason":"the activity has ended"}"#)
  }

  @Test("A payload cannot control the terminal")
  func harmless() {
    let text = card("{\"aps\":{}}", texts: ["\u{1b}]0;x\u{07}\u{9b}2J\u{202e}gpj.exe"])
    #expect(text.contains("│ \u{fffd}]0;x\u{fffd}\u{fffd}2J\u{fffd}gpj.exe\n"))
  }
}
