import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Stream limit")
struct ServerLimitTests {
  private func opened(_ range: Range<UInt32>) -> [UInt8] {
    range.flatMap { headers($0 * 2 + 1, requestBlock()) }
  }

  @Test("Streams opened before the client acknowledged SETTINGS are all answered")
  func beforeAcknowledgement() {
    let server = Server(.untrusted)
    server.receive(preface + frame(Kind.settings))
    for stream in 0..<UInt32(40) { server.receive(request(stream * 2 + 1)) }
    _ = server.output()
    server.receive(frame(Kind.settings, Flag.acknowledge))
    #expect(server.answerAll().count == 40)
    let output = server.output()
    #expect(output.count == 40)
    #expect(output.allSatisfy { $0.type == Kind.headers && $0.flags & Flag.endStream != 0 })
  }

  @Test("After the acknowledgement a stream above the limit is refused, and the next one is not")
  func afterAcknowledgement() {
    let server = Server.ready(.untrusted)
    server.receive(request(1) + request(3))
    #expect(resetCode(server.output(), 3) == 7)
    #expect(server.answerAll() == [1])
    _ = server.output()
    server.receive(request(5))
    #expect(server.answerAll() == [5])
  }

  @Test("A client that never acknowledges is limited after a while")
  func neverAcknowledged() {
    let server = Server(.untrusted)
    server.receive(preface + frame(Kind.settings) + request(1) + request(3))
    #expect(server.answerAll() == [1, 3])
    _ = server.output()
    server.receive(request(5) + request(7), at: 11_000)
    #expect(server.answerAll() == [5])
    #expect(resetCode(server.output(), 7) == 7)
  }

  @Test("Raising the limit sends a second SETTINGS frame and takes effect")
  func raise() {
    let server = Server.ready(.untrusted)
    server.session.raiseStreamLimit(to: 1000)
    server.session.raiseStreamLimit(to: 500)
    #expect(
      server.outputBytes() == [0, 0, 6, 4, 0, 0, 0, 0, 0, 0x00, 0x03, 0x00, 0x00, 0x03, 0xe8])
    #expect(server.receive(frame(Kind.settings, Flag.acknowledge)) == .ok)
    #expect(server.receive(opened(0..<1000) + opened(1000..<1001)) == .ok)
    #expect(resetCode(server.output(), 2001) == 7)
    #expect(server.session.openStreamCount == 1000)
  }

  @Test("A surplus acknowledgement is a connection error")
  func surplusAcknowledgement() {
    let server = Server.ready()
    server.receive(frame(Kind.settings, Flag.acknowledge))
    #expect(GoAway(server.output())?.code == 1)
    #expect(server.session.hasFailed)
    #expect(server.session.isFinished)
  }

  @Test("A thousand refusals that the client does not read end the connection")
  func grossAbuse() {
    let server = Server(.untrusted)
    server.receive(preface + frame(Kind.settings))
    #expect(server.receive(opened(0..<1256)) == .ok)
    #expect(server.session.openStreamCount == 256)
    #expect(server.receive(opened(1256..<1257)) == .failed)
    #expect(
      GoAway(server.output())
        == GoAway(
          last: 2513, code: 7, text: "Maximum active streams violated for this endpoint."))
  }

  @Test("Retrying refused streams endlessly ends the connection")
  func retryStorm() {
    let server = Server.ready(.untrusted)
    server.receive(headers(1, requestBlock()))
    var stream: UInt32 = 3
    var result = HTTP2SessionResult.ok
    while result == .ok, stream < 9000 {
      result = server.receive(headers(stream, requestBlock()))
      stream += 2
      if result == .ok { _ = server.output() }
    }
    // 1,000 refusals, and the one that is too many.
    #expect(stream == 3 + 2 * 1001)
    #expect(GoAway(server.output())?.code == 0xb)
  }
}
