import ApusModel
import ApusWire
import Testing

@testable import ApusCommand

@Suite("Reading a list of recipients")
struct RecordReaderTests {
  /// The rows of a list that arrives in pieces of the given number of bytes.
  private func read(_ list: String, pieces size: Int = .max) throws -> [Record] {
    var reader = RecordReader()
    var records: [Record] = []
    var rest = Array(list.utf8)[...]
    while true {
      reader.append(rest.prefix(size))
      while let record = try reader.next() { records.append(record) }
      guard !rest.isEmpty else { return records }
      rest = rest.dropFirst(size)
    }
  }

  @Test("The number of bytes read is known after each row")
  func readBytes() throws {
    var reader = RecordReader()
    reader.append(Array("token\n0a\n\n0b\r\n0".utf8))
    var bytes: [Int64] = []
    while try reader.next() != nil { bytes.append(reader.readBytes) }
    reader.append(Array("c".utf8))
    reader.append([])
    while try reader.next() != nil { bytes.append(reader.readBytes) }
    #expect(bytes == [9, 14, 16])
  }

  private func fields(_ list: String) throws -> [[String: JSONValue]?] {
    try read(list).map { if case .good(let fields) = $0.fields { fields } else { nil } }
  }

  @Test(
    "Tokens, tables and JSON lines, with any line ending",
    arguments: [
      ("0a\n0b\n", "tokens"), ("0a\r\n\r\n 0b ", "tokens"), ("token\n0a\n0b\n", "csv"),
      ("token\n\"0a\"\n0b", "csv"), ("{\"token\":\"0a\"}\n\n{\"token\":\"0b\"}", "jsonl"),
      ("\u{feff}0a\n0b", "tokens"), ("\u{feff}token\n0a\n0b", "csv"),
    ])
  func formats(list: String, format: String) throws {
    var reader = RecordReader()
    reader.append(Array(list.utf8))
    _ = try reader.next()
    #expect(reader.format?.rawValue == format)
    #expect(try fields(list) == [["token": .string("0a")], ["token": .string("0b")]])
    #expect(try read(list).map(\.number) == [1, 2])
  }

  @Test("Cells of a table may contain commas, quotation marks and line breaks (RFC 4180)")
  func table() throws {
    let list = "name,token,note\r\n\"Smith, J.\",0a,\"he said \"\"hi\"\"\nand left\"\r\n,0b,\n"
    #expect(
      try fields(list) == [
        ["name": "Smith, J.", "token": "0a", "note": "he said \"hi\"\nand left"].mapValues(
          JSONValue.string),
        ["name": "", "token": "0b", "note": ""].mapValues(JSONValue.string),
      ])
  }

  @Test("The chunks in which a list arrives make no difference", arguments: [1, 2, 3, 7, 64])
  func pieces(size: Int) throws {
    let list = "token,name\r\n0a,\"a\nb\"\"\"\n\n0b,ü\n0c,d"
    #expect(try read(list, pieces: size) == read(list))
    #expect(try read(list).count == 3)
  }

  @Test("After a bad row the next one is still read")
  func badRows() throws {
    #expect(
      try fields("token,a\n0a\n0b,c\n\"0\"x,c\n") == [
        nil, ["token": "0b", "a": "c"].mapValues(JSONValue.string), nil,
      ])
    #expect(
      try fields("{\"token\":\"0a\"}\n[1]\n{\"token\"\n") == [["token": .string("0a")], nil, nil])
  }

  @Test(
    "A file that is not a list is rejected with a reason",
    arguments: [
      "name,id\n1,2\n", "token,token\n1,2\n",
      "token,a\n0a,\"" + String(repeating: "x", count: RecordReader.rowBytes),
    ])
  func noList(list: String) { #expect(throws: RecordProblem.self) { try read(list) } }
}

