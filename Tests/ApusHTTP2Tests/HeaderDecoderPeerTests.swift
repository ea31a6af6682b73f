import ApusRandom
import CNGHTTP2
import Testing

@testable import ApusHTTP2

/// nghttp2's encoder and decoder: an independent implementation.
private final class Peer {
  private var deflater: OpaquePointer?
  private var inflater: OpaquePointer?

  init() {
    nghttp2_hd_deflate_new(&deflater, 4096)
    nghttp2_hd_inflate_new(&inflater)
  }

  deinit {
    nghttp2_hd_deflate_del(deflater)
    nghttp2_hd_inflate_del(inflater)
  }

  func setTable(_ bytes: Int) { nghttp2_hd_deflate_change_table_size(deflater, bytes) }

  func encode(_ fields: [(name: [UInt8], value: [UInt8], flags: UInt8)]) -> [UInt8] {
    var store = fields.flatMap { $0.name + $0.value }
    return store.withUnsafeMutableBufferPointer { store in
      var place = 0
      var list = fields.map { field in
        defer { place += field.name.count + field.value.count }
        return nghttp2_nv(
          name: store.baseAddress.map { $0 + place },
          value: store.baseAddress.map { $0 + place + field.name.count },
          namelen: field.name.count, valuelen: field.value.count, flags: field.flags)
      }
      let bound = nghttp2_hd_deflate_bound(deflater, &list, list.count)
      return [UInt8](unsafeUninitializedCapacity: bound) { output, count in
        count = max(
          0, nghttp2_hd_deflate_hd(deflater, output.baseAddress, bound, &list, list.count))
      }
    }
  }

  /// Nil for a damaged block.
  func decode(_ block: [UInt8]) -> [TextField]? {
    var fields: [TextField] = []
    var rest = block[...]
    while true {
      var field = nghttp2_nv()
      var flags: Int32 = 0
      let count = rest.withUnsafeBufferPointer {
        nghttp2_hd_inflate_hd2(inflater, &field, &flags, $0.baseAddress, $0.count, 1)
      }
      guard count >= 0 else { return nil }
      rest = rest.dropFirst(count)
      if flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
        fields.append(
          TextField(text(field.name, field.namelen), text(field.value, field.valuelen)))
      }
      if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 {
        nghttp2_hd_inflate_end_headers(inflater)
        return fields
      }
      if count == 0, rest.isEmpty { return fields }
    }
  }

  private func text(_ start: UnsafeMutablePointer<UInt8>?, _ count: Int) -> String {
    String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
  }
}

@Suite("Header blocks of nghttp2")
struct HeaderDecoderPeerTests {
  private static let names = [
    ":path", ":authority", "authorization", "apns-topic", "apns-id", "user-agent", "cookie", "x",
  ]

  private func field(_ random: inout SeededRandom) -> (name: [UInt8], value: [UInt8], flags: UInt8)
  {
    let name = Self.names.randomElement(using: &random) ?? ""
    let length =
      Int.random(in: 0..<20, using: &random) == 0
      ? Int.random(in: 0...5000, using: &random) : Int.random(in: 0...60, using: &random)
    // Few values repeat; some contain every possible byte.
    let isText = Bool.random(using: &random)
    let value: [UInt8] =
      Bool.random(using: &random)
      ? Array("value-\(Int.random(in: 0..<6, using: &random))".utf8)
      : (0..<length).map { _ in
        isText ? .random(in: 0x30...0x7a, using: &random) : .random(in: 0...255, using: &random)
      }
    return (Array(name.utf8), value, UInt8.random(in: 0...1, using: &random))
  }

  @Test("Blocks encoded by nghttp2 are decoded, with tables that grow and shrink")
  func encoded() throws {
    for seed in UInt64(0)..<40 {
      var random = SeededRandom(seed: seed)
      let peer = Peer()
      let decoder = HeaderDecoder(texts: HeaderTexts())
      for _ in 0..<30 {
        if Int.random(in: 0..<8, using: &random) == 0 {
          peer.setTable(.random(in: 0...4096, using: &random))
        }
        let fields = (0..<Int.random(in: 0...12, using: &random)).map { _ in field(&random) }
        let expected = fields.map {
          TextField(
            String(decoding: $0.name, as: UTF8.self), String(decoding: $0.value, as: UTF8.self))
        }
        #expect(decode(peer.encode(fields), decoder) == expected, "seed \(seed)")
      }
    }
  }

  @Test("Damaged blocks are rejected like by nghttp2, or read the same")
  func damaged() throws {
    var refused = 0
    for seed in UInt64(0)..<1000 {
      var random = SeededRandom(seed: seed)
      let (encoder, judge) = (Peer(), Peer())
      let decoder = HeaderDecoder(texts: HeaderTexts())
      for _ in 0..<4 {
        let fields = (0..<Int.random(in: 0...6, using: &random)).map { _ in field(&random) }
        var block = encoder.encode(fields)
        for _ in 0..<Int.random(in: 0...2, using: &random) where !block.isEmpty {
          let place = Int.random(in: 0..<block.count, using: &random)
          block[place] = .random(in: 0...255, using: &random)
        }
        let (theirs, ours) = (judge.decode(block), decode(block, decoder))
        #expect(ours == theirs, "seed \(seed)")
        if theirs == nil {
          refused += 1
          break
        }
      }
    }
    #expect(refused > 100)
  }

  @Test("nghttp2 reads our responses correctly, without a table")
  func answers() throws {
    let peer = Peer()
    for status in [200, 204, 206, 304, 400, 403, 404, 410, 429, 500, 503] as [UInt16] {
      for id in ["EC1BF194-B3B2-424A-89A9-5A918A6E6B5D", String(repeating: "i", count: 300)] {
        let server = Server.ready()
        // A table of size 0.
        server.receive(frame(Kind.settings, 0, stream: 0, [0, 1, 0, 0, 0, 0]))
        server.receive(request(1))
        _ = server.output()
        let value = Array(id.utf8)
        let body = Array("{}".utf8)
        let isAnswered = server.session.respond(
          streamID: 1, status: status, apnsID: value.span, apnsUniqueID: value.span,
          body: body.span)
        #expect(isAnswered)
        let block = try #require(server.output().first?.payload)
        #expect(block.first == 0x20, "the change of the table is answered")
        #expect(
          peer.decode(block) == [
            TextField(":status", "\(status)"), TextField("content-type", "application/json"),
            TextField("apns-id", id), TextField("apns-unique-id", id),
          ])
      }
    }
  }
}
