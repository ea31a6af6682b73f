import ApusRandom
import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Random walks over the server session")
struct RandomWalkTests {
  /// One step of a client that is mostly well-behaved.
  private func unit(_ stream: inout UInt32, _ random: inout SeededRandom) -> [UInt8] {
    let old = UInt32.random(in: 0...stream / 2, using: &random) * 2 + 1
    switch Int.random(in: 0..<14, using: &random) {
    case 0...4:
      stream += 2
      return request(stream)
    case 5:
      stream += 2
      return headers(stream, requestBlock())
    case 6: return data(old, [0x20], endStream: Bool.random(using: &random))
    case 7: return frame(Kind.reset, 0, stream: old, big(8))
    case 8: return frame(Kind.windowUpdate, 0, stream: old, big(.random(in: 0...9, using: &random)))
    case 9: return frame(Kind.ping, 0, stream: 0, [0, 0, 0, 0, 0, 0, 0, 0])
    case 10:
      return frame(Kind.settings, 0, stream: 0, [0, 4] + big(.random(in: 0...99, using: &random)))
    case 11:
      stream += 2
      return headers(stream, requestBlock(literal("Bad", "x")), endStream: true)
    case 12: return headers(old, literal("trailer", "x"), endStream: true)
    default: return frame(.random(in: 2...20, using: &random), 0, stream: old, [1, 2, 3, 4])
    }
  }

  @Test(
    "With any input the session lives or ends with a GOAWAY, and keeps no request"
  )
  func walk() {
    for seed in UInt64(0)..<400 {
      var random = SeededRandom(seed: seed)
      let server = Server(Bool.random(using: &random) ? .trusted : .untrusted)
      var stream = UInt32(1)
      var bytes = preface + frame(Kind.settings) + frame(Kind.settings, Flag.acknowledge)
      for _ in 0..<60 { bytes += unit(&stream, &random) }
      if Bool.random(using: &random) {
        for _ in 0..<3 {
          bytes[.random(in: 0..<bytes.count, using: &random)] = .random(in: 0...255, using: &random)
        }
      }
      var output: [UInt8] = []
      var held: [HTTP2Request] = []
      var now: UInt64 = 1000
      var rest = bytes[...]
      while !rest.isEmpty, !server.session.isFinished {
        let piece = Array(rest.prefix(.random(in: 1...200, using: &random)))
        rest = rest.dropFirst(piece.count)
        now += .random(in: 0...1500, using: &random)
        server.receive(piece, at: now)
        while let request = server.session.nextRequest() { held.append(request) }
        while let request = server.session.nextTimedOutRequest() { held.append(request) }
        held.removeAll { request in
          guard Bool.random(using: &random) else { return false }
          _ =
            Bool.random(using: &random)
            ? server.ok(request.streamID) : server.refuse(request.streamID)
          server.session.release(request)
          return true
        }
        _ = server.session.tick(nowMilliseconds: now)
        server.session.pendingOutput(into: &output, limit: output.count + 300)
      }
      for request in held { server.session.release(request) }
      while server.session.wantsWrite { output += server.outputBytes() }
      let sent = frames(output)
      #expect(sent != nil, "seed \(seed)")
      if server.session.isFinished { #expect(GoAway(sent ?? []) != nil, "seed \(seed)") }
      #expect(
        server.pool.openCount == server.session.openStreamCount + queued(server), "seed \(seed)")
    }
  }

  /// Requests that only a queue has: cancelled before they were handed out.
  private func queued(_ server: Server) -> Int {
    var count = 0
    while let request = server.session.completed.pop() { if request.slot < 0 { count += 1 } }
    while let request = server.session.timedOut.pop() { if request.slot < 0 { count += 1 } }
    return count
  }

  @Test("The frame watch has the same results for any chunks")
  func watch() {
    for seed in UInt64(0)..<200 {
      var random = SeededRandom(seed: seed)
      var stream = UInt32(1)
      var bytes = preface + frame(Kind.settings)
      for _ in 0..<40 { bytes += unit(&stream, &random) }
      bytes.removeLast(.random(in: 0...20, using: &random))
      var whole = FrameWatch(nowMilliseconds: 0)
      let flood = whole.advance(bytes.span, nowMilliseconds: 0)
      var parts = FrameWatch(nowMilliseconds: 0)
      var rest = bytes[...]
      while !rest.isEmpty {
        let piece = Array(rest.prefix(.random(in: 1...12, using: &random)))
        rest = rest.dropFirst(piece.count)
        let partial = parts.advance(piece.span, nowMilliseconds: 0)
        #expect(partial == nil)
      }
      #expect(flood == nil)
      #expect(whole.isInsideUnit == parts.isInsideUnit, "seed \(seed)")
      #expect(whole.unit == parts.unit, "seed \(seed)")
      #expect(whole.idleFrames.tokens == parts.idleFrames.tokens, "seed \(seed)")
      #expect(whole.resets.tokens == parts.resets.tokens, "seed \(seed)")
    }
  }
}
