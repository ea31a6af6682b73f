// What is wrong with an answer, or with the end of a stream (RFC 9113, sections 6.4, 6.8 and 8.1 to 8.3).

extension Misbehaviour {
  package static let all: [Misbehaviour] =
    sizes + streams + settings + windows + blocks + others + resets + leavings + sequences
    + malformed + answers

  private static func answer(
    _ stream: UInt32, _ headers: [(String, String)], _ body: String? = nil
  ) -> [UInt8] {
    let fields = headers.map { RawHeader($0.0, $0.1) }
    let head = HTTP2Frame.headers(stream, fields, endsStream: body == nil).bytes
    return head + (body.map { HTTP2Frame.data(stream, Array($0.utf8)).bytes } ?? [])
  }

  /// RST_STREAM with each code of section 7, and unknown ones.
  private static let resets: [Misbehaviour] = ((0...13) + [14, 0xffff_ffff]).map { code in
    onStream(
      "RST_STREAM with code \(code)", .reset(isRefused: code == 7), .reset(isRefused: code == 7)
    ) { HTTP2Frame.resetStream($0.victim, code: code).bytes }
  }

  private static func goAway(_ last: UInt32, _ code: UInt32 = 0, _ debug: String = "") -> [UInt8] {
    var frame = HTTP2Frame.goAway(lastStream: last, code: code)
    frame.payload += Array(debug.utf8)
    return frame.bytes
  }

