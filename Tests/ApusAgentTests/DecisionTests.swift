import ApusDevice
import ApusWire
import Testing

@testable import ApusAgent

@Suite("The record of notifications")
struct DeliveryRecordTests {
  private func record(_ lines: String, capacity: Int = 8) -> DeliveryRecord {
    var record = DeliveryRecord(capacity: capacity)
    for line in lines.split(separator: "\n") { record.apply(line) }
    return record
  }

  @Test("A start without an end is an interruption, and ends with any end")
  func interruption() {
    #expect(record("start A/t 5")["A/t"]?.isStarted == true)
    #expect(record("start A/t 5\nagain A/t")["A/t"]?.isStarted == false)
    #expect(record("start A/t 5\ndone A/t 1")["A/t"]?.isStarted == false)
    #expect(record("start A/t 5\ndone A/t 4")["A/t"]?.isStarted == true)
    #expect(record("start A/t 5\nend A/t 6 run: exit code 0")["A/t"]?.isStarted == false)
  }

  @Test("Equal ids of two topics are two notifications")
  func topics() {
    let record = record("end A/t 5 done\nstart A/u 6")
    #expect(record["A/t"]?.outcome == "done" && record["A/u"]?.outcome == nil)
    #expect(record.newest(2).map(\.topic) == ["u", "t"])
    #expect(record.newest(2).map(\.id) == ["A", "A"])
    #expect(DeliveryRecord.key(id: "A", topic: "com.example/x") == "A/com.example/x")
    #expect(DeliveryRecord.Entry(key: "A/com.example/x").topic == "com.example/x")
  }

  @Test("Lines that are broken or unknown change nothing")
  func broken() {
    let lines = [
      "start A/t", "start A/t x", "start A 5", "done A/t 999", "end A/t 6", "fly A/t", "", "star",
    ]
    #expect(record(lines.joined(separator: "\n")).newest(9).isEmpty)
  }

  @Test("What is written is what is read, also after it was written anew")
  func roundTrip() {
    let lines =
      DeliveryRecord.start("A/t", seconds: 7) + DeliveryRecord.done("A/t", .run)
      + DeliveryRecord.start("B/u", seconds: 8) + DeliveryRecord.done("C/t", .write)
      + DeliveryRecord.end("A/t", seconds: 9, outcome: "run: exit\ncode 0")
    var first = record(lines)
    #expect(first["A/t"]?.outcome == "run: exit code 0" && first["A/t"]?.seconds == 9)
    #expect(first["B/u"]?.isStarted == true && first["C/t"]?.done == .write)
    let second = record(first.compacted())
    for key in ["A/t", "B/u", "C/t"] { #expect(second[key] == first[key], "\(key)") }
    #expect(second.newest(2).map(\.key) == ["C/t", "B/u"])
  }

  @Test("The newest replace the oldest, and a long file is written anew")
  func bounded() {
    var record = DeliveryRecord(capacity: 4)
    for number in 0..<100 { record.apply("end \(number)/t 1 done") }
    #expect(record["95/t"] == nil && record["96/t"] != nil && record.newest(99).count == 4)
    #expect(record.wantsCompaction)
    #expect(record.compacted().split(separator: "\n").count == 4 && !record.wantsCompaction)
  }
}

@Suite("Small decisions of the agent")
struct DecisionTests {
  @Test("Commands start in order, up to the limits")
  func queue() {
    var queue = CommandQueue(limit: 3)
    for id in ["a1", "a2", "a3", "b1", "c1"] { queue.add(id, topic: String(id.prefix(1))) }
    var started: [String] = []
    while let id = queue.next(topicLimit: { $0 == "a" ? 2 : 1 }) { started.append(id) }
    #expect(started == ["a1", "a2", "b1"])
    queue.ended("b1")
    #expect(queue.next { _ in 2 } == "c1" && queue.next { _ in 2 } == nil)
    queue.ended("a1")
    #expect(queue.next { _ in 2 } == "a3" && queue.next { _ in 2 } == nil)
  }

  @Test("The exit code 75 asks for another attempt")
  func exitCodes() {
    #expect(ActionResult(exitCode: 0) == .done("exit code 0"))
    #expect(ActionResult(exitCode: 75) == .again("exit code 75"))
    #expect(ActionResult(exitCode: 1) == .failed("exit code 1"))
    #expect(
      [1, 2, 3, 9, 10, 99].map { ActionResult.waitMilliseconds(attempts: $0) }
        == [1000, 2000, 4000, 256_000, 300_000, 300_000])
  }

