import ApusRandom
import ApusModel
import ApusTesting
import Testing

@testable import ApusHTTP2

@Suite("Header blocks of requests")
struct HeaderEncoderTests {
  private func list(_ fields: [(HeaderName, String)]) -> HTTP2FieldList {
    var list = HTTP2FieldList()
    for (name, value) in fields { list.add(name, value: Array(value.utf8).span) }
    return list
  }

  private func block(_ encoder: inout HeaderEncoder, _ fields: [(HeaderName, String)]) -> [UInt8] {
    let list = list(fields)
    let room = encoder.room(list)
    return [UInt8](unsafeUninitializedCapacity: room) { memory, count in
      guard let base = memory.baseAddress else { return }
      var writer = HeaderWriter(at: base, room: room)
      encoder.encode(list, into: &writer)
      count = writer.count
    }
  }

  private func share(
    _ encoder: inout HeaderEncoder, _ authority: String, _ authorization: String = ""
  ) {
    encoder.share(authority: Array(authority.utf8).span, authorization: Array(authorization.utf8))
  }

  /// RFC 7541, section 5.2, without Huffman coding, up to 126 bytes.
  private func string(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }

  @Test("A repeated value is encoded once, and a path never enters the table")
  func table() {
    var encoder = HeaderEncoder()
    share(&encoder, "push.example")
    let path = [0x14] + string("/3/device/ab")
    let first = block(&encoder, [(.path, "/3/device/ab"), (.apnsTopic, "com.example")])
    #expect(
      first == [0x83, 0x87, 0x41] + string("push.example") + path + [0x40] + string("apns-topic")
        + string("com.example"))
    // 62 is the newest entry, 63 the previous one.
    let second = block(&encoder, [(.path, "/3/device/ab"), (.apnsTopic, "com.example")])
    #expect(second == [0x83, 0x87, 0xbf] + path + [0xbe])
    // Another value uses the name from there.
    let third = block(&encoder, [(.path, "/3/device/ab"), (.apnsTopic, "com.other")])
    #expect(third == [0x83, 0x87, 0xbf] + path + [0x7e] + string("com.other"))
    let fourth = block(&encoder, [(.path, "/3/device/ab"), (.apnsTopic, "com.other")])
    #expect(fourth == [0x83, 0x87, 0xc0] + path + [0xbe])
  }

  @Test("Ids, and values too long for the table, are never indexed")
  func literals() {
    var encoder = HeaderEncoder()
    let id = "01234567-89ab-cdef-0000-000000000001"
    let long = String(repeating: "x", count: 129)
    for _ in 0..<2 {
      #expect(block(&encoder, [(.apnsID, id)]) == [0x10] + string("apns-id") + string(id))
      // 129 with a prefix of 7 bits: 127 and 2.
      #expect(
        block(&encoder, [(.apnsTopic, long)])
          == [0x00] + string("apns-topic") + [0x7f, 0x02] + Array(long.utf8))
    }
  }

  @Test("A provider token is Huffman-coded, once, and never indexed")
  func authorization() throws {
    var encoder = HeaderEncoder()
    // RFC 7541, appendix C.4.1 has the code of `www.example.com`.
    share(&encoder, "a", "www.example.com")
    let code: [UInt8] = [
      0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
    ]
    #expect(block(&encoder, [(.path, "/")]).suffix(15) == [0x1f, 0x08] + code)
    #expect(block(&encoder, [(.path, "/")]).suffix(15) == [0x1f, 0x08] + code)
    share(&encoder, "a")
    #expect(block(&encoder, [(.path, "/")]) == [0x83, 0x87, 0xbe, 0x14, 1, 0x2f])
  }

  @Test(
    "A smaller table and a brief size of 0 are acknowledged at the start of the next block")
  func capacity() {
    var encoder = HeaderEncoder()
    let topic: [(HeaderName, String)] = [(.apnsTopic, "com.example")]
    let literal = string("apns-topic") + string("com.example")
    #expect(block(&encoder, topic) == [0x40] + literal)
    encoder.setTableCapacity(0)
    #expect(block(&encoder, topic) == [0x20, 0x00] + literal)
    #expect(block(&encoder, topic) == [0x00] + literal)
    // 100 with a prefix of 5 bits: 31 and 69.
    encoder.setTableCapacity(100)
    #expect(block(&encoder, topic) == [0x20, 0x3f, 69, 0x40] + literal)
    #expect(block(&encoder, topic) == [0xbe])
    encoder.setTableCapacity(0)
    encoder.setTableCapacity(1 << 20)
    // 4,096 is the most that is used: 31, and 4,065 in two times 7 bits.
    #expect(block(&encoder, topic) == [0x20, 0x3f, 0xe1, 0x1f, 0x40] + literal)
  }

  @Test("Everything sent is read unchanged, with tables of changing sizes", arguments: 0..<12)
  func walk(round: Int) throws {
    let seed = UInt64.random(in: 0...UInt64.max)
    var random = SeededRandom(seed: seed)
    var encoder = HeaderEncoder()
    var decoder = HPACKDecoder()
    let names: [HeaderName] = [
      .path, .apnsID, .apnsTopic, .apnsPriority, .apnsExpiration, .apnsCollapseID, .contentType,
    ]
    share(&encoder, "push.example", "bearer a.b-c_d")
    for step in 0..<400 {
      if random.chance(1, in: 12) {
        encoder.setTableCapacity([0, 60, 200, 500, 4096, 9000][random.below(6)])
      }
      if random.chance(1, in: 40) { share(&encoder, "\(random.below(3)).example", "bearer x") }
      var fields: [(HeaderName, String)] = []
      for name in names where random.chance(2, in: 3) {
        let length = random.chance(1, in: 10) ? random.below(400) : random.below(30)
        let letter = ["a", "b", "c"][random.below(3)]
        fields.append((name, String(repeating: letter, count: length)))
      }
      let read = try decoder.decode(block(&encoder, fields)).map { "\($0)" }
      let texts = fields.map { "\($0.0.text.description): \($0.1)" }
      let lead = read.prefix(3).map { $0.prefix { $0 != " " } }
      #expect(lead == [":method:", ":scheme:", ":authority:"], "seed \(seed), step \(step)")
      #expect(
        Array(read.dropFirst(3).dropLast()) == texts, "seed \(seed), step \(step)")
    }
  }
}
