import Testing

@testable import ApusTrust

@Suite("JSON of a token's header and claims")
struct FlatObjectTests {
  @Test(
    "Text that RFC 8259 does not allow is rejected",
    arguments: [
      "", " ", "[]", "1", "{", "{}{}", "{} x", "{,}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
      "{a:1}", "{'a':1}", "{\"a\":01}", "{\"a\":1.}", "{\"a\":.5}", "{\"a\":+1}", "{\"a\":1e}",
      "{\"a\":-}", "{\"a\":tru}", "{\"a\":nul", "{\"a\":\"\n\"}", "{\"a\":\"\\x\"}",
      "{\"a\":\"\\u12g4\"}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\udc00\"}", "{\"a\":\"b}",
      "{\"a\":\"\\ud800\\u0041\"}", "{\"a\":[1,]}", "{\"a\":[1}", "{\"a\":{\"b\"}}",
      "{\"a\":1 \"b\":2}", "\u{feff}{}",
    ])
  func refused(text: String) {
    let bytes = Array(text.utf8)
    let fault = #expect(throws: FlatObjectFault.self) { try FlatObject.parse(bytes.span) }
    guard case .syntax = fault else {
      Issue.record("\(String(describing: fault))")
      return
    }
  }

  @Test("Strings are unescaped, numbers kept as spelled, and other values skipped")
  func values() throws {
    let text =
      #"{"s":"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00","n":-12.5e+3,"o":{"x":[null,{}]},"z":0}"#
    let object = try FlatObject.parse(Array(text.utf8).span)
    #expect(
      object.members == [
        .init(name: "s", value: .string("a\"\\/\u{8}\u{c}\n\r\té😀")),
        .init(name: "n", value: .number("-12.5e+3")),
        .init(name: "o", value: .other),
        .init(name: "z", value: .number("0")),
      ])
  }

  @Test("Depth and count are bounded")
  func bounds() {
    func parse(_ text: String) throws(FlatObjectFault) {
      _ = try FlatObject.parse(Array(text.utf8).span)
    }
    func nested(_ depth: Int) -> String {
      "{\"a\":" + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}"
    }
    let deepest = FlatObject.depthLimit - 1
    #expect(throws: Never.self) { try parse(nested(deepest)) }
    #expect(throws: FlatObjectFault.tooDeep(at: 5 + deepest)) { try parse(nested(deepest + 1)) }
    func wide(_ count: Int) -> String {
      "{" + (0..<count).map { "\"a\($0)\":1" }.joined(separator: ",") + "}"
    }
    #expect(throws: Never.self) { try parse(wide(FlatObject.memberLimit)) }
    #expect(throws: FlatObjectFault.tooManyMembers) { try parse(wide(FlatObject.memberLimit + 1)) }
  }
}

@Suite("Topics extension of provider certificates")
struct TopicsExtensionTests {
  /// The value in pushy's test certificate.
  static let pushy = Fixtures.hex(
    """
    3073
    0C14 636F6D2E656174746865706174682E7075736879
    3005 0C03 617070
    0C19 636F6D2E656174746865706174682E70757368792E766F6970
    3006 0C04 766F6970
    0C21 636F6D2E656174746865706174682E70757368792E636F6D706C69636174696F6E
    300E 0C0C 636F6D706C69636174696F6E
    """)