@Suite("Fields of a row in the message")
struct TemplateTests {
  private let fields: [String: JSONValue] = [
    "name": .string("Jo \"J\""), "n": .integer(3), "empty": .string(""), "text": .string("7"),
    "list": .array([.integer(1)]),
  ]

  @Test(
    "A text template inserts values and defaults",
    arguments: [
      ("plain", "plain"), ("Hello {{name}}!", "Hello Jo \"J\"!"), ("{{ n }}/{{n}}", "3/3"),
      ("{{empty}}", ""), ("{{empty|friend}}", "friend"), ("{{nobody|a|b}}", "a|b"),
      ("{{list}}", "[1]"), ("}} {", "}} {"),
    ])
  func text(template: String, expected: String) throws {
    #expect(try TextTemplate(template).text(fields) == expected)
  }

  @Test("A text that is a single field becomes the field's value")
  func value() throws {
    #expect(try TextTemplate("{{n}}").value(fields) == .integer(3))
    #expect(try TextTemplate("{{text}}").value(fields) == .string("7"))
    #expect(try TextTemplate("{{text:json}}").value(fields) == .integer(7))
    #expect(try TextTemplate("{{nobody:json|[]}}").value(fields) == .array([]))
    #expect(try TextTemplate("{{n}}.").value(fields) == .string("3."))
  }

  @Test("A missing field makes a row invalid; a malformed template is rejected")
  func problems() throws {
    #expect(throws: RowProblem.self) { try TextTemplate("{{nobody}}").text(fields) }
    #expect(throws: RowProblem.self) { try TextTemplate("{{name:json}}").text(fields) }
    #expect(throws: ValueProblem.self) { try TextTemplate("{{name}") }
    #expect(throws: ValueProblem.self) { try TextTemplate("{{}}") }
  }

  @Test("In JSON only strings are templates; everything else stays unchanged")
  func payload() throws {
    let json = #"{ "{{n}}": 1.50, "a":"{{name}} \\ {{n}}","b":["{{n}}"],"c":12345678901234567890}"#
    let template = try PayloadTemplate(json: Array(json.utf8))
    #expect(
      try String(decoding: template.bytes(fields), as: UTF8.self)
        == #"{ "{{n}}": 1.50, "a":"Jo \"J\" \\ 3","b":[3],"c":12345678901234567890}"#)
  }

  private func message(_ line: String, _ row: [String: JSONValue]) throws -> Message {
    let template = try MessageTemplate(invocation("send --tokens f " + line)) { _ in "" }
    return try template.message(
      for: Record(
        number: 1, bytes: [], fields: .good(row.merging(["token": .string("0A")]) { a, _ in a })))
  }

  @Test("Fields of a row override options")
  func ownFields() throws {
    let message = try message(
      "--alert Hi --priority 10 --collapse-id {{n}}-x",
      [
        "push-type": .string("voip"), "topic": .string("a.b.voip"), "priority": .integer(5),
        "expiration": .string("0"), "payload": .object(JSONObject()), "n": .integer(4),
        "id": .string("123e4567-e89b-12d3-a456-426614174000"),
      ])
    #expect(message.token == "0a" && message.topic == "a.b.voip" && message.pushType == .voip)
    #expect(message.priority == .powerSaving && message.expiration == .at(0))
    #expect(message.payload == "{}" && message.collapseID == "4-x" && message.id != nil)
    #expect(
      try self.message("--set aps.badge={{n:json}}", ["n": .string("4")]).payload
        == #"{"aps":{"badge":4}}"#)
  }

  @Test(
    "A row without a valid message gives the reason",
    arguments: [
      (["token": JSONValue.string("xyz")], "has a token that is not a device token"),
      (["priority": .string("7")], "has a priority that is not one of"),
      (["payload": .string("[]")], "has a payload that is not a JSON object"),
      (["expiration": .bool(true)], "has a expiration that is not a text"),
    ])
  func badFields(row: [String: JSONValue], problem: String) {
    do {
      _ = try message("--alert Hi", row)
      Issue.record("a message was made")
    } catch {
      #expect((error as? RowProblem)?.text.hasPrefix(problem) == true)
    }
    #expect(throws: RowProblem.self) { try message("", [:]) }
  }
}