  private static let leavings: [Misbehaviour] = [
    leaving("GOAWAY before the victim", spares: 0) { goAway($0.victim - 1) },
    leaving("GOAWAY at 0, with an error", spares: 0) { _ in goAway(0, 2) },
    leaving("GOAWAY at the victim", spares: 1) { goAway($0.victim) },
    leaving("GOAWAY between the two", spares: 1) { goAway($0.victim + 1, 11) },
    leaving("GOAWAY at the bystander", spares: 2) { goAway($0.bystander) },
    leaving("GOAWAY above all", spares: 2) { _ in goAway(0x7fff_ffff) },
    leaving("GOAWAY with the reserved bit", spares: 2) { _ in goAway(0xffff_ffff) },
    leaving("GOAWAY with a reason", spares: 2) {
      goAway($0.bystander, 0, #"{"reason":"Shutdown"}"#)
    },
    leaving("GOAWAY with 16,000 bytes of debug data", spares: 1) {
      goAway($0.victim, 0, String(repeating: "[", count: 16_000))
    },
    leaving("GOAWAY that takes streams back", spares: 0) {
      goAway(0x7fff_ffff) + goAway($0.victim - 1)
    },
    leaving("GOAWAY that brings streams back", spares: 0) {
      goAway($0.victim - 1) + goAway(0x7fff_ffff)
    },
  ]

  private static let sequences: [Misbehaviour] = [
    onStream("DATA before HEADERS", .streamError, .ignored) {
      HTTP2Frame.data($0.victim, [0x7b], endsStream: false).bytes
    },
    onStream("1,000 empty DATA frames", .streamError, .ignored) { streams in
      (0..<1000).flatMap { _ in HTTP2Frame.data(streams.victim, [], endsStream: false).bytes }
    },
    onStream("trailers", .streamError, .accepted) { answer($0.victim, [("a", "b")]) },
    onStream("trailers that do not end the stream", .streamError, .streamError) {
      HTTP2Frame.headers($0.victim, [RawHeader("a", "b")]).bytes
    },
    onStream("an interim response", .ignored, .streamError) {
      HTTP2Frame.headers($0.victim, [RawHeader(":status", "103")]).bytes
    },
    onStream("100 interim responses", .streamError, .streamError) { streams in
      (0..<100).flatMap { _ in
        HTTP2Frame.headers(streams.victim, [RawHeader(":status", "100")]).bytes
      }
    },
    onStream("an interim response that ends the stream", .streamError, .streamError) {
      answer($0.victim, [(":status", "100")])
    },
    onStream("101", .streamError, .streamError) {
      HTTP2Frame.headers($0.victim, [RawHeader(":status", "101")]).bytes
    },
    onStream("a body shorter than announced", .streamError, .streamError) {
      answer($0.victim, [(":status", "200"), ("content-length", "5")], "{}")
    },
    onStream("a body longer than announced", .streamError, .streamError) {
      answer($0.victim, [(":status", "200"), ("content-length", "1")], "{}")
    },
    onStream("a response twice", .accepted, .streamError) {
      answer($0.victim, [(":status", "200")]) + answer($0.victim, [(":status", "400")], "{}")
    },
  ]

  private static let malformed: [Misbehaviour] = [
    ("without a status", [("a", "b")]), ("without fields", []),
    ("with two statuses", [(":status", "200"), (":status", "200")]),
    ("with an empty status", [(":status", "")]), ("with status 20", [(":status", "20")]),
    ("with status 2000", [(":status", "2000")]), ("with status 2xx", [(":status", "2xx")]),
    ("with status 099", [(":status", "099")]),
    ("with a status after a field", [("a", "b"), (":status", "200")]),
    ("with a path", [(":status", "200"), (":path", "/")]),
    ("with an upper-case name", [(":status", "200"), ("A", "b")]),
    ("with a line feed", [(":status", "200"), ("a", "b\nc")]),
    ("of a connection to close", [(":status", "200"), ("connection", "close")]),
    ("with two lengths", [(":status", "200"), ("content-length", "0"), ("content-length", "0")]),
    ("with a length in words", [(":status", "200"), ("content-length", "none")]),
  ].map { (name: String, fields: [(String, String)]) in
    // Without a pseudo-header field, it may be trailers.
    let answering = fields.contains { $0.0.hasPrefix(":") } ? Effect.streamError : .accepted
    return onStream("a response \(name)", .streamError, answering) {
      answer($0.victim, fields)
    }
  }

  private static func answering(
    _ name: String, _ effect: Effect, _ fields: [(String, String)], _ body: String? = nil
  ) -> Misbehaviour {
    // Within another response it is trailers with a status.
    onStream(name, effect, .streamError) { answer($0.victim, fields, body) }
  }

  private static let answers: [Misbehaviour] = [
    answering("200 with a body that is not JSON", .accepted, [(":status", "200")], "<html>"),
    answering(
      "200 with unknown fields", .accepted, [(":status", "200"), ("a", ""), ("x", "")]),
    answering("204", .unclear, [(":status", "204")]),
    answering("301", .unclear, [(":status", "301"), ("location", "/")]),
    answering("304 with a length", .unclear, [(":status", "304"), ("content-length", "9")]),
    answering("999", .unclear, [(":status", "999")], "{}"),
    answering("500 without a reason", .unclear, [(":status", "500")], "<html>"),
    answering(
      "502 with a reason that is a number", .unclear, [(":status", "502")], #"{"reason":7}"#),
    answering("400 without a body", .rejected(status: 400), [(":status", "400")]),
    answering(
      "400 with half of an object", .rejected(status: 400), [(":status", "400")], #"{"rea"#),
    answering(
      "400 with half of a character", .rejected(status: 400), [(":status", "400")],
      #"{"reason":"\ud800"}"#),
    answering(
      "400 with 4,000 brackets", .rejected(status: 400), [(":status", "400")],
      String(repeating: "[", count: 4000)),
    answering(
      "400 with 10,000 bytes", .rejected(status: 400), [(":status", "400")],
      String(repeating: "x", count: 10_000)),
    answering("403 of a proxy", .rejected(status: 403), [(":status", "403")], "<html>"),
    answering("404", .rejected(status: 404), [(":status", "404")]),
    answering(
      "410 long after all time", .rejected(status: 410), [(":status", "410")],
      #"{"reason":"Unregistered","timestamp":9223372036854775807}"#),
    answering(
      "410 before all time", .rejected(status: 410), [(":status", "410")],
      #"{"reason":"Unregistered","timestamp":-9223372036854775808}"#),
    answering(
      "410 at 1e400", .rejected(status: 410), [(":status", "410")],
      #"{"reason":"Unregistered","timestamp":1e400}"#),
    answering(
      "429 in the year 9999", .rejected(status: 429),
      [
        (":status", "429"), ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"),
      ]),
    onStream("200 with a body without an end", .accepted, .streamError) { streams in
      HTTP2Frame.headers(streams.victim, [RawHeader(":status", "200")]).bytes + endless(streams)
    },
    onStream("a body without an end", .streamError, .accepted, endless),
  ]

  /// More than a window, which clients do not reopen for ever.
  private static func endless(_ streams: Streams) -> [UInt8] {
    let piece = [UInt8](repeating: 0x20, count: 16_000)
    return (0..<6).flatMap { _ in
      HTTP2Frame.data(streams.victim, piece, endsStream: false).bytes
    }
  }
}