  @Test("The value in a certificate in use is read, and written identically")
  func pushy() throws {
    #expect(Self.pushy.count == 117)
    let topics = try TopicsExtension.parse(Self.pushy.span)
    #expect(
      topics.entries == [
        .init(topic: "com.eatthepath.pushy", labels: ["app"]),
        .init(topic: "com.eatthepath.pushy.voip", labels: ["voip"]),
        .init(topic: "com.eatthepath.pushy.complication", labels: ["complication"]),
      ])
    #expect(topics.der == Self.pushy)
  }

  @Test("A list may have no topics, and a topic two labels")
  func small() throws {
    #expect(try TopicsExtension.parse([0x30, 0]).entries == [])
    let two = Fixtures.hex("300b 0C0161 3006 0C0162 0C0163")
    #expect(
      try TopicsExtension.parse(two).entries == [.init(topic: "a", labels: ["b", "c"])])
  }

  @Test(
    "A value that is not strict DER of this form is rejected",
    arguments: [
      ("", .der(.truncated(at: 0))),
      ("0500", .der(.tag(expected: 0x30, found: 0x05, at: 0))),
      ("3000 00", .der(.trailing(at: 2))),
      ("3080 0000", .der(.lengthForm(at: 1))),
      ("308100", .der(.lengthForm(at: 1))),
      ("30820001 00", .der(.lengthForm(at: 1))),
      ("3084 00000000", .der(.lengthForm(at: 1))),
      ("30ff", .der(.lengthForm(at: 1))),
      ("3001", .der(.truncated(at: 2))),
      ("3003 0C0161", .der(.truncated(at: 5))),
      ("3005 0C0161 3000", .der(.truncated(at: 7))),
      ("3008 0C0161 3003 0C0262", .der(.truncated(at: 9))),
      ("3008 130161 3003 0C0162", .der(.tag(expected: 0x0c, found: 0x13, at: 2))),
      ("3008 0C0161 3103 0C0162", .der(.tag(expected: 0x30, found: 0x31, at: 5))),
      ("3007 0C00 3003 0C0162", .text(at: 4)),
      ("3008 0C0100 3003 0C0162", .text(at: 4)),
      ("3008 0C01FF 3003 0C0162", .text(at: 4)),
      ("3007 0C0161 3002 0C00", .text(at: 9)),
    ] as [(String, TopicsExtensionFault)])
  func refused(hex: String, expected: TopicsExtensionFault) {
    let bytes = Fixtures.hex(hex)
    #expect(throws: expected) { try TopicsExtension.parse(bytes.span) }
  }

  @Test("Topics, labels and their lengths are bounded")
  func bounds() throws {
    func value(topics: Int, labels: Int = 1, topicBytes: Int = 1, labelBytes: Int = 1) -> [UInt8] {
      let entry = TopicsExtension.Entry(
        topic: String(repeating: "t", count: topicBytes),
        labels: Array(repeating: String(repeating: "l", count: labelBytes), count: labels))
      return TopicsExtension(entries: Array(repeating: entry, count: topics)).der
    }
    func read(_ bytes: [UInt8]) throws(TopicsExtensionFault) -> Int {
      try TopicsExtension.parse(bytes.span).entries.count
    }
    #expect(try read(value(topics: 1000, topicBytes: 280, labelBytes: 64)) == 1000)
    #expect(throws: TopicsExtensionFault.tooMany) { try read(value(topics: 1001)) }
    #expect(try read(value(topics: 1, labels: 8)) == 1)
    #expect(throws: TopicsExtensionFault.tooMany) { try read(value(topics: 1, labels: 9)) }
    #expect(throws: TopicsExtensionFault.self) { try read(value(topics: 1, topicBytes: 281)) }
    #expect(throws: TopicsExtensionFault.self) { try read(value(topics: 1, labelBytes: 65)) }
  }

  @Test("No prefix of a value is valid, and no changed byte makes the reader trap")
  func damage() {
    for count in 0..<Self.pushy.count {
      let cut = Array(Self.pushy[..<count])
      #expect(throws: TopicsExtensionFault.self) { try TopicsExtension.parse(cut.span) }
    }
    for index in Self.pushy.indices {
      for value in UInt8.min...UInt8.max {
        var changed = Self.pushy
        changed[index] = value
        // Everything accepted is written back unchanged: each list has one encoding.
        if let topics = try? TopicsExtension.parse(changed.span) { #expect(topics.der == changed) }
      }
    }
  }
}

@Suite("DER encoding")
struct DERTests {
  @Test(
    "Times are UTCTime from 1950 to 2049 and GeneralizedTime outside",
    arguments: [
      (0, "700101000000Z", 0x17), (951_782_400, "000229000000Z", 0x17),
      (1_700_000_000, "231114221320Z", 0x17), (2_524_607_999, "491231235959Z", 0x17),
      (2_524_608_000, "20500101000000Z", 0x18), (-631_152_000, "500101000000Z", 0x17),
      (-631_152_001, "19491231235959Z", 0x18), (4_107_542_400, "21000301000000Z", 0x18),
      (253_402_300_799, "99991231235959Z", 0x18),
    ] as [(Int64, String, UInt8)])
  func times(seconds: Int64, text: String, tag: UInt8) {
    #expect(DER.time(seconds) == [tag, UInt8(text.utf8.count)] + Array(text.utf8))
  }

  @Test("Object identifiers, numbers and named bits are in their shortest form")
  func primitives() {
    #expect(OID.pushTopics.der == Fixtures.hex("060A 2A864886F763640603 06"))
    #expect(OID.userID.der == Fixtures.hex("060A 0992268993F22C640101"))
    #expect(DER.integer([0]) == [2, 1, 0])
    #expect(DER.integer([0, 0, 0x7f]) == [2, 1, 0x7f])
    #expect(DER.integer([0x80]) == [2, 2, 0, 0x80])
    #expect(DER.namedBits(0x06) == [3, 2, 1, 0x06])
    #expect(DER.namedBits(0x80) == [3, 2, 7, 0x80])
  }

  @Test("A signature has one DER encoding")
  func signatures() throws {
    let one = Fixtures.hex("3006 020101 020102")
    let signature = try #require(ECDSASignature(der: one))
    #expect(
      signature.raw == [UInt8](repeating: 0, count: 31) + [1]
        + [UInt8](repeating: 0, count: 31) + [2])
    #expect(signature.der == one)
    #expect(ECDSASignature(raw: signature.raw) == signature)
    for wrong in [
      "3006 020101 0201FF", "3007 02020001 020102", "3006 020101 020102 00", "308106 020101 020102",
      "3003 020101", "3005 0200 020102", "3009 020101 020102 020103", "3006 030101 020102", "",
    ] {
      let bytes = Fixtures.hex(wrong)
      #expect(ECDSASignature(der: bytes) == nil, "\(wrong)")
    }
    let wide = Fixtures.hex(
      "3026 0221 01" + String(repeating: "00", count: 32) + "020102")
    #expect(ECDSASignature(der: wide) == nil)
  }
}