@Suite("Setting keys and shortening texts in any payload")
struct PayloadEditTests {
  private func payload(_ line: String) throws -> String {
    try Message(invocation("send --token ab " + line)) { _ in #"{"a":{"b":1},"c":"# + "2}" }.payload
  }

  @Test(
    "Any key can be set",
    arguments: [
      ("--set aps.thread-id=chat", #"{"aps":{"thread-id":"chat"}}"#),
      ("--alert x --set aps.badge=3 --set n=[1]", #"{"aps":{"alert":"x","badge":3},"n":[1]}"#),
      (#"--payload {"a":1,"b":2} --set a="x""#, #"{"a":"x","b":2}"#),
      ("--payload-file f --set a.d=null --set c.d=true", #"{"a":{"b":1,"d":null},"c":{"d":true}}"#),
      ("--set a=b=c", #"{"aps":{},"a":"b=c"}"#),
    ])
  func set(line: String, expected: String) throws { #expect(try payload(line) == expected) }

  @Test("An invalid key is rejected with a reason", arguments: ["a", "=b", "a..b=c", ".a=c"])
  func noKey(text: String) {
    #expect(failure("send --token ab --set \(text)")?.code == .usage)
  }

  @Test("Only the text is shortened, wherever it is")
  func shorten() {
    let long = String(repeating: "ä", count: 100)
    let short = PayloadShortening.shorten(#"{"aps":{"alert":"\#(long)"},"n":1}"#, toBytes: 60)
    #expect(short?.utf8.count == 60 || short?.utf8.count == 59)
    #expect(short?.hasSuffix("ä…\"},\"n\":1}") == true)
    let body = PayloadShortening.shorten(
      #"{"aps":{"alert":{"title":"t","body":"\#(long)"}}}"#, toBytes: 70)
    #expect(body?.hasPrefix(#"{"aps":{"alert":{"title":"t","body":"ä"#) == true)
    #expect(PayloadShortening.shorten(#"{"aps":{"alert":"a"}}"#, toBytes: 100) == nil)
    #expect(PayloadShortening.shorten(#"{"aps":{},"a":"\#(long)"}"#, toBytes: 100) == nil)
    #expect(
      PayloadShortening.shorten(#"{"aps":{"alert":"a"},"a":"\#(long)"}"#, toBytes: 100) == nil)
  }
}

@Suite("The service to send to, and its authorities")
struct ProviderListenerTests {
  @Test(
    "A service is a host with or without a port, or a short name of Apple's",
    arguments: [
      ("localhost:2197", "localhost:2197", false),
      ("push.example.com", "push.example.com:2197", false),
      ("apple", "api.push.apple.com:443", true),
      ("apple-sandbox", "api.sandbox.push.apple.com:443", true),
      ("api.push.apple.com:2197", "api.push.apple.com:2197", true),
      ("evilpush.apple.com.example.com", "evilpush.apple.com.example.com:2197", false),
      ("notpush.apple.com:1", "notpush.apple.com:1", false), ("[::1]", "[::1]:2197", false),
      ("localhost", "localhost:2197", false),
      ("api.push.apple.com", "api.push.apple.com:443", true),
    ])
  func listener(text: String, address: String, isApple: Bool) throws {
    let provider = try invocation("send --token ab --to \(text)").value(ApusOptions.provider)
    #expect(provider.description == address && provider.isApple == isApple)
  }

  @Test("One recipient or a list of recipients, not both")
  func oneOrMany() throws {
    #expect(failure("send --alert a")?.problem == "--token is missing")
    #expect(failure("send --tokens f") == nil)
    #expect(throws: CommandFailure.self) {
      try MessageTemplate(invocation("send --tokens f --token ab --alert a")) { _ in "" }
    }
  }
}
