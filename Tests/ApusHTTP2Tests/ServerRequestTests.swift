import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Requests on the server")
struct ServerRequestTests {
  private func text(_ request: HTTP2Request?, _ name: HeaderName) -> String? {
    guard let fields = request?.fields, fields.contains(name) else { return nil }
    return fields.value(name).text
  }

  private func body(_ request: HTTP2Request?) -> [UInt8]? {
    guard let body = request?.body else { return nil }
    return body.span.copied()
  }

  @Test("Fields and body arrive as sent")
  func fields() throws {
    let server = Server.ready()
    let block = requestBlock(
      path: "/3/device/ABCD",
      literal("apns-topic", "com.example") + literal("user-agent", "x")
        + literal("apns-id", "not a uuid"))
    server.receive(headers(1, block) + data(1, Array("{}".utf8)), at: 1234)
    let request = try #require(server.session.nextRequest())
    #expect(request.streamID == 1)
    #expect(request.startedMilliseconds == 1234)
    #expect(text(request, .method) == "POST")
    #expect(text(request, .path) == "/3/device/ABCD")
    #expect(text(request, .apnsTopic) == "com.example")
    #expect(text(request, .apnsID) == "not a uuid")
    #expect(text(request, .apnsPriority) == nil)
    #expect(body(request) == Array("{}".utf8))
    #expect(!request.headerListTooLarge)
    #expect(server.session.nextRequest() == nil)
  }

