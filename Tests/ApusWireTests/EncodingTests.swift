import ApusModel
import ApusWire
import Foundation
import Testing

private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

@Suite("Base64, hexadecimal and decimal")
struct EncodingTests {
  @Test(
    "The vectors of RFC 4648, section 10, are encoded and decoded",
    arguments: [
      ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="),
      ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy"),
    ])
  func vectors(plain: String, encoded: String) {
    let bare = encoded.filter { $0 != "=" }
    let bytes = Array(plain.utf8)
    #expect(text(Base64.encode(bytes.span)) == encoded)
    #expect(text(Base64URL.encode(bytes.span)) == bare)
    for spelling in [encoded, bare] {
      #expect(Base64.decode(Array(spelling.utf8).span) == bytes)
      #expect(Base64URL.decode(Array(spelling.utf8).span) == bytes)
    }
  }

  @Test("The alphabets differ in two characters")
  func alphabets() {
    let bytes = hex("fbff bf")
    #expect(text(Base64.encode(bytes.span)) == "+/+/")
    #expect(text(Base64URL.encode(bytes.span)) == "-_-_")
    #expect(Base64.decode(Array("-_-_".utf8).span) == nil)
    #expect(Base64URL.decode(Array("+/+/".utf8).span) == nil)
    #expect(Base64URL.decode(Array("-_-_".utf8).span) == bytes)
  }

  @Test(
    "A text that is not exactly an encoding is rejected",
    arguments: [
      "A", "AAAAA", "Zg=", "Zg===", "Zm8==", "Zm9v=", "=", "====", "Z=g=", "Zg==Zg==", "Zh", "Zm9",
      "Zg\n", " Zg", "Zg.", "Zö",
    ])
  func refused(spelling: String) {
    #expect(Base64URL.decode(Array(spelling.utf8).span) == nil)
    #expect(Base64.decode(Array(spelling.utf8).span) == nil)
  }

  @Test("Every byte is encoded and decoded as Foundation does")
  func everyByte() {
    for count in 0...256 {
      let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      #expect(text(Base64.encode(bytes.span)) == Data(bytes).base64EncodedString())
      #expect(Base64URL.decode(Base64URL.encode(bytes.span).span) == bytes)
      #expect(Hex.decode(Hex.encode(bytes.span).span) == bytes)
    }
  }

  @Test("Hexadecimal is written in lower case and read in either case")
  func hexadecimal() {
    #expect(text(Hex.encode([0x00, 0x9a, 0xff].span)) == "009aff")
    #expect(Hex.decode(Array("009aFf".utf8).span) == [0x00, 0x9a, 0xff])
    for wrong in ["0", "0g", "g0", "00 ", "0x", "é"] {
      #expect(Hex.decode(Array(wrong.utf8).span) == nil)
    }
  }

  @Test(
    "Decimal numbers are digits with an optional minus",
    arguments: [
      ("0", 0), ("-0", 0), ("007", 7), ("10", 10), ("-10", -10), ("1700000000", 1_700_000_000),
      ("9223372036854775807", Int64.max), ("-9223372036854775808", Int64.min),
      ("9223372036854775808", nil), ("-9223372036854775809", nil), ("92233720368547758070", nil),
      ("", nil), ("-", nil), ("+1", nil), (" 1", nil), ("1 ", nil), ("1.0", nil), ("1e3", nil),
      ("0x1", nil), ("--1", nil), ("1-", nil), ("/", nil), (":", nil), ("१", nil),
    ] as [(String, Int64?)])
  func decimal(spelling: String, expected: Int64?) {
    #expect(DecimalInteger.parse(Array(spelling.utf8).span) == expected)
  }

  @Test(
    "Decimal numbers are written", arguments: [0, 7, 10, -10, 1_700_000_000, Int64.max, Int64.min])
  func writtenDecimal(number: Int64) {
    var output = Array("x".utf8)
    output.append(decimal: number)
    #expect(text(output) == "x\(number)")
  }

  @Test("A topic hash is its 20 bytes")
  func topicHash() throws {
    let bytes = (1...20).map { UInt8($0) }
    let found = TopicHash(bytes.span)
    let hash = try #require(found)
    #expect((0..<20).map { hash[$0] } == bytes)
    var output: [UInt8] = []
    output.append(hash)
    #expect(output == bytes)
    #expect(TopicHash(Array(bytes.dropLast()).span) == nil && TopicHash((bytes + [21]).span) == nil)
    for index in 0..<20 {
      var changed = bytes
      changed[index] ^= 0x80
      #expect(TopicHash(changed.span) != hash)
    }
  }
}

@Suite("JSON trees")
struct JSONTests {
  private func parse(_ text: String) throws(JSONFault) -> JSONValue {
    try JSONValue(parsing: Array(text.utf8).span)
  }

