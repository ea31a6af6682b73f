import ApusModel
import Testing

@testable import ApusHTTP2

/// A field as text, for comparing.
struct TextField: Equatable, CustomStringConvertible {
  var name: String
  var value: String

  init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }

  var description: String { "\(name): \(value)" }
}

/// All fields of a block; nil for a damaged one.
func decode(_ block: [UInt8], _ decoder: HeaderDecoder) -> [TextField]? {
  block.withUnsafeBufferPointer { bytes in
    var fields: [TextField] = []
    var offset = 0
    do {
      while try decoder.next(bytes, at: &offset) {
        fields.append(TextField(decoder.field.name.text, decoder.field.value.text))
      }
    } catch { return nil }
    return fields
  }
}

func bytes(_ hex: String) -> [UInt8] {
  let digits = hex.filter { !$0.isWhitespace }.map { UInt8($0.hexDigitValue ?? 0) }
  return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

@Suite("Header blocks of RFC 7541")
struct HeaderDecoderTests {
  private func decoder() -> HeaderDecoder { HeaderDecoder(texts: HeaderTexts()) }

  @Test(
    "Single representations of appendix C.2 are decoded",
    arguments: [
      (
        "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
        TextField("custom-key", "custom-header")
      ),
      ("040c 2f73 616d 706c 652f 7061 7468", TextField(":path", "/sample/path")),
      ("1008 7061 7373 776f 7264 0673 6563 7265 74", TextField("password", "secret")),
      ("82", TextField(":method", "GET")),
    ])
  func representation(hex: String, field: TextField) {
    #expect(decode(bytes(hex), decoder()) == [field])
  }

  /// Three requests on one connection: later ones use table entries of earlier ones.
  private static let requests = [
    [
      TextField(":method", "GET"), TextField(":scheme", "http"), TextField(":path", "/"),
      TextField(":authority", "www.example.com"),
    ],
    [
      TextField(":method", "GET"), TextField(":scheme", "http"), TextField(":path", "/"),
      TextField(":authority", "www.example.com"), TextField("cache-control", "no-cache"),
    ],
    [
      TextField(":method", "GET"), TextField(":scheme", "https"),
      TextField(":path", "/index.html"), TextField(":authority", "www.example.com"),
      TextField("custom-key", "custom-value"),
    ],
  ]

  @Test(
    "The consecutive requests of appendices C.3 and C.4 are decoded",
    arguments: [
      [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
      ],
      [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
      ],
    ])
  func requests(blocks: [String]) {
    let decoder = decoder()
    for (block, fields) in zip(blocks, Self.requests) {
      #expect(decode(bytes(block), decoder) == fields)
    }
  }

  private static let date = "Mon, 21 Oct 2013 20:13:21 GMT"
  private static let cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"

  @Test(
    "A table of 256 bytes evicts its oldest entries as in appendices C.5 and C.6",
    arguments: [
      [
        """
        4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
        2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
        6c65 2e63 6f6d
        """, "4803 3330 37c1 c0bf",
        """
        88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
        54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
        5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
        3d31
        """,
      ],
      [
        """
        4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
        2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3
        """, "4883 640e ffc1 c0bf",
        """
        88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
        77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
        9587 3160 65c0 03ed 4ee5 b106 3d50 07
        """,
      ],
    ])
  func eviction(blocks: [String]) {
    let decoder = decoder()
    let location = TextField("location", "https://www.example.com")
    let expected = [
      [
        TextField(":status", "302"), TextField("cache-control", "private"),
        TextField("date", Self.date), location,
      ],
      [
        TextField(":status", "307"), TextField("cache-control", "private"),
        TextField("date", Self.date), location,
      ],
      [
        TextField(":status", "200"), TextField("cache-control", "private"),
        TextField("date", "Mon, 21 Oct 2013 20:13:22 GMT"), location,
        TextField("content-encoding", "gzip"), TextField("set-cookie", Self.cookie),
      ],
    ]
    // Section 6.3: 256 is 31 + 225, and 225 is 0xe1 0x01.
    for (index, block) in blocks.enumerated() {
      let update: [UInt8] = index == 0 ? [0x3f, 0xe1, 0x01] : []
      #expect(decode(update + bytes(block), decoder) == expected[index])
    }
    // Evicted entries are gone: the table has three entries (C.5.3).
    #expect(decode([0x80 | 65], decoder) == nil)
  }

  @Test("An entry larger than the table empties it, but is still a field (section 4.4)")
  func largeEntry() {
    let decoder = decoder()
    #expect(decode(bytes("4001 6101 62"), decoder)?.count == 1)
    #expect(decode([0xbe], decoder) == [TextField("a", "b")])
    // A name of one byte and a value of 4,064: 4,097 bytes. 4,064 is 127 + 3,937, 0xe1 0x1e.
    let value = String(repeating: "v", count: 4064)
    let large: [UInt8] = [0x40, 1, 0x78, 127, 0xe1, 0x1e] + Array(value.utf8)
    #expect(decode(large, decoder) == [TextField("x", value)])
    #expect(decode([0xbe], decoder) == nil)
  }

  @Test("A field may be named by the entry that it evicts")
  func namedByTheOldest() {
    let decoder = decoder()
    // 4,096 bytes: the whole table.
    let value = String(repeating: "v", count: 4063)
    let large: [UInt8] = [0x40, 1, 0x78, 127, 0xe0, 0x1e] + Array(value.utf8)
    #expect(decode(large, decoder) == [TextField("x", value)])
    #expect(decode([0x7e, 1, 0x62], decoder) == [TextField("x", "b")])
    #expect(decode([0xbe], decoder) == [TextField("x", "b")])
    #expect(decode([0xbf], decoder) == nil)
  }

  @Test(
    "A damaged block is rejected",
    arguments: [
      ("index 0", "80"), ("an index behind both tables", "be"), ("an index without end", "ff"),
      ("an index of 36 bits", "ff ff ff ff ff 7f"), ("a literal without a name", "40"),
      ("a name that is longer than the block", "40 05 61"),
      ("a value that is missing", "40 01 61"), ("a literal named by nobody", "7e 01 61"),
      ("a table of 4,097 bytes", "3f e2 1f"), ("a change of the table behind a field", "82 20"),
      // `a` is 00011.
      ("padding of zeros", "40 01 61 81 18"), ("padding of eight bits", "40 01 61 82 1f ff"),
      ("EOS in a text", "40 01 61 84 ff ff ff ff"), ("an empty code of ones", "40 01 61 81 ff"),
    ])
  func damaged(what: String, hex: String) {
    #expect(decode(bytes(hex), decoder()) == nil)
  }

  @Test("Huffman codes need the right padding")
  func padding() {
    #expect(decode(bytes("40 01 61 81 1f"), decoder()) == [TextField("a", "a")])
    #expect(decode(bytes("40 01 61 80"), decoder()) == [TextField("a", "")])
  }

  @Test("Up to two changes of the table's size may come first (section 4.2)")
  func sizeChanges() {
    let decoder = decoder()
    #expect(decode(bytes("4001 6101 62"), decoder)?.count == 1)
    #expect(decode(bytes("20 3f e1 1f 82"), decoder) == [TextField(":method", "GET")])
    #expect(decode([0xbe], decoder) == nil)
  }
}
