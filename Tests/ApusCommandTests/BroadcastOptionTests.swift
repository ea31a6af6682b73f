import ApusModel
import ApusWire
import Testing

@testable import ApusCommand

@Suite("Broadcasts from options and from lists")
struct BroadcastOptionTests {
  private static let channel = "dHN0LXNyY2gtY2hubA=="

  private func message(_ line: String) throws -> Message {
    try Message(invocation("send " + line)) { _ in "{}" }
  }

  @Test("A channel takes the place of the token, and makes the push one for Live Activities")
  func channel() throws {
    let broadcast = try message("--channel \(Self.channel) --payload {} --expiration 0")
    #expect(broadcast.channel == Self.channel && broadcast.token == "")
    #expect(broadcast.pushType == .liveactivity && broadcast.topicSuffix == .none)
    #expect(broadcast.priority == nil && broadcast.expiration == .at(0))
    #expect(RowRecipient(broadcast) == .channel(Self.channel))
    let push = try message("--token ab --payload {} --push-type liveactivity")
    #expect(push.channel == nil && push.topicSuffix == .liveActivity)
    #expect(RowRecipient(push) == .token("ab"))
    // What the service would reject is kept, so that it is reported.
    let silent = try message(
      "--channel \(Self.channel) --content-available --push-type alert --priority 5")
    #expect(silent.pushType == .alert && silent.priority == .powerSaving)
  }

  @Test(
    "There is one recipient, and a channel id is base64",
    arguments: [
      "--channel YQ== --token ab --payload {}", "--channel a-b= --payload {}",
      "--channel \(String(repeating: "AAAA", count: 22)) --payload {}",
    ])
  func problems(line: String) {
    #expect(throws: CommandFailure.self) { try message(line) }
  }

  @Test("The limit of a broadcast applies when a text is shortened")
  func shorten() throws {
    let long = String(repeating: "a", count: 6000)
    let payload = #"{"aps":{"alert":{"title":"t","body":"\#(long)"}}}"#
    func count(_ recipient: String) throws -> Int {
      try message("\(recipient) --shorten --payload \(payload)").payload.utf8.count
    }
    #expect(try (5117...5120).contains(count("--channel YQ==")))
    #expect(try (4093...4096).contains(count("--token ab")))
  }

  private func row(_ fields: [String: JSONValue], _ line: String = "") throws -> Message {
    let template = try MessageTemplate(invocation("send --tokens f --payload {} " + line)) { _ in
      ""
    }
    return try template.message(for: Record(number: 1, bytes: [], fields: .good(fields)))
  }

  @Test("Rows with a token and rows with a channel share a list")
  func rows() throws {
    let push = try row(["token": .string("0A"), "channel": .string("")])
    #expect(push.token == "0a" && push.channel == nil && push.pushType == .alert)
    let broadcast = try row(
      ["token": .string(""), "channel": .string(Self.channel), "priority": .integer(5)])
    #expect(broadcast.channel == Self.channel && broadcast.token == "")
    #expect(broadcast.pushType == .liveactivity && broadcast.priority == .powerSaving)
    let given = try row(["channel": .string(Self.channel)], "--push-type liveactivity")
    #expect(given.pushType == .liveactivity && given.expiration == nil)
  }

  @Test(
    "A row has one recipient",
    arguments: [
      ([:], "has no token and no channel"),
      (["token": .string("0a"), "channel": .string("YQ==")], "has a token and a channel"),
      (["channel": .string("a-b=")], "has a channel that is not a channel id"),
    ] as [([String: JSONValue], String)])
  func badRows(fields: [String: JSONValue], problem: String) {
    do {
      _ = try row(fields)
      Issue.record("a message was made")
    } catch {
      #expect((error as? RowProblem)?.text.hasPrefix(problem) == true)
    }
  }

  @Test("A table may have a column for channels and none for tokens")
  func table() throws {
    var reader = RecordReader()
    reader.append(Array("channel,score\nYQ==,3\n".utf8))
    let record = try #require(try reader.next())
    #expect(record.fields == .good(["channel": .string("YQ=="), "score": .string("3")]))
  }

  @Test("The result of a row names its channel")
  func result() {
    let id = NotificationID(high: 0x123e_4567_e89b_12d3, low: 0xa456_4266_5544_000a)
    let line = RunJournal.line(
      row: 7, to: RowRecipient(["token": .string(""), "channel": .string("YQ==")]), id: id,
      .accepted(uniqueID: "u"))
    #expect(
      line.text
        == #"{"row":7,"outcome":"accepted","channel":"YQ==","#
        + #""apns_id":"123E4567-E89B-12D3-A456-42665544000A","unique_id":"u"}"#)
    #expect(RowRecipient(["name": .string("a")]) == nil)
  }
}
