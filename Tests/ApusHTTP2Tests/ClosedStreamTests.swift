import ApusModel
import Testing

@testable import ApusHTTP2

/// RFC 9113, sections 5.1, 5.1.1, 6.1 and 6.9: frames on streams that are not open.
@Suite("Frames on closed streams")
struct ClosedStreamTests {
  /// A session whose stream 1 was answered after the client had ended it.
  private func answered() -> Server {
    let server = Server.ready()
    server.receive(request(1))
    server.answerAll()
    _ = server.output()
    return server
  }

  @Test("A header block on a stream number that was skipped is a connection error PROTOCOL_ERROR")
  func skipped() {
    let server = Server.ready()
    server.receive(request(5))
    #expect(server.receive(headers(3, requestBlock())) == .failed)
    #expect(GoAway(server.output())?.code == 0x1)
  }

  /// Section 5.1.1: opening a stream closes "all streams in the "idle" state that might have been opened by the peer
  /// with a lower-valued stream identifier", and "an endpoint that receives an unexpected stream identifier MUST
  /// respond with a connection error of type PROTOCOL_ERROR", however long ago the stream was skipped.
  @Test("It is one too if other streams were skipped since", arguments: [1, 3, 5, 9, 11, 13, 17])
  func skippedBefore(streamID: UInt32) {
    let server = Server.ready()
    for opened: UInt32 in [7, 15, 19] { server.receive(request(opened)) }
    #expect(server.answerAll().sorted() == [7, 15, 19])
    _ = server.output()
    #expect(server.receive(headers(streamID, requestBlock(), endStream: true)) == .failed)
    #expect(GoAway(server.output())?.code == 0x1)
  }

  @Test("A stream between skipped ones that was open is told from them", arguments: [7, 15, 19])
  func openedBetweenSkipped(streamID: UInt32) {
    let server = Server.ready()
    for opened: UInt32 in [7, 15, 19] { server.receive(request(opened)) }
    server.answerAll()
    _ = server.output()
    #expect(server.receive(headers(streamID, requestBlock(), endStream: true)) == .failed)
    #expect(GoAway(server.output())?.code == 0x5)
  }

  @Test("However often a client skips streams, the first skipped one stays a PROTOCOL_ERROR")
  func skippedOften() {
    let server = Server.ready()
    // Every other stream: 3, 7, 11 and so on.
    for number in 1...UInt32(10 * Limits.rememberedSkips) {
      server.receive(request(4 * number - 1))
      server.answerAll()
      _ = server.output()
    }
    #expect(server.receive(headers(1, requestBlock(), endStream: true)) == .failed)
    #expect(GoAway(server.output())?.code == 0x1)
  }

  @Test("A header block on a stream that both sides ended is a connection error STREAM_CLOSED")
  func headersOnEnded() {
    let server = answered()
    #expect(server.receive(headers(1, requestBlock(), endStream: true)) == .failed)
    #expect(GoAway(server.output())?.code == 0x5)
  }

  @Test("A header block on a stream that the client reset is a connection error STREAM_CLOSED")
  func headersOnReset() {
    let server = Server.ready()
    server.receive(headers(1, requestBlock()))
    server.receive(frame(Kind.reset, stream: 1, big(8)))
    #expect(server.receive(headers(1, requestBlock(), endStream: true)) == .failed)
    #expect(GoAway(server.output())?.code == 0x5)
  }

  @Test("DATA on a stream that both sides ended is a stream error STREAM_CLOSED")
  func dataOnEnded() {
    let server = answered()
    #expect(server.receive(data(1, [UInt8](repeating: 0x20, count: 100))) == .ok)
    #expect(resetCode(server.output(), 1) == 0x5)
    server.receive(request(3))
    #expect(server.answerAll() == [3])
  }

  @Test("Frames that a client still sends on a refused stream are ignored")
  func lateFrames() {
    let server = Server.ready(.untrusted)
    server.receive(headers(1, requestBlock()))
    server.receive(headers(3, requestBlock()))
    #expect(resetCode(server.output(), 3) == 0x7)
    let late =
      data(3, [UInt8](repeating: 0x20, count: 500), endStream: false)
      + headers(3, literal("x", "y"), endStream: true)
    #expect(server.receive(late) == .ok)
    #expect(server.output().isEmpty)
    server.receive(data(1, Array("{\"aps\":{}}".utf8)))
    #expect(server.answerAll() == [1])
  }

