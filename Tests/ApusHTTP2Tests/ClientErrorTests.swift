import ApusModel
import Testing

@testable import ApusHTTP2

/// The errors of a server, in the order of RFC 9113, section 6. Codes are those of section 7: 1 PROTOCOL_ERROR,
/// 3 FLOW_CONTROL_ERROR, 6 FRAME_SIZE_ERROR, 9 COMPRESSION_ERROR, 11 ENHANCE_YOUR_CALM.
@Suite("Client session, errors of the server")
struct ClientErrorTests {
  private static func padded(_ type: UInt8, _ payload: [UInt8], flags: UInt8 = 0) -> [UInt8] {
    frame(type, 0x8 | flags, stream: 1, payload)
  }

  private static func setting(_ identifier: UInt8, _ value: UInt32) -> [UInt8] {
    frame(Kind.settings, 0, stream: 0, [0, identifier] + big(value))
  }

  /// A block on stream 1 that another frame interrupts.
  private static func interrupted(by frame: [UInt8]) -> [UInt8] {
    ApusHTTP2Tests.frame(Kind.headers, 0, stream: 1, [0x88]) + frame
  }

  private static let frameErrors: [(String, [UInt8], UInt32)] = [
    ("a frame of 16,385 bytes", frame(0xee, 0, stream: 0, [UInt8](repeating: 0, count: 16_385)), 6),
    ("DATA on stream 0", data(0, [1]), 1),
    ("DATA on an idle stream", data(3, [1]), 1),
    ("DATA on an even stream", data(2, [1]), 1),
    ("padding longer than DATA", padded(Kind.data, [2, 1]), 1),
    ("DATA without the length of its padding", padded(Kind.data, []), 6),
    ("HEADERS on stream 0", headers(0, [0x88]), 1),
    ("HEADERS on an idle stream", headers(3, [0x88]), 1),
    ("HEADERS on an even stream", headers(2, [0x88]), 1),
    ("padding longer than HEADERS", padded(Kind.headers, [2, 0x88], flags: 0x4), 1),
    ("HEADERS without the length of its padding", padded(Kind.headers, [], flags: 0x4), 6),
    ("HEADERS too short for a priority", frame(Kind.headers, 0x24, stream: 1, [0, 0, 0, 0]), 6),
    ("PRIORITY on stream 0", frame(Kind.priority, 0, stream: 0, [0, 0, 0, 0, 1]), 1),
    ("PRIORITY of 4 bytes", frame(Kind.priority, 0, stream: 1, [0, 0, 0, 0]), 6),
    ("RST_STREAM on stream 0", frame(Kind.reset, 0, stream: 0, big(8)), 1),
    ("RST_STREAM on an idle stream", frame(Kind.reset, 0, stream: 3, big(8)), 1),
    ("RST_STREAM on an even stream", frame(Kind.reset, 0, stream: 2, big(8)), 1),
    ("RST_STREAM of 3 bytes", frame(Kind.reset, 0, stream: 1, [0, 0, 8]), 6),
    ("SETTINGS on a stream", frame(Kind.settings, 0, stream: 1), 1),
    ("SETTINGS of 5 bytes", frame(Kind.settings, 0, stream: 0, [0, 4, 0, 0, 0]), 6),
    ("an acknowledgement with content", frame(Kind.settings, 1, stream: 0, [0, 4] + big(0)), 6),
    ("a second acknowledgement", frame(Kind.settings, Flag.acknowledge), 1),
    ("ENABLE_PUSH of 1", setting(2, 1), 1),
    ("ENABLE_PUSH of 2", setting(2, 2), 1),
    ("a window of 2^31", setting(4, 1 << 31), 3),
    ("frames of 16,383 bytes", setting(5, 16_383), 1),
    ("frames of 2^24 bytes", setting(5, 1 << 24), 1),
    ("PUSH_PROMISE", frame(5, Flag.endHeaders, stream: 1, big(2) + [0x82, 0x87, 0x84]), 1),
    ("PING on a stream", frame(Kind.ping, 0, stream: 1, [UInt8](repeating: 0, count: 8)), 1),
    ("PING of 7 bytes", frame(Kind.ping, 0, stream: 0, [UInt8](repeating: 0, count: 7)), 6),
    ("GOAWAY on a stream", frame(Kind.goAway, 0, stream: 1, big(1) + big(0)), 1),
    ("GOAWAY of 7 bytes", frame(Kind.goAway, 0, stream: 0, [0, 0, 0, 0, 0, 0, 0]), 6),
    ("WINDOW_UPDATE of 3 bytes", frame(Kind.windowUpdate, 0, stream: 0, [0, 0, 1]), 6),
    ("WINDOW_UPDATE of 0", frame(Kind.windowUpdate, 0, stream: 0, big(0)), 1),
    ("WINDOW_UPDATE on an idle stream", frame(Kind.windowUpdate, 0, stream: 3, big(1)), 1),
    ("a window beyond 2^31-1", frame(Kind.windowUpdate, 0, stream: 0, big(0x7fff_ffff)), 3),
    (
      "streams' windows beyond 2^31-1",
      frame(Kind.windowUpdate, 0, stream: 1, big(1 << 20)) + setting(4, 0x7fff_ffff), 3
    ),
    ("CONTINUATION without HEADERS", frame(Kind.continuation, 4, stream: 1, [0x88]), 1),
    (
      "CONTINUATION after a whole block",
      headers(1, [0x88]) + frame(Kind.continuation, 4, stream: 1, [0x88]), 1
    ),
    ("DATA in a header block", interrupted(by: data(1, [1])), 1),
    ("HEADERS in a header block", interrupted(by: headers(1, [0x88])), 1),
    (
      "PING in a header block",
      interrupted(by: frame(Kind.ping, 0, stream: 0, [UInt8](repeating: 0, count: 8))), 1
    ),
    ("an unknown frame in a header block", interrupted(by: frame(0xee, 0, stream: 1)), 1),
    (
      "another stream's CONTINUATION",
      interrupted(by: frame(Kind.continuation, 4, stream: 3, [])), 1
    ),
  ]

