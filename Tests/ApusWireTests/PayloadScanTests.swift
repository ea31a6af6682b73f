import ApusRandom
import ApusModel
import Foundation
import Testing

import ApusWire

@Suite("Payload scan")
struct PayloadScanTests {
  private func scan(_ text: String) throws(JSONFault) -> PayloadScan {
    try PayloadScan(Array(text.utf8).span)
  }

  private func fault(_ bytes: [UInt8]) -> JSONFault? {
    do throws(JSONFault) {
      _ = try PayloadScan(bytes.span)
      return nil
    } catch {
      return error
    }
  }

  @Test("The scan summarises aps")
  func summary() throws {
    let alert = try scan(#"{"aps":{"alert":{"title":"a","body":"b"},"badge":9,"sound":"x"}}"#)
    #expect(alert.hasAPS && alert.hasAlert && alert.hasBadge && alert.hasSound)
    #expect(!alert.contentAvailable && !alert.onlyContentAvailable && !alert.hasMDM)

    let background = try scan(#"{"aps":{"content-available":1},"k":[{"aps":{"alert":1}}]}"#)
    #expect(background.hasAPS && background.contentAvailable && background.onlyContentAvailable)

    let both = try scan(#"{"aps":{"content-available":1,"alert":"a"}}"#)
    #expect(both.contentAvailable && !both.onlyContentAvailable)

    let mdm = try scan(#"{"mdm":"3A0B1D4E-PushMagic"}"#)
    #expect(mdm.hasMDM && !mdm.hasAPS)
  }

  @Test(
    "The scan tells whether there is an object aps",
    arguments: [
      (#"{"aps":{}}"#, true),
      (" \t\r\n{ \"aps\" : { } } \n", true),
      (#"{"\u0061ps":{}}"#, true),
      (#"{"a\u0070\u0073":{}}"#, true),
      (#"{"aps":{},"x":{"aps":1}}"#, true),
      (#"{"aps":1,"aps":{}}"#, true),
      (#"{"aps":{},"aps":1}"#, false),
      (#"{"aps":[]}"#, false),
      (#"{"aps":null}"#, false),
      (#"{"aps":"aps"}"#, false),
      (#"{"APS":{}}"#, false),
      (#"{"aps ":{}}"#, false),
      (#"{"\u0061p":{}}"#, false),
      (#"{"\u0161ps":{}}"#, false),
      (#"{"\naps":{}}"#, false),
      (#"{"apsx":{},"ap":{}}"#, false),
      (#"{"x":{"aps":{}}}"#, false),
      (#"{"x":[{"aps":{}}]}"#, false),
      ("{}", false),
    ])
  func object(text: String, expected: Bool) throws {
    #expect(try scan(text).hasAPS == expected)
  }

  @Test("If aps repeats, only the last one counts")
  func repeated() throws {
    let found = try scan(
      #"{"mdm":"m","aps":{"alert":"a","badge":1,"content-available":1},"aps":{"sound":"s"}}"#)
    #expect(found.hasAPS && found.hasSound && found.hasMDM)
    #expect(!found.hasAlert && !found.hasBadge && !found.contentAvailable)
  }

  @Test(
    "content-available counts only as the number 1",
    arguments: [
      ("1", true), ("1.0", true), ("1.000", true), ("1e0", true), ("10E-1", true), ("0", false),
      ("10", false), ("1.5", false),
      ("-1", false), ("11", false), ("1e1", false), ("true", false), ("\"1\"", false),
      ("[1]", false), ("null", false), ("0,\"content-available\":1", true),
      ("1,\"content-available\":0", false),
    ])
  func contentAvailable(value: String, expected: Bool) throws {
    #expect(try scan(#"{"aps":{"content-available":\#(value)}}"#).contentAvailable == expected)
    let escaped = #"{"aps":{"content\u002davailable":\#(value)}}"#
    #expect(try scan(escaped).contentAvailable == expected || value.contains(","))
  }

  @Test("Null counts as absent, and keys of nested objects do not count")
  func absent() throws {
    let found = try scan(
      #"{"aps":{"alert":null,"badge":null,"x":{"sound":"s","content-available":1}},"mdm":null}"#)
    #expect(found.hasAPS)
    #expect(!found.hasAlert && !found.hasBadge && !found.hasSound && !found.contentAvailable)
    #expect(!found.hasMDM)
    #expect(try scan(#"{"aps":{"\u0061lert":{},"b\u0061dge":0,"soun\u0064":""}}"#).hasAlert)
  }

  @Test(
    "Faults report what is wrong and where",
    arguments: [
      ("", .empty), (" \n", .empty),
      ("[]", .notObject), ("1", .notObject), ("x", .notObject), ("\u{feff}{}", .notObject),
      ("{", .truncated), ("{\"a", .truncated), ("{\"a\"", .truncated), ("{\"a\":", .truncated),
      ("{\"a\":1", .truncated), ("{\"a\":-", .truncated), ("{\"a\":1.", .truncated),
      ("{\"a\":1e", .truncated), ("{\"a\":1e+", .truncated), ("{\"a\":tru", .truncated),
      ("{\"a\":[", .truncated), ("{\"a\":[1", .truncated), ("{\"a\\", .truncated),
      ("{\"a\\u00", .truncated), ("{\"a\":1,", .truncated),
      ("{}x", .trailingBytes(offset: 2)), ("{} {}", .trailingBytes(offset: 3)),
      ("{a:1}", .badToken(offset: 1)), ("{1:1}", .badToken(offset: 1)),
      ("{,}", .badToken(offset: 1)), ("{\"a\" 1}", .badToken(offset: 5)),
      ("{\"a\":}", .badToken(offset: 5)), ("{\"a\":1,}", .badToken(offset: 7)),
      ("{\"a\":1]", .badToken(offset: 6)), ("{\"a\":[1}", .badToken(offset: 7)),
      ("{\"a\":[1,]}", .badToken(offset: 8)), ("{\"a\":[,1]}", .badToken(offset: 6)),
      ("{\"a\":01}", .badToken(offset: 6)), ("{\"a\":+1}", .badToken(offset: 5)),
      ("{\"a\":.5}", .badToken(offset: 5)), ("{\"a\":1.e1}", .badToken(offset: 7)),
      ("{\"a\":--1}", .badToken(offset: 6)), ("{\"a\":1e+x}", .badToken(offset: 8)),
      ("{\"a\":NaN}", .badToken(offset: 5)), ("{\"a\":nul1}", .badToken(offset: 8)),
      ("{\"a\":True}", .badToken(offset: 5)), ("{\"a\":truex}", .badToken(offset: 9)),
      ("{\"a\":'b'}", .badToken(offset: 5)), ("{\"a\":\"\t\"}", .badToken(offset: 6)),
      ("{\"a\":\"\\x\"}", .badToken(offset: 7)), ("{\"a\":\"\\u12g4\"}", .badToken(offset: 10)),
      ("{\"a\":\"\\U0041\"}", .badToken(offset: 7)), ("{/**/}", .badToken(offset: 1)),
    ] as [(String, JSONFault)])
  func faults(text: String, expected: JSONFault) {
    #expect(fault(Array(text.utf8)) == expected)
  }

  @Test(
    "Everything that the grammar allows is accepted",
    arguments: [
      #"{"a":-0,"b":0.0,"c":1E5,"d":1e-5,"e":-1.5e+10,"f":1234567890123456789012345678901234567890}"#,
      #"{"":"","a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}"#,
      #"{"lone":"\ud800","lone2":"\udc00\ud800x"}"#,
      #"{"a":[[],{},[[1,2],{"b":[true,false,null]}]]}"#,
      "{\"text\":\"\u{7f}\u{80}é€😀\u{10ffff}\u{d7ff}\u{e000}\"}",
      "\r\n\t { \"a\"\t:\r[\n1 , 2 ] , \"b\" : { } } ",
    ])
  func accepted(text: String) {
    #expect(fault(Array(text.utf8)) == nil)
  }

  @Test(
    "UTF-8 is checked against RFC 3629, section 4",
    arguments: [
      "80", "bf", "c0 80", "c1 bf", "c2 41", "e0 9f bf", "e0 a0 41", "e1 80 c0", "ed a0 80",
      "ef 41 80", "f0 8f bf bf", "f0 90 80 41", "f4 90 80 80", "f5 80 80 80", "ff", "fe",
    ])
  func badUTF8(sequence: String) {
    for padding in 0...17 {
      let head = Array("{\"a\":\"".utf8) + [UInt8](repeating: 0x78, count: padding)
      let found = fault(head + hex(sequence) + Array("          \"}".utf8))
      #expect(found == .badUTF8(offset: 6 + padding))
    }
    // Outside a string it is not a token at all.
    #expect(fault(Array("{".utf8) + hex(sequence)) == .badToken(offset: 1))
  }

  @Test("The depth of objects and arrays is bounded")
  func depth() {
    // The scan keeps a bit for each level in one word.
    #expect(Limits.payloadDepth <= 64)
    func nested(_ depth: Int) -> [UInt8] {
      Array(
        ("{\"a\":" + String(repeating: "[", count: depth - 1)
          + String(repeating: "]", count: depth - 1) + "}").utf8)
    }
    func objects(_ depth: Int) -> [UInt8] {
      Array(
        (String(repeating: "{\"a\":", count: depth - 1) + "{}"
          + String(repeating: "}", count: depth - 1)).utf8)
    }
    #expect(fault(nested(Limits.payloadDepth + 1)) == .tooDeep(offset: 5 + Limits.payloadDepth - 1))
    #expect(fault(objects(Limits.payloadDepth)) == nil)
    #expect(fault(objects(Limits.payloadDepth + 1)) == .tooDeep(offset: 5 * Limits.payloadDepth))
  }

  @Test("Mixed nesting closes with the brackets that opened it")
  func mixed() {
    #expect(fault(Array(#"{"a":[{"b":[{"c":[]}]}]}"#.utf8)) == nil)
    #expect(fault(Array(#"{"a":[{"b":[{"c":[}]]}]}"#.utf8)) == .badToken(offset: 18))
    #expect(fault(Array(#"{"a":[{"b":[{"c":[]]}]}"#.utf8)) == .badToken(offset: 19))
  }

  @Test("Every truncated payload is detected, and a special byte is found at every position")
  func everyPosition() {
    let text = Array(
      #"{"aps":{"alert":"a text that is longer than two words of eight"},"n":1}"#.utf8)
    for cut in 1..<text.count { #expect(fault(Array(text[..<cut])) == .truncated, "\(cut)") }
    for index in 18..<62 {
      for (byte, expected) in [
        (0x1f as UInt8, JSONFault.badToken(offset: index)), (0x00, .badToken(offset: index)),
        (0x80, .badUTF8(offset: index)), (0xff, .badUTF8(offset: index)),
      ] {
        var changed = text
        changed[index] = byte
        #expect(fault(changed) == expected)
      }
      for byte: UInt8 in [0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f] {
        var changed = text
        changed[index] = byte
        #expect(fault(changed) == nil)
      }
    }
  }

  @Test("Mutated payloads are accepted exactly if Foundation accepts them")
  func againstFoundation() {
    // Foundation accepts a comma before a closing bracket, which the grammar does not allow.
    func hasTrailingComma(_ text: [UInt8]) -> Bool {
      let dense = text.filter { $0 != 0x20 }
      return zip(dense, dense.dropFirst()).contains { $0 == 0x2c && ($1 == 0x5d || $1 == 0x7d) }
    }
    let seed = UInt64.random(in: 0...UInt64.max)
    var random = SeededRandom(seed: seed)
    let base = Array(#"{"aps":{"alert":{"a":[1,-2.5e3,true,null]},"badge":0},"k":[{},[]]}"#.utf8)
    // No digit but 0: a larger exponent would exceed the range of a double, which Foundation rejects.
    let alphabet = Array(#"{}[]:,"0.-+eE truefalsn "#.utf8)
    for round in 0..<20000 {
      var text = base
      for _ in 0...Int(random.next() % 2) {
        let index = Int(random.next() % UInt64(text.count))
        switch random.next() % 3 {
        case 0: text[index] = alphabet[Int(random.next() % UInt64(alphabet.count))]
        case 1: text.remove(at: index)
        default: text.insert(alphabet[Int(random.next() % UInt64(alphabet.count))], at: index)
        }
      }
      let theirs = (try? JSONSerialization.jsonObject(with: Data(text))) is [String: Any]
      if hasTrailingComma(text) { continue }
      #expect(
        (fault(text) == nil) == theirs,
        "seed \(seed), round \(round): \(String(decoding: text, as: UTF8.self))")
    }
  }
}