  @Test("The rest of a request that was answered before its end is ignored")
  func cutOff() {
    let server = Server.ready()
    server.receive(headers(1, requestBlock()))
    let tooMuch = [UInt8](repeating: 0x20, count: 16_384)
    var sent = 0
    while sent <= Limits.discardedBodyBytes {
      #expect(server.receive(data(1, tooMuch, endStream: false)) == .ok)
      sent += tooMuch.count
      _ = server.outputBytes()
    }
    #expect(server.answerAll() == [1])
    _ = server.outputBytes()
    #expect(server.receive(data(1, tooMuch, endStream: true)) == .ok)
    #expect(resetCode(server.output(), 1) == nil)
  }

  @Test("WINDOW_UPDATE and RST_STREAM on a closed stream are ignored")
  func ignored() {
    let server = answered()
    let late =
      frame(Kind.windowUpdate, stream: 1, big(1)) + frame(Kind.reset, stream: 1, big(8))
    #expect(server.receive(late) == .ok)
    #expect(server.output().isEmpty)
  }

  @Test("DATA on closed streams is bounded, whatever the length of its frames")
  func flood() {
    let server = answered()
    let unit = data(1, [UInt8](repeating: 0x20, count: 1000), endStream: false)
    var count = 0
    while server.receive(unit) == .ok, count < 5000 {
      _ = server.outputBytes()
      count += 1
    }
    #expect(count <= Limits.idleFrameBurst)
    #expect(GoAway(server.output())?.code == 0xb)
  }
}

/// A few bytes that refer to long entries of the table (RFC 7541, section 6.1) expand to far more.
@Suite("Expanding header blocks")
struct ExpandingBlockTests {
  /// Section 6.2.1: a literal `x` of 4,000 bytes that enters the table, followed by its index, 62, many times.
  private static func bomb(_ count: Int) -> [UInt8] {
    [0x40, 1, 0x78, 127, 33 | 0x80, 30] + [UInt8](repeating: 0x61, count: 4000)
      + [UInt8](repeating: 0xbe, count: count)
  }

  /// As many as stay below the bound together with the literal.
  private static let most = Limits.headerBlockBytes / 4001 - 1

  @Test("Trailers that expand beyond the bound end the connection", arguments: [0, 1])
  func trailers(beyond: Int) {
    let server = Server.ready()
    server.receive(headers(1, requestBlock()))
    let result = server.receive(headers(1, Self.bomb(Self.most + beyond), endStream: true))
    #expect(result == (beyond == 0 ? .ok : .failed))
    if beyond == 0 {
      #expect(resetCode(server.output(), 1) == 0xb)
    } else {
      #expect(GoAway(server.output())?.code == 0xb)
    }
  }

  @Test("Too many blocks below the bound end the connection too")
  func many() {
    let server = Server.ready()
    server.receive(headers(1, requestBlock()))
    server.receive(headers(1, Self.bomb(Self.most), endStream: true))
    // A block of some 508,000 bytes costs as much as 500 frames without progress; 1,000 are free.
    server.receive(headers(3, requestBlock()))
    let index = [UInt8](repeating: 0xbe, count: Self.most)
    #expect(server.receive(headers(3, index, endStream: true)) == .ok)
    server.receive(headers(5, requestBlock()))
    #expect(server.receive(headers(5, index, endStream: true)) == .failed)
    #expect(GoAway(server.output())?.code == 0xb)
  }

  @Test("The bound also covers a request's fields, and a block of a refused stream")
  func requests() {
    let server = Server.ready()
    #expect(server.receive(headers(1, requestBlock() + Self.bomb(Self.most + 1))) == .failed)
    let untrusted = Server.ready(.untrusted)
    untrusted.receive(headers(1, requestBlock()))
    #expect(untrusted.receive(headers(3, Self.bomb(Self.most + 1))) == .failed)
    #expect(GoAway(untrusted.output())?.code == 0xb)
  }
}
