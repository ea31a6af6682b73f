import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Timeouts and the end of the server session")
struct ServerTimeTests {
  private let idleTimeout = "{\"reason\":\"IdleTimeout\"}"

  @Test("A quiet connection has no timeout")
  func quiet() {
    let server = Server.ready()
    server.receive(request(1))
    server.answerAll()
    _ = server.output()
    #expect(server.session.tick(nowMilliseconds: 100_000) == .ok)
    #expect(server.session.deadlineMilliseconds == nil)
    #expect(!server.session.wantsWrite)
  }

  @Test(
    "An incomplete preface ends the connection",
    arguments: [
      [], Array(preface.prefix(23)), preface, preface + [0, 0, 0, 4],
    ] as [[UInt8]])
  func slowPreface(bytes: [UInt8]) {
    let server = Server()
    server.receive(bytes)
    #expect(server.session.deadlineMilliseconds == 11_000)
    #expect(server.session.tick(nowMilliseconds: 10_999) == .ok)
    #expect(server.session.tick(nowMilliseconds: 11_000) == .failed)
    #expect(GoAway(server.output()) == GoAway(last: 0, code: 0, text: idleTimeout))
    #expect(server.session.isFinished)
  }

  @Test("Input that is not HTTP/2 ends the connection with PROTOCOL_ERROR")
  func wrongPreface() {
    let server = Server()
    #expect(server.receive(Array("POST / HTTP/1.1\r\n\r\n".utf8)) == .failed)
    #expect(GoAway(server.output())?.code == 1)
    #expect(server.session.isFinished)
  }

  @Test("A request that arrives too slowly is handed out for 400, and cut off after the response")
  func dribbledRequest() throws {
    let server = Server.ready()
    server.receive(headers(1, requestBlock()), at: 5000)
    server.receive(request(3), at: 6000)
    server.receive(data(1, [0x7b], endStream: false), at: 14_000)
    #expect(server.session.tick(nowMilliseconds: 14_999) == .ok)
    #expect(server.session.nextTimedOutRequest() == nil)
    #expect(server.session.tick(nowMilliseconds: 15_000) == .ok)
    let request = try #require(server.session.nextTimedOutRequest())
    #expect(request.streamID == 1)
    #expect(server.refuse(1, body: idleTimeout))
    server.session.release(request)
    let output = server.output()
    #expect(output.map(\.type) == [Kind.headers, Kind.data, Kind.reset])
    #expect(output[1].flags == Flag.endStream)
    #expect(resetCode(output, 1) == 0)
    // The rest arrives nevertheless, and the other request is unaffected.
    #expect(server.receive(data(1, [0x7d]), at: 15_001) == .ok)
    #expect(server.answerAll() == [3])
    _ = server.output()
    #expect(server.pool.openCount == 0)
    #expect(server.session.tick(nowMilliseconds: 100_000) == .ok)
    #expect(server.session.deadlineMilliseconds == nil)
  }

  @Test(
    "A request that completes between its timeout and its response is answered once, without a reset"
  )
  func lateEnd() {
    let server = Server.ready()
    server.receive(headers(1, requestBlock()), at: 1000)
    _ = server.session.tick(nowMilliseconds: 11_000)
    #expect(server.session.nextTimedOutRequest()?.streamID == 1)
    server.receive(data(1, [0x7b]), at: 11_001)
    #expect(server.session.nextRequest() == nil)
    #expect(server.refuse(1))
    #expect(server.output().map(\.type) == [Kind.headers, Kind.data])
    #expect(server.session.openStreamCount == 0)
  }

  @Test(
    "A frame or header block that arrives too slowly ends the connection", arguments: [false, true])
  func dribbledBlock(isContinued: Bool) {
    let server = Server.ready()
    let block = requestBlock()
    if isContinued {
      server.receive(frame(Kind.headers, 0, stream: 1, Array(block.prefix(4))), at: 2000)
      for index in 0..<4 {
        let piece = Array(block.dropFirst(4 + index).prefix(1))
        server.receive(
          frame(Kind.continuation, 0, stream: 1, piece), at: 4000 + 2000 * UInt64(index))
      }
    } else {
      for (index, byte) in headers(1, block).prefix(20).enumerated() {
        server.receive([byte], at: 2000 + UInt64(index) * 400)
      }
    }
    #expect(server.session.tick(nowMilliseconds: 11_999) == .ok)
    #expect(server.session.tick(nowMilliseconds: 12_000) == .failed)
    let goAway = GoAway(server.output())
    #expect(goAway?.code == 0)
    #expect(goAway?.text == idleTimeout)
  }