  /// RFC 7541; each block is a response's on stream 1.
  private static let blockErrors: [(String, [UInt8])] = [
    ("index 0 (6.1)", [0x80]),
    ("an index beyond both tables (2.3.3)", [0xbe]),
    ("a name beyond both tables (2.3.3)", [0x7e, 1, 0x61]),
    ("an integer cut off (5.1)", [0xff]),
    ("an integer above 2^28 (5.1)", [0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]),
    ("a string cut off (5.2)", [0x08, 3, 0x32, 0x30]),
    ("a Huffman code with EOS (5.2)", [0x08, 0x84, 0xff, 0xff, 0xff, 0xff]),
    ("Huffman padding of zeros (5.2)", [0x08, 0x81, 0x10]),
    ("Huffman padding of a byte (5.2)", [0x08, 0x82, 0x1f, 0xff]),
    ("a table larger than allowed (6.3)", [0x3f, 0xe2, 0x1f, 0x88]),
    ("a table size after a field (4.2)", [0x88, 0x20]),
  ]

  @Test(
    "Connection errors have their codes, and end every request with an outcome",
    arguments: frameErrors + blockErrors.map { ($0.0, headers(1, $0.1), 9) })
  func connection(what: String, bytes: [UInt8], code: UInt32) {
    // Whole, and byte by byte.
    for piece in [bytes.count, 1] {
      let client = Client.sent(1)
      var result = HTTP2SessionResult.ok
      for start in stride(from: 0, to: bytes.count, by: piece) {
        result = client.receive(Array(bytes[start..<min(start + piece, bytes.count)]))
      }
      #expect(result == .failed)
      let goAway = GoAway(client.output())
      #expect(goAway?.code == code)
      #expect(goAway?.last == 0)
      #expect(client.session.isFinished)
      #expect(client.submit() == nil)
      #expect(client.receive(frame(Kind.settings)) == .failed)
      #expect(client.outputBytes().isEmpty)
      #expect(client.lost() == [1: "lost"])
      #expect(client.lost() == [:])
    }
  }

