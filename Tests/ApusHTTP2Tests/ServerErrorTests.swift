import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Errors of RFC 9113")
struct ServerErrorTests {
  @Test(
    "Connection errors have their codes (section 7)",
    arguments: [
      ("HEADERS on stream 0", headers(0, requestBlock()), 1),
      ("padding longer than HEADERS", frame(Kind.headers, 0xc, stream: 1, [2, 0x83]), 1),
      ("HEADERS without the byte that tells the padding", frame(1, 0xc, stream: 1, []), 6),
      ("HEADERS too short for a priority", frame(1, 0x24, stream: 1, [0, 0, 0, 0]), 6),
      ("padding longer than DATA", request(1) + frame(0, 8, stream: 1, [9, 1]), 1),
      ("DATA on an idle stream", data(1, [1]), 1),
      ("DATA on an even stream", data(2, [1]), 1),
      ("RST_STREAM on stream 0", frame(Kind.reset, 0, stream: 0, [0, 0, 0, 8]), 1),
      ("RST_STREAM on an idle stream", frame(Kind.reset, 0, stream: 1, [0, 0, 0, 8]), 1),
      ("RST_STREAM of 3 bytes", frame(Kind.reset, 0, stream: 1, [0, 0, 8]), 6),
      ("PRIORITY on stream 0", frame(Kind.priority, 0, stream: 0, [0, 0, 0, 0, 1]), 1),
      ("PRIORITY of 4 bytes", frame(Kind.priority, 0, stream: 1, [0, 0, 0, 0]), 6),
      ("SETTINGS on a stream", frame(Kind.settings, 0, stream: 1, []), 1),
      ("SETTINGS of 5 bytes", frame(Kind.settings, 0, stream: 0, [0, 4, 0, 0, 0]), 6),
      ("an acknowledgement with content", frame(4, 1, stream: 0, [0, 4, 0, 0, 0, 0]), 6),
      ("ENABLE_PUSH of 2", frame(4, 0, stream: 0, [0, 2, 0, 0, 0, 2]), 1),
      ("a window of 2^31", frame(4, 0, stream: 0, [0, 4, 0x80, 0, 0, 0]), 3),
      ("frames of 16,383 bytes", frame(4, 0, stream: 0, [0, 5, 0, 0, 0x3f, 0xff]), 1),
      ("frames of 2^24 bytes", frame(4, 0, stream: 0, [0, 5, 1, 0, 0, 0]), 1),
      ("PING on a stream", frame(Kind.ping, 0, stream: 1, [UInt8](repeating: 0, count: 8)), 1),
      ("GOAWAY on a stream", frame(Kind.goAway, 0, stream: 1, [UInt8](repeating: 0, count: 8)), 1),
      ("GOAWAY of 7 bytes", frame(Kind.goAway, 0, stream: 0, [UInt8](repeating: 0, count: 7)), 6),
      ("WINDOW_UPDATE of 3 bytes", frame(Kind.windowUpdate, 0, stream: 0, [0, 0, 1]), 6),
      ("WINDOW_UPDATE on an idle stream", frame(8, 0, stream: 1, [0, 0, 0, 1]), 1),
      ("a window beyond 2^31-1", frame(8, 0, stream: 0, [0x7f, 0xff, 0xff, 0xff]), 3),
      (
        "a frame inside a header block",
        frame(1, 0, stream: 1, [0x83]) + frame(6, 1, stream: 0, [0]), 1
      ),
      (
        "CONTINUATION of another stream",
        frame(1, 0, stream: 1, [0x83]) + frame(9, 4, stream: 3, [0x87]), 1
      ),
      ("a block that ends inside a field", headers(1, [0x83, 0x04, 9, 0x2f]), 9),
      ("an index beyond the table", headers(1, [0xbe]), 9),
    ] as [(String, [UInt8], UInt32)])
  func connection(what: String, bytes: [UInt8], code: UInt32) {
    for isWhole in [true, false] {
      let server = Server.ready()
      if isWhole { server.receive(bytes) } else { for byte in bytes { server.receive([byte]) } }
      let output = server.output()
      #expect(GoAway(output)?.code == code)
      #expect(output.last?.type == Kind.goAway)
      #expect(server.session.hasFailed)
      #expect(server.session.isFinished)
    }
  }

  @Test(
    "The first frame must be SETTINGS (section 3.4)",
    arguments: [
      frame(Kind.ping, 0, stream: 0, [UInt8](repeating: 0, count: 8)), request(1),
      frame(Kind.settings, Flag.acknowledge, stream: 0, []),
    ])
  func first(bytes: [UInt8]) {
    let server = Server()
    #expect(server.receive(preface + bytes) == .failed)
    #expect(GoAway(server.output()) == GoAway(last: 0, code: 1, text: ""))
  }

  @Test(
    "A stream error ends only its stream",
    arguments: [
      ("DATA after the end", request(1) + data(1, [1]), 5),
      ("HEADERS behind the end", request(1) + headers(1, literal("a", "b"), endStream: true), 5),
      ("WINDOW_UPDATE of 0", request(1) + frame(8, 0, stream: 1, [0, 0, 0, 0]), 1),
      (
        "a window beyond 2^31-1",
        request(1) + frame(8, 0, stream: 1, [0x7f, 0xff, 0xff, 0xff]), 3
      ),
      (
        "a pseudo field in trailers",
        headers(1, requestBlock()) + headers(1, [0x83], endStream: true), 1
      ),
    ] as [(String, [UInt8], UInt32)])
  func stream(what: String, bytes: [UInt8], code: UInt32) {
    let server = Server.ready()
    #expect(server.receive(bytes) == .ok)
    #expect(resetCode(server.output(), 1) == code)
    #expect(!server.ok(1))
    server.receive(request(3))
    #expect(server.answerAll() == [3])
    #expect(server.output().map(\.stream) == [3])
    #expect(server.pool.openCount == 0)
  }