  @Test("A client that keeps its window closed is dropped after the timeout, and not before")
  func zeroWindow() {
    let server = Server()
    _ = server.output()
    server.receive(preface + frame(Kind.settings, 0, stream: 0, [0, 4, 0, 0, 0, 0]))
    for stream in 0..<UInt32(100) { server.receive(request(stream * 2 + 1), at: 2000) }
    while let request = server.session.nextRequest() {
      #expect(server.refuse(request.streamID))
      server.session.release(request)
    }
    #expect(server.output().allSatisfy { $0.type != Kind.data })
    #expect(!server.session.wantsWrite)
    #expect(server.session.openStreamCount == 100)
    #expect(server.session.tick(nowMilliseconds: 31_999) == .ok)
    #expect(server.session.tick(nowMilliseconds: 32_000) == .failed)
    #expect(GoAway(server.output())?.text == idleTimeout)
  }

  @Test("When the window opens, the bodies are sent, and the connection stays")
  func windowOpens() {
    let server = Server()
    _ = server.output()
    server.receive(preface + frame(Kind.settings, 0, stream: 0, [0, 4, 0, 0, 0, 0]))
    server.receive(request(1), at: 2000)
    _ = server.session.nextRequest()
    #expect(server.refuse(1))
    _ = server.output()
    server.receive(frame(Kind.windowUpdate, 0, stream: 1, [0, 0, 1, 0]), at: 31_000)
    let output = server.output()
    #expect(output.map(\.type) == [Kind.data])
    #expect(output.first?.flags == Flag.endStream)
    #expect(server.session.tick(nowMilliseconds: 40_000) == .ok)
    #expect(server.session.deadlineMilliseconds == nil)
  }

  @Test("A shutdown is announced, requests are still accepted, then the real last stream is named")
  func shutdown() {
    let server = Server.ready()
    server.receive(request(1))
    server.session.announceShutdown()
    let announcement = server.output()
    #expect(GoAway(announcement) == GoAway(last: 0x7fff_ffff, code: 0, text: ""))
    #expect(announcement.map(\.type) == [Kind.goAway, Kind.ping])
    let opaque = announcement.last?.payload ?? []
    #expect(opaque.count == 8 && announcement.last?.flags == 0)
    // An acknowledgement of another PING does not count.
    server.receive(frame(Kind.ping, 1, stream: 0, [0, 0, 0, 0, 0, 0, 0, 0]))
    #expect(!server.session.isAnnouncementSeen)
    server.receive(frame(Kind.ping, 1, stream: 0, opaque))
    #expect(server.session.isAnnouncementSeen)
    server.receive(request(3) + frame(Kind.ping, 0, stream: 0, [0, 0, 0, 0, 0, 0, 0, 0]))
    #expect(server.output().map(\.type) == [Kind.ping])
    #expect(server.session.openStreamCount == 2)
    server.session.goAway(reason: .shutdown)
    // Between the decision and the write: not processed.
    server.receive(request(5))
    let output = server.output()
    #expect(GoAway(output) == GoAway(last: 3, code: 0, text: "{\"reason\":\"Shutdown\"}"))
    #expect(!server.session.isFinished)
    server.receive(request(7) + frame(Kind.ping, 0, stream: 0, [0, 0, 0, 0, 0, 0, 0, 0]))
    #expect(server.output().map(\.type) == [Kind.ping])
    #expect(server.answerAll() == [1, 3])
    #expect(server.output().map(\.stream) == [1, 3])
    #expect(server.session.isFinished)
  }

  @Test("A client's GOAWAY is answered with one, and its open requests are answered")
  func clientGoes() {
    let server = Server.ready()
    server.receive(request(1) + frame(Kind.goAway, 0, stream: 0, [0, 0, 0, 0, 0, 0, 0, 0]))
    #expect(server.answerAll() == [1])
    let output = server.output()
    #expect(Set(output.map(\.type)) == [Kind.headers, Kind.goAway])
    #expect(GoAway(output) == GoAway(last: 1, code: 0, text: ""))
    #expect(server.session.isFinished)
  }

  @Test(
    "A broken frame ends the connection with the code of RFC 9113",
    arguments: [
      ("DATA on stream 0", frame(Kind.data, 0, stream: 0, [1]), 1),
      ("a frame of 16,385 bytes", [0, 0x40, 1, 0, 0, 0, 0, 0, 1], 6),
      ("a PING of 7 bytes", frame(Kind.ping, 0, stream: 0, [0, 0, 0, 0, 0, 0, 0]), 6),
      ("a bad index", headers(1, [0xff, 0x7f], endStream: true), 9),
      ("CONTINUATION of nothing", frame(Kind.continuation, 4, stream: 1, [0x83]), 1),
      ("an even stream", headers(2, requestBlock()), 1),
      ("WINDOW_UPDATE of 0", frame(Kind.windowUpdate, 0, stream: 0, [0, 0, 0, 0]), 1),
      ("PUSH_PROMISE", frame(5, 4, stream: 1, [0, 0, 0, 2]), 1),
    ] as [(String, [UInt8], UInt32)])
  func broken(what: String, bytes: [UInt8], code: UInt32) {
    let server = Server.ready()
    server.receive(bytes)
    #expect(GoAway(server.output())?.code == code)
    #expect(server.session.hasFailed)
    #expect(server.session.isFinished)
    #expect(server.receive(request(1)) == .failed)
  }
}
