import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Floods")
struct ServerFloodTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// The repeated bytes.
    var unit: [UInt8]
    /// How many of them pass at one instant.
    var allowed: Int
  }

  /// SETTINGS_INITIAL_WINDOW_SIZE, as often as fits into a frame.
  private static let settingsEntries = (0..<2730).flatMap { _ -> [UInt8] in
    [0, 4, 0, 0, 0xff, 0xff]
  }

  /// The burst is 1,000 frames; the first SETTINGS frame of `ready` took 4 and its acknowledgement another 4, and the
  /// request on stream 1 restored 4.
  static let cases = [
    Case(
      testDescription: "PING", unit: frame(Kind.ping, 0, [0, 0, 0, 0, 0, 0, 0, 0]), allowed: 996),
    Case(testDescription: "SETTINGS", unit: frame(Kind.settings), allowed: 249),
    Case(
      testDescription: "SETTINGS of 2,730 entries",
      unit: frame(Kind.settings, 0, settingsEntries), allowed: 2),
    Case(
      testDescription: "empty DATA", unit: frame(Kind.data, 0, stream: 1), allowed: 996),
    Case(
      testDescription: "DATA of one byte", unit: frame(Kind.data, 0, stream: 1, [0x20]),
      allowed: 996),
    Case(
      testDescription: "DATA on a closed stream",
      unit: frame(Kind.data, Flag.endStream, stream: 1), allowed: 995),
    Case(
      testDescription: "PRIORITY", unit: frame(Kind.priority, 0, stream: 1, [0, 0, 0, 0, 1]),
      allowed: 996),
    Case(
      testDescription: "PRIORITY on idle streams",
      unit: frame(Kind.priority, 0, stream: 999, [0, 0, 0, 0, 1]), allowed: 996),
    Case(
      testDescription: "WINDOW_UPDATE", unit: frame(Kind.windowUpdate, 0, [0, 0, 0, 1]),
      allowed: 996),
    Case(testDescription: "an unknown type", unit: frame(0xbb, 0, [1, 2, 3]), allowed: 996),
  ]

  @Test("Frames without progress are bounded", arguments: cases)
  func idleFrames(flood: Case) {
    let server = Server.ready()
    if flood.testDescription == "DATA on a closed stream" {
      server.receive(request(1))
      server.answerAll()
      _ = server.output()
    } else {
      server.receive(headers(1, requestBlock()))
    }
    var count = 0
    while server.receive(flood.unit) == .ok, count < 2000 {
      _ = server.output()
      count += 1
    }
    #expect(count == flood.allowed)
    #expect(
      GoAway(server.output())
        == GoAway(last: 1, code: 0xb, text: "{\"reason\":\"TooManyRequests\"}"))
    #expect(server.session.isFinished)
  }

  @Test("The bound is restored with time and with requests")
  func recovery() {
    let server = Server.ready()
    let ping = Self.cases[0].unit
    var now: UInt64 = 1000
    for _ in 0..<5000 {
      #expect(server.receive(ping, at: now) == .ok)
      _ = server.output()
      now += 10
    }
    // Four for each request, at one instant.
    for stream in 0..<UInt32(2000) {
      let bytes = request(stream * 2 + 1) + ping + ping
      #expect(server.receive(bytes, at: now) == .ok)
      server.answerAll()
      _ = server.output()
    }
  }

  @Test(
    "Neither the bytes that exceed the limit nor earlier ones of the same input are processed"
  )
  func nothingProcessed() {
    let server = Server.ready()
    let flood = (0..<1100).flatMap { _ in Self.cases[0].unit }
    #expect(server.receive(request(1) + flood) == .failed)
    #expect(server.session.nextRequest() == nil)
    #expect(GoAway(server.output())?.last == 0)
  }

  @Test("Eight CONTINUATION frames pass, nine do not", arguments: [(8, true), (9, false)])
  func continuations(count: Int, isFine: Bool) {
    let server = Server.ready()
    var bytes = frame(Kind.headers, Flag.endStream, stream: 1, requestBlock())
    for index in 1...count {
      let flags = index == count ? Flag.endHeaders : 0
      bytes += frame(Kind.continuation, flags, stream: 1, literal("x", "\(index)"))
    }
    #expect(server.receive(bytes) == (isFine ? .ok : .failed))
    #expect((server.session.nextRequest() != nil) == isFine)
    if !isFine { #expect(GoAway(server.output())?.code == 0xb) }
  }

  @Test("CONTINUATION frames after an ignored header block are bounded too")
  func ignoredContinuations() {
    let server = Server.ready(.untrusted)
    server.receive(headers(1, requestBlock()))
    server.receive(frame(Kind.headers, 0, stream: 3, requestBlock()))
    let unit = frame(Kind.continuation, 0, stream: 3, literal("x", "y"))
    for _ in 0..<8 { #expect(server.receive(unit) == .ok) }
    #expect(server.receive(unit) == .failed)
  }

  @Test("A thousand requests may be reset at once, and no more")
  func rapidReset() {
    let server = Server.ready()
    var stream: UInt32 = 1
    var result = HTTP2SessionResult.ok
    while result == .ok, stream < 9000 {
      result = server.receive(
        headers(stream, requestBlock(), endStream: true)
          + frame(Kind.reset, 0, stream: stream, [0, 0, 0, 8]))
      stream += 2
    }
    #expect(stream == 1 + 2 * 1001)
    #expect(server.session.nextRequest() == nil)
    #expect(GoAway(server.output())?.code == 0xb)
    #expect(server.pool.openCount == 0)
  }

  @Test("A client that lets half of its requests be answered may always reset the other half")
  func resetOfHalf() {
    let server = Server.ready()
    for turn in 0..<UInt32(3000) {
      let stream = turn * 4 + 1
      server.receive(request(stream) + headers(stream + 2, requestBlock()))
      server.answerAll()
      _ = server.output()
      let reset = frame(Kind.reset, 0, stream: stream + 2, [0, 0, 0, 8])
      #expect(server.receive(reset) == .ok)
    }
  }

  @Test("Making the service reset streams counts like resetting them")
  func madeToReset() {
    let server = Server.ready()
    var stream: UInt32 = 1
    var result = HTTP2SessionResult.ok
    while result == .ok, stream < 9000 {
      // A window of more than 2^31-1 bytes: a stream error (RFC 9113, section 6.9.1), after a complete request.
      result = server.receive(
        request(stream)
          + frame(Kind.windowUpdate, 0, stream: stream, [0x7f, 0xff, 0xff, 0xff]))
      _ = server.session.nextRequest().map(server.session.release)
      if result == .ok { _ = server.output() }
      stream += 2
    }
    #expect(stream == 1 + 2 * 1001)
    #expect(GoAway(server.output())?.code == 0xb)
  }

  @Test("Answers to PING that a client does not read are bounded")
  func unreadAnswers() {
    let server = Server.ready()
    var now: UInt64 = 1000
    var count = 0
    // Slow enough for the bound on frames, but never read.
    while server.receive(Self.cases[0].unit, at: now) == .ok, count < 5000 {
      now += 100
      count += 1
    }
    #expect(count == 1000)
    let output = server.output()
    #expect(output.count { $0.type == Kind.ping } == 1000)
    #expect(GoAway(output)?.code == 0xb)
  }

  @Test("SETTINGS with unusual values are accepted")
  func unusualSettings() {
    let server = Server.ready()
    let settings: [UInt8] = [
      0x00, 0x01, 0x00, 0x00, 0x00, 0x00,  // no table
      0x00, 0x01, 0xff, 0xff, 0xff, 0xff,  // a huge one
      0x00, 0x03, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x04, 0x7f, 0xff, 0xff, 0xff,
      0x00, 0x05, 0x00, 0xff, 0xff, 0xff,
      0x00, 0x06, 0x00, 0x00, 0x00, 0x00,
      0xab, 0xcd, 0x00, 0x00, 0x00, 0x01,  // unknown
    ]
    #expect(server.receive(frame(Kind.settings, 0, settings)) == .ok)
    server.receive(request(1))
    #expect(server.session.nextRequest() != nil)
    #expect(server.refuse(1))
    #expect(server.output().map(\.type) == [Kind.settings, Kind.headers, Kind.data])
  }
}

private func frame(_ type: UInt8, _ flags: UInt8, _ payload: [UInt8]) -> [UInt8] {
  frame(type, flags, stream: 0, payload)
}