  @Test("Lines come whole, in any pieces, and not too long")
  func lines() throws {
    var buffer = LineBuffer()
    #expect(try buffer.take(Array("ab".utf8)) == [])
    #expect(try buffer.take(Array("c\n\nd\nef".utf8)) == ["abc", "", "d"].map { Array($0.utf8) })
    #expect(try buffer.take([0x0a]) == [Array("ef".utf8)])
    #expect(throws: AgentFault.self) {
      try buffer.take([UInt8](repeating: 0x61, count: ControlRequest.lineBytes + 1))
    }
  }

  @Test("Who may register and read what")
  func permissions() {
    var permissions = Permissions(agentUser: 100)
    permissions.grants = [(7, UserGrant(user: "alice", topics: ["com.example.*"]))]
    permissions.readers["net.open"] = .some(nil)
    permissions.readers["net.bob"] = [8]
    #expect(permissions.mayRegister("com.example.a", 7) && permissions.mayRead("com.example.a", 7))
    #expect(
      !permissions.mayRegister("com.other", 7) && !permissions.mayRegister("com.example.a", 8))
    #expect(permissions.mayRead("net.open", 9) && !permissions.mayRegister("net.open", 9))
    #expect(permissions.mayRead("net.bob", 8) && !permissions.mayRead("net.bob", 7))
    #expect(permissions.mayRegister("any", 0) && permissions.mayRegister("any", 100))
  }

  @Test("Registrations are kept by user, each once and not without limit")
  func registrations() throws {
    var registrations = Registrations(text: "7 a\n8 a\nbroken\n7 b\n")
    #expect(registrations.topics == ["a", "b"])
    #expect(try !registrations.add("a", user: 7))
    #expect(registrations.remove("a", user: 7) && registrations.topics == ["a", "b"])
    #expect(registrations.remove("a", user: nil) && registrations.text == "7 b\n")
    for number in 1..<Registrations.perUser { _ = try registrations.add("t\(number)", user: 7) }
    #expect(throws: AgentFault.self) { try registrations.add("more", user: 7) }
    #expect(try registrations.add("more", user: 8))
  }
}

@Suite("What the desktop is asked to show")
struct DesktopNoteTests {
  private func note(
    _ payload: String, _ rule: ShowRule, strings: [String: String] = [:], hasMarkup: Bool = true,
    files: Set<String> = []
  ) throws -> DesktopNote? {
    let shown = try #require(Presentation(payload: Array(payload.utf8), strings: strings))
    return DesktopNote(shown, topic: "com.example.app", rule: rule, hasMarkup: hasMarkup) {
      files.contains($0)
    }
  }

  @Test("Texts come by key, and are no markup")
  func texts() throws {
    var rule = ShowRule()
    rule.application = "Chat"
    let payload =
      #"{"aps":{"alert":{"title":"A<B","subtitle":"s","loc-key":"MSG","loc-args":["<i>","2"]}}}"#
    let note = try #require(try note(payload, rule, strings: ["MSG": "%@ & %@"]))
    #expect(note.application == "Chat" && note.summary == "A<B")
    #expect(note.body == "s\n&lt;i&gt; &amp; 2")
    let plain = try #require(
      try self.note(payload, rule, strings: ["MSG": "%@ & %@"], hasMarkup: false))
    #expect(plain.body == "s\n\u{2039}i> & 2")
    #expect(plain.actions == [])
  }

  @Test("Actions come from the category, and only if something can run")
  func actions() throws {
    var rule = ShowRule()
    rule.categories = ["MSG": [CategoryAction(id: "reply", label: "Reply")]]
    let payload = #"{"aps":{"alert":"x","category":"MSG"}}"#
    #expect(try note(payload, rule)?.actions == [])
    rule.onAction = ["/usr/bin/chat"]
    #expect(try note(payload, rule)?.actions == ["default", "", "reply", "Reply"])
  }

  @Test("Sounds, urgency and badge")
  func hints() throws {
    var rule = ShowRule()
    rule.sounds = "/sounds"
    func hint(_ payload: String, _ name: String) throws -> DesktopNote.Hint? {
      try note(payload, rule, files: ["/sounds/bell.wav", "/sounds/../x"])?.hints
        .first { $0.name == name }?.value
    }
    #expect(try hint(#"{"aps":{"alert":"x"}}"#, "suppress-sound") == .truth(true))
    #expect(
      try hint(#"{"aps":{"alert":"x","sound":"default"}}"#, "sound-name")
        == .text("message-new-instant"))
    #expect(
      try hint(#"{"aps":{"alert":"x","sound":"bell.wav"}}"#, "sound-file")
        == .text("/sounds/bell.wav"))
    #expect(try hint(#"{"aps":{"alert":"x","sound":"../x"}}"#, "sound-file") == nil)
    #expect(
      try hint(#"{"aps":{"alert":"x","interruption-level":"critical"}}"#, "urgency") == .byte(2))
    #expect(
      try hint(#"{"aps":{"alert":"x","interruption-level":"passive"}}"#, "urgency") == .byte(0))
    #expect(try note(#"{"aps":{"badge":3}}"#, rule) == nil)
    #expect(try note(#"{"aps":{"alert":"x","badge":3}}"#, rule)?.badge == 3)
  }

  @Test("The languages of the environment, the best first")
  func languages() {
    #expect(Languages.names { $0 == "LANG" ? "de_AT.UTF-8" : nil } == ["de_AT", "de", "en"])
    #expect(Languages.names { $0 == "LC_ALL" ? "fr" : "de" } == ["fr", "en"])
    #expect(Languages.names { _ in "C.UTF-8" } == ["en"])
    #expect(Languages.names { _ in "../../etc/x" } == ["en"])
  }
}