  @Test("Input byte by byte gives the same requests, trailers and continuations")
  func bytewise() {
    let block = requestBlock(literal("apns-topic", "com.example"))
    var bytes = preface + frame(Kind.settings) + request(1)
    // Two CONTINUATION frames, one of them empty; PRIORITY inside HEADERS; padding on DATA.
    bytes += frame(Kind.headers, 0x20, stream: 3, [0, 0, 0, 0, 15] + block.prefix(5))
    bytes += frame(Kind.continuation, 0, stream: 3)
    bytes += frame(Kind.continuation, Flag.endHeaders, stream: 3, Array(block.dropFirst(5)))
    bytes += frame(Kind.data, 0x8, stream: 3, [3] + Array("{}".utf8) + [0, 0, 0])
    bytes += headers(3, literal("x-checksum", "1"), endStream: true)
    let server = Server()
    for byte in bytes { #expect(server.receive([byte]) == .ok) }
    let first = server.session.nextRequest()
    let second = server.session.nextRequest()
    #expect(first?.streamID == 1)
    #expect(body(first) == Array("{\"aps\":{}}".utf8))
    #expect(second?.streamID == 3)
    #expect(body(second) == Array("{}".utf8))
    #expect(text(second, .apnsTopic) == "com.example")
    #expect(server.session.deadlineMilliseconds != nil)
  }

  @Test(
    "A request is accepted with and without :authority and host",
    arguments: [("a", nil), (nil, "h"), ("a", "h"), (nil, nil)] as [(String?, String?)])
  func authority(authority: String?, host: String?) {
    let server = Server.ready()
    let block = requestBlock(authority: authority, host.map { literal("host", $0) } ?? [])
    server.receive(headers(1, block) + data(1, [0x7b]))
    let request = server.session.nextRequest()
    #expect(text(request, .authority) == authority)
    #expect(text(request, .host) == host)
  }

  @Test(
    "Bodies of any length arrive, and bytes beyond the largest payload are only counted",
    arguments: [0, 1, 4096, 4097, 5120, 5121, 5122, 100_000])
  func bodies(count: Int) throws {
    let server = Server.ready()
    let body = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
    server.receive(headers(1, requestBlock(), endStream: count == 0))
    for start in stride(from: 0, to: count, by: 16384) {
      let end = min(start + 16384, count)
      server.receive(data(1, Array(body[start..<end]), endStream: end == count))
      _ = server.output()
    }
    let request = try #require(server.session.nextRequest())
    #expect(request.bodyByteCount == count)
    #expect(self.body(request) == Array(body.prefix(5121)))
  }

  @Test("An endless body is handed out once it is too long, and cut off after the response")
  func endlessBody() throws {
    let server = Server.ready()
    server.receive(headers(1, requestBlock()))
    let piece = [UInt8](repeating: 0x20, count: 16384)
    var count = 0
    while server.session.completed.isEmpty, count < 100 {
      server.receive(data(1, piece, endStream: false))
      _ = server.output()
      count += 1
    }
    #expect(count == 65)
    let request = try #require(server.session.nextRequest())
    #expect(request.streamID == 1)
    server.session.release(request)
    #expect(server.refuse(1, status: 413))
    let output = server.output()
    #expect(output.map(\.type) == [Kind.headers, Kind.data, Kind.reset])
    #expect(resetCode(output, 1) == 0)
    #expect(server.session.openStreamCount == 0)
    #expect(server.receive(data(1, piece)) == .ok)
    #expect(server.pool.openCount == 0)
  }

  @Test("The header list is measured over all fields, and beyond 8,000 bytes the request is marked")
  func headerList() throws {
    // requestBlock: (7+4)+(7+5)+(5+75)... is measured here, and filled up to the limit with one unlisted field.
    let path = "/3/device/aa"
    let base = (7 + 4 + 32) + (7 + 5 + 32) + (5 + path.utf8.count + 32) + (10 + 9 + 32)
    for (extra, isTooLarge) in [(0, false), (1, true)] {
      let value = String(repeating: "v", count: 8000 - base - 32 - 1 + extra)
      let server = Server.ready()
      server.receive(
        headers(1, requestBlock(path: path, literal("x", value)), endStream: true))
      let request = try #require(server.session.nextRequest())
      #expect(request.headerListTooLarge == isTooLarge)
      #expect(text(request, .path) == path)
    }
  }

  @Test("An endless header list is reset")
  func endlessHeaderList() {
    let server = Server.ready()
    // A literal with indexing (0x40), then 17 references to it (index 62): 17 times 4,000 bytes from 17.
    let value = [UInt8](repeating: 0x61, count: 4000)
    let entry: [UInt8] = [0x40, 1, 0x78, 127, 0xa1, 0x1e] + value
    let block = requestBlock(entry + [UInt8](repeating: 0xbe, count: 17))
    #expect(server.receive(headers(1, block, endStream: true)) == .ok)
    #expect(server.session.nextRequest() == nil)
    #expect(resetCode(server.output(), 1) == 0xb)
    #expect(server.pool.openCount == 0)
    // The table is still the same on both sides.
    server.receive(headers(3, requestBlock([0xbe]), endStream: true))
    #expect(server.session.nextRequest()?.headerListTooLarge == false)
  }

  @Test(
    "A malformed request is reset with PROTOCOL_ERROR, and its connection lives",
    arguments: [
      ("upper case", requestBlock(literal("Apns-Topic", "x"))),
      ("empty name", requestBlock(literal("", "x"))),
      ("connection", requestBlock(literal("connection", "close"))),
      ("transfer-encoding", requestBlock(literal("transfer-encoding", "chunked"))),
      ("te", requestBlock(literal("te", "gzip"))),
      ("unknown pseudo field", requestBlock(literal(":protocol", "x"))),
      (":status", requestBlock(literal(":status", "200"))),
      ("pseudo field twice", requestBlock([0x83])),
      ("pseudo field last", requestBlock(literal("a", "b") + [0x01, 1, 0x61])),
      ("no :path", [0x83, 0x87]),
      ("no :method", [0x87, 0x04, 1, 0x2f]),
      ("no :scheme", [0x83, 0x04, 1, 0x2f]),
      ("nothing", []),
      ("line feed in a value", requestBlock(literal("apns-topic", "a\nb"))),
      ("NUL in a value", requestBlock(literal("apns-topic", "a\0"))),
      ("content-length that is none", requestBlock(literal("content-length", "1a"))),
      (
        "content-length twice",
        requestBlock(literal("content-length", "0") + literal("content-length", "0"))
      ),
      ("content-length that is wrong", requestBlock(literal("content-length", "1"))),
    ] as [(String, [UInt8])])
  func malformed(what: String, block: [UInt8]) {
    let server = Server.ready()
    #expect(server.receive(headers(1, block, endStream: true)) == .ok)
    #expect(server.session.nextRequest() == nil)
    #expect(resetCode(server.output(), 1) == 1)
    server.receive(request(3))
    #expect(server.answerAll() == [3])
    #expect(server.pool.openCount == server.session.openStreamCount)
  }

  @Test(
    "Requests that only the application can judge reach it",
    arguments: [
      literal("apns-topic", " spaces "), literal("apns-topic", bytes: [0xff, 0xfe]),
      literal("apns-topic", ""), literal("te", "trailers"), literal("expect", "100-continue"),
      literal("apns-topic", bytes: [0x01]), literal("content-length", "10"),
    ])
  func unusual(field: [UInt8]) {
    let server = Server.ready()
    server.receive(headers(1, requestBlock(field)) + data(1, Array("{\"aps\":{}}".utf8)))
    #expect(server.answerAll() == [1])
    #expect(server.output().map(\.type) == [Kind.headers])
  }

  @Test("A repeated field is counted")
  func twice() {
    let server = Server.ready()
    let block = requestBlock(literal("apns-topic", "a") + literal("apns-topic", "b"))
    server.receive(headers(1, block, endStream: true))
    let request = server.session.nextRequest()
    #expect(text(request, .apnsTopic) == "a")
    #expect(request?.fields.occurrences(of: .apnsTopic) == 2)
  }

  @Test("Trailers that do not end the stream are malformed")
  func openTrailers() {
    let server = Server.ready()
    server.receive(headers(1, requestBlock()) + headers(1, literal("a", "b")))
    #expect(server.session.nextRequest() == nil)
    #expect(resetCode(server.output(), 1) == 1)
  }

  @Test("A request that the client cancels is neither handed out nor answered")
  func takenBack() {
    let server = Server.ready()
    server.receive(request(1) + frame(Kind.reset, 0, stream: 1, [0, 0, 0, 8]))
    #expect(server.session.nextRequest() == nil)
    #expect(server.pool.openCount == 0)
    server.receive(request(3))
    let request = server.session.nextRequest()
    server.receive(frame(Kind.reset, 0, stream: 3, [0, 0, 0, 8]))
    #expect(request?.isOpen == false)
    #expect(!server.ok(3))
    if let request { server.session.release(request) }
    #expect(server.output().isEmpty)
    #expect(server.pool.openCount == 0)
    #expect(!server.ok(5))
  }

  @Test("A stream is answered once")
  func answeredTwice() {
    let server = Server.ready()
    server.receive(request(1))
    _ = server.session.nextRequest()
    #expect(server.ok(1))
    #expect(!server.ok(1))
    #expect(server.output().count == 1)
  }

  @Test("Requests are handed out in the order of their completion")
  func order() {
    let server = Server.ready()
    server.receive(
      headers(1, requestBlock()) + headers(3, requestBlock()) + request(5) + data(3, [0x20])
        + data(1, [0x20]))
    #expect(server.answerAll() == [5, 3, 1])
  }

  @Test("A session that ends returns its requests, and those of the application follow later")
  func ending() {
    let pool = HTTP2RequestPool()
    var session: HTTP2ServerSession? = HTTP2ServerSession(
      configuration: .trusted, pool: pool, nowMilliseconds: 0)
    let bytes =
      preface + frame(Kind.settings) + request(1) + request(3) + headers(5, requestBlock())
    _ = session?.receive(bytes.span, nowMilliseconds: 0)
    let held = session?.nextRequest()
    #expect(pool.openCount == 3)
    session = nil
    #expect(pool.openCount == 1)
    if let held { pool.release(held) }
    #expect(pool.openCount == 0)
  }
}