  @Test(
    "The first frame is SETTINGS (section 3.4)",
    arguments: [
      frame(Kind.settings, Flag.acknowledge), headers(1, [0x88]), data(1, [1]),
      frame(Kind.ping, 0, stream: 0, [0, 0, 0, 0, 0, 0, 0, 0]),
      frame(Kind.goAway, 0, stream: 0, big(0) + big(0)),
      frame(Kind.windowUpdate, 0, stream: 0, big(1)), frame(0xee, 0, stream: 0),
      Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8),
    ])
  func first(bytes: [UInt8]) {
    let client = Client()
    _ = client.outputBytes()
    #expect(client.receive(bytes) == .failed)
    // An answer in HTTP/1.1 reads as a frame that is too long.
    #expect(GoAway(client.output())?.code == (bytes[0] == 0x48 ? 6 : 1))
    #expect(client.session.isFinished)
  }

  private static let sequenceErrors: [(String, [UInt8], UInt32)] = [
    ("DATA before HEADERS", data(1, [1]), 1),
    ("DATA after an interim response", headers(1, [0x08, 3, 0x31, 0x30, 0x33]) + data(1, [1]), 1),
    ("trailers that do not end the stream", headers(1, [0x88]) + headers(1, []), 1),
    (
      "a pseudo-header field in trailers",
      headers(1, [0x88]) + headers(1, [0x88], endStream: true), 1
    ),
    (
      "an interim response that ends the stream",
      headers(1, [0x08, 3, 0x31, 0x30, 0x33], endStream: true), 1
    ),
    ("101", headers(1, [0x08, 3, 0x31, 0x30, 0x31]), 1),
    (
      "a body shorter than announced",
      headers(1, [0x88] + literal("content-length", "2")) + data(1, [1]), 1
    ),
    (
      "a body longer than announced",
      headers(1, [0x88] + literal("content-length", "2")) + data(1, [1, 2, 3]), 1
    ),
    (
      "an announced body that is missing",
      headers(1, [0x88] + literal("content-length", "2"), endStream: true), 1
    ),
    ("WINDOW_UPDATE of 0", frame(Kind.windowUpdate, 0, stream: 1, big(0)), 1),
    ("a window beyond 2^31-1", frame(Kind.windowUpdate, 0, stream: 1, big(0x7fff_ffff)), 3),
  ]

  /// Blocks of malformed responses (sections 8.2 and 8.3).
  private static let malformed: [(String, [UInt8])] = [
    ("no field", []),
    ("no status", literal("apns-id", "a")),
    ("two statuses", [0x88, 0x88]),
    ("a status of two digits", literal(":status", "20")),
    ("a status of four digits", literal(":status", "2000")),
    ("a status in letters", literal(":status", "2xx")),
    ("a status below 100", literal(":status", "099")),
    ("a status after a field", literal("a", "b") + [0x88]),
    ("a field of requests", [0x88, 0x84]),
    ("an unknown pseudo-header field", [0x88] + literal(":other", "a")),
    ("an upper-case name", [0x88] + literal("Apns-Id", "a")),
    ("an empty name", [0x88] + literal("", "a")),
    ("a name with a space", [0x88] + literal("a b", "a")),
    ("a value with NUL", [0x88] + literal("a", "b\0c")),
    ("a value with a line feed", [0x88] + literal("a", "b\nc")),
    ("connection", [0x88] + literal("connection", "close")),
    ("transfer-encoding", [0x88] + literal("transfer-encoding", "chunked")),
    ("two lengths", [0x88] + literal("content-length", "0") + literal("content-length", "0")),
    ("a length in words", [0x88] + literal("content-length", "none")),
    ("a negative length", [0x88] + literal("content-length", "-1")),
  ]

  @Test(
    "A stream error ends only its stream",
    arguments: sequenceErrors + malformed.map { ($0.0, headers(1, $0.1, endStream: true), 1) })
  func stream(what: String, bytes: [UInt8], code: UInt32) {
    let client = Client.sent(2)
    #expect(client.receive(bytes) == .ok)
    #expect(resetCode(client.output(), 1) == code)
    #expect(client.outcomes() == [1: "reset \(code)"])
    // Late frames for it change nothing.
    #expect(client.receive(data(1, [1]) + headers(1, [0x88], endStream: true)) == .ok)
    #expect(client.output().isEmpty)
    #expect(client.receive(headers(3, [0x88], endStream: true)) == .ok)
    #expect(client.outcomes() == [3: "200"])
  }

  private static let fine: [(String, [UInt8])] = [
    (
      "a padded response",
      frame(Kind.headers, 0xc, stream: 1, [2, 0x88, 0, 0])
        + frame(Kind.data, 0x9, stream: 1, [1, 0x7b, 0])
    ),
    ("padding only", headers(1, [0x88]) + frame(Kind.data, 0x9, stream: 1, [2, 0, 0])),
    ("a priority", frame(Kind.headers, 0x25, stream: 1, [0, 0, 0, 0, 1, 0x88])),
    ("the reserved bit", frame(Kind.headers, 0x5, stream: 1 | 1 << 31, [0x88])),
    ("flags without meaning", frame(Kind.headers, 0xd7 & ~0x28, stream: 1, [0x88])),
    ("trailers", headers(1, [0x88]) + headers(1, literal("a", "b"), endStream: true)),
    ("empty DATA", headers(1, [0x88]) + data(1, [], endStream: false) + data(1, [])),
    (
      "interim responses",
      headers(1, [0x08, 3, 0x31, 0x30, 0x30]) + headers(1, [0x08, 3, 0x31, 0x30, 0x33])
        + headers(1, [0x88], endStream: true)
    ),
    (
      "a block in pieces",
      frame(Kind.headers, 0x1, stream: 1, []) + frame(Kind.continuation, 0, stream: 1, [0x08, 3])
        + frame(Kind.continuation, 0x4, stream: 1, Array("200".utf8))
    ),
    ("a status in Huffman code", headers(1, [0x08, 0x82, 0x10, 0x01], endStream: true)),
    (
      "the right length",
      headers(1, [0x88] + literal("content-length", "2")) + data(1, [1], endStream: false)
        + data(1, [2])
    ),
    ("a table size", headers(1, [0x20, 0x3f, 0xe1, 0x1f, 0x88], endStream: true)),
    (
      "unknown frames",
      frame(0xee, 0xff, stream: 7, [1]) + frame(0xa, 0, stream: 0, [0, 0])
        + headers(1, [0x88], endStream: true)
    ),
    (
      "PRIORITY, also of idle streams",
      frame(Kind.priority, 0, stream: 9, [0, 0, 0, 0, 1]) + headers(1, [0x88], endStream: true)
    ),
    (
      "unknown settings, and the largest values",
      frame(
        Kind.settings, 0, stream: 0,
        [0xff, 0xff] + big(1) + [0, 5] + big((1 << 24) - 1) + [0, 6] + big(1) + [0, 2] + big(0))
        + headers(1, [0x88], endStream: true)
    ),
  ]

  @Test("What the specification allows is accepted", arguments: fine)
  func allowed(what: String, bytes: [UInt8]) {
    for piece in [bytes.count, 1] {
      let client = Client.sent(1)
      for start in stride(from: 0, to: bytes.count, by: piece) {
        #expect(client.receive(Array(bytes[start..<min(start + piece, bytes.count)])) == .ok)
      }
      #expect(client.outcomes() == [1: "200"])
      #expect(client.output().allSatisfy { $0.type == Kind.settings })
    }
  }
}