  @Test("Every kind of value is read")
  func kinds() throws {
    let tree = try parse(
      #" {"n":null,"t":true,"f":false,"i":-12,"d":1.5e1,"s":"a\u00e9\n","a":[1,[]],"o":{"x":{}}} "#)
    #expect(tree["n"] == .null && tree["t"]?.bool == true && tree["f"]?.bool == false)
    #expect(tree["i"]?.integer == -12 && tree["d"]?.number == 15 && tree["d"]?.integer == 15)
    #expect(tree["s"]?.string == "aé\n")
    #expect(tree["a"]?.array == [.integer(1), .array([])])
    #expect(tree["o"]?["x"]?.object == JSONObject() && tree["missing"] == nil)
    #expect(tree["s"]?["x"] == nil && tree["s"]?.integer == nil && tree["i"]?.string == nil)
  }

  @Test("A single value is a complete text", arguments: ["null", "true", "0", "\"\"", "[]"])
  func scalars(text spelling: String) throws {
    #expect(text(try parse(spelling).bytes) == spelling)
  }

  @Test("Numbers that do not fit an integer become floating-point")
  func numbers() throws {
    #expect(try parse("9223372036854775807") == .integer(Int64.max))
    #expect(try parse("9223372036854775808") == .number(9_223_372_036_854_775_808))
    #expect(try parse("0.1") == .number(0.1))
    #expect(try parse("1e400") == .number(.infinity))
    #expect(text(try parse("[1e400,0.1,1e20]").bytes) == "[null,0.1,1e+20]")
  }

  @Test(
    "Escapes are decoded, surrogates in pairs",
    arguments: [
      (#""\ud83d\ude00""#, "😀"), (#""\ud83dx""#, "\u{fffd}x"), (#""\ude00""#, "\u{fffd}"),
      (#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"), (#""\ud83d\n""#, "\u{fffd}\n"),
      (#""\"\\\/\b\f\n\r\t\u0000""#, "\"\\/\u{8}\u{c}\n\r\t\0"),
    ])
  func escapes(spelling: String, expected: String) throws {
    #expect(try parse(spelling) == .string(expected))
  }

  @Test(
    "Faults report what is wrong and where",
    arguments: [
      ("", .empty), (" ", .empty), ("[", .truncated), ("[1", .truncated), ("{\"a\":1", .truncated),
      ("\"", .truncated), ("nul", .truncated), ("-", .truncated),
      ("[]]", .trailingBytes(offset: 2)),
      ("[1,]", .badToken(offset: 3)), ("{\"a\":1,}", .badToken(offset: 7)),
      ("{a:1}", .badToken(offset: 1)), ("01", .trailingBytes(offset: 1)),
      ("\"\\ud83d\\uzzzz\"", .badToken(offset: 9)), ("\"\\q\"", .badToken(offset: 2)),
      ("\"\u{1}\"", .badToken(offset: 1)),
    ] as [(String, JSONFault)])
  func faults(spelling: String, expected: JSONFault) {
    #expect(throws: expected) { try parse(spelling) }
  }

  @Test("Bytes that are not UTF-8 are rejected at their offset")
  func badUTF8() {
    #expect(throws: JSONFault.badUTF8(offset: 4)) {
      try JSONValue(parsing: (Array(#""é\n"#.utf8).dropLast(2) + hex("62 ff 22")).span)
    }
  }

  @Test("The depth is bounded")
  func depth() throws {
    let deepest = String(repeating: "[", count: Limits.payloadDepth)
    _ = try parse(deepest + String(repeating: "]", count: Limits.payloadDepth))
    #expect(throws: JSONFault.tooDeep(offset: Limits.payloadDepth)) { try parse(deepest + "[") }
  }

  @Test("The last of repeated keys counts, and all are kept")
  func repeated() throws {
    let tree = try parse(#"{"a":1,"b":2,"a":3}"#)
    #expect(tree["a"]?.integer == 3)
    #expect(text(tree.bytes) == #"{"a":1,"b":2,"a":3}"#)
  }

  @Test("The writer escapes what it must, and inserts the commas")
  func writer() {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("reason")
    writer.string("a\"b\\c\n\r\t\u{1}\u{1f}é😀/")
    writer.key("list")
    writer.beginArray()
    writer.integer(-1)
    writer.beginObject()
    writer.endObject()
    writer.bool(true)
    writer.null()
    writer.number(.nan)
    writer.number(2.5)
    writer.beginArray()
    writer.endArray()
    writer.endArray()
    writer.key("")
    writer.value(.object(JSONObject([JSONObject.Member(key: "k", value: .string(""))])))
    writer.endObject()
    #expect(
      text(writer.bytes)
        == #"{"reason":"a\"b\\c\n\r\t\u0001\u001fé😀/","list":[-1,{},true,null,null,2.5,[]],"":{"k":""}}"#
    )
  }
}