  @Test("A body beyond the window of its stream is a stream error (section 6.9.1)")
  func streamWindow() {
    var configuration = HTTP2ServerSession.Configuration.trusted
    configuration.initialWindowBytes = 1000
    let server = Server.ready(configuration)
    server.receive(headers(1, requestBlock()))
    // Half of it, and the window is restored.
    server.receive(data(1, [UInt8](repeating: 0x20, count: 500), endStream: false))
    #expect(server.output() == [Frame(type: 8, flags: 0, stream: 1, payload: big(500))])
    server.receive(data(1, [UInt8](repeating: 0x20, count: 1001), endStream: false))
    #expect(resetCode(server.output(), 1) == 3)
    #expect(!server.session.hasFailed)
  }

  @Test("The connection's window is restored at its half, including padding and ended streams")
  func connectionWindow() {
    let server = Server.ready()
    var stream: UInt32 = 1
    var sent = 0
    var updates: [Frame] = []
    // 4,096,000 bytes; each frame is padded to 16,384 with 255 bytes and the length byte.
    while sent < 4_096_000 / 2 {
      server.receive(headers(stream, requestBlock()))
      let padded =
        [255] + [UInt8](repeating: 0x20, count: 16_128) + [UInt8](repeating: 0, count: 255)
      server.receive(frame(Kind.data, 0x8 | Flag.endStream, stream: stream, padded))
      server.answerAll()
      updates += server.output().filter { $0.type == Kind.windowUpdate && $0.stream == 0 }
      sent += padded.count
      stream += 2
    }
    #expect(updates.map(\.payload) == [big(UInt32(sent))])
  }

  @Test(
    "A response larger than the windows is sent as they open, and other responses pass it")
  func narrowWindows() {
    let server = Server()
    _ = server.output()
    // Stream windows are 5 bytes at first.
    server.receive(preface + frame(Kind.settings, 0, stream: 0, [0, 4, 0, 0, 0, 5]))
    server.receive(request(1) + request(3))
    while let request = server.session.nextRequest() { server.session.release(request) }
    #expect(server.refuse(1, body: "0123456789abcdef"))
    _ = server.ok(3)
    var body: [UInt8] = []
    var output = server.output()
    #expect(output.map(\.stream) == [0, 1, 1, 3])
    body += output[2].payload
    #expect(server.session.openStreamCount == 1)
    // A SETTINGS frame that opens it by one byte, then updates.
    server.receive(frame(Kind.settings, 0, stream: 0, [0, 4, 0, 0, 0, 6]))
    output = server.output()
    #expect(output.map(\.type) == [Kind.settings, Kind.data])
    body += output[1].payload
    // Smaller again: sent bytes count, so 5 bytes are owed before anything may be sent.
    server.receive(frame(Kind.settings, 0, stream: 0, [0, 4, 0, 0, 0, 1]))
    server.receive(frame(Kind.windowUpdate, 0, stream: 1, [0, 0, 0, 5]))
    #expect(server.output().map(\.type) == [Kind.settings])
    server.receive(frame(Kind.windowUpdate, 0, stream: 1, [0, 0, 0, 4]))
    body += server.output().flatMap(\.payload)
    #expect(body == Array("0123456789".utf8))
    server.receive(frame(Kind.windowUpdate, 0, stream: 1, [0, 0, 1, 0]))
    output = server.output()
    #expect(output.map(\.flags) == [Flag.endStream])
    #expect(body + output[0].payload == Array("0123456789abcdef".utf8))
    #expect(server.session.openStreamCount == 0)
  }

  @Test("The largest possible header block is read to its end, and only its stream is reset")
  func largeBlock() {
    let server = Server.ready()
    // 147,456 bytes: a literal that enters the table (0x40), and indices that refer to it.
    let entry = literal("x", "y")
    var block = requestBlock([0x40] + entry.dropFirst())
    block += [UInt8](repeating: 0xbe, count: 9 * 16_384 - block.count)
    server.receive(frame(Kind.headers, Flag.endStream, stream: 1, Array(block[..<16_384])))
    for piece in 1...8 {
      let part = Array(block[(piece * 16_384)..<((piece + 1) * 16_384)])
      let flags = piece == 8 ? Flag.endHeaders : 0
      #expect(server.receive(frame(Kind.continuation, flags, stream: 1, part)) == .ok)
    }
    #expect(resetCode(server.output(), 1) == 0xb)
    server.receive(headers(3, requestBlock([0xbe]), endStream: true))
    #expect(server.answerAll() == [3])
  }

  @Test("Streams far apart are found, in any order of their ends")
  func manyStreams() {
    let server = Server.ready()
    // 700 open at a time, numbered in steps that collide in any table.
    var streams: [UInt32] = []
    for index in 0..<UInt32(700) { streams.append(1 + index * 4096) }
    for stream in streams { server.receive(headers(stream, requestBlock())) }
    #expect(server.session.openStreamCount == 700)
    for (place, stream) in streams.enumerated() where place % 3 == 0 {
      server.receive(frame(Kind.reset, 0, stream: stream, [0, 0, 0, 8]))
    }
    for (place, stream) in streams.enumerated().reversed() where place % 3 != 0 {
      server.receive(data(stream, [0x7b]))
    }
    let rest = streams.enumerated().filter { $0.offset % 3 != 0 }.map { Int32($0.element) }
    #expect(server.answerAll() == rest.reversed())
    _ = server.output()
    #expect(server.session.openStreamCount == 0)
    #expect(server.pool.openCount == 0)
  }
}
