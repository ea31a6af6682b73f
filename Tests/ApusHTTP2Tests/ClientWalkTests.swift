import ApusModel
import ApusRandom
import Testing

@testable import ApusHTTP2

@Suite("Random walks over the client session")
struct ClientWalkTests {
  /// One step of a server that is mostly well-behaved.
  private func unit(_ open: Int, _ random: inout SeededRandom) -> [UInt8] {
    let stream = UInt32(1 + 2 * random.below(random.chance(1, in: 40) ? open + 1 : max(1, open)))
    switch random.below(18) {
    case 0...3: return headers(stream, [0x88] + literal("apns-id", "a"), endStream: true)
    case 4, 5: return headers(stream, [0x8c]) + data(stream, [0x7b, 0x7d])
    case 6:
      return headers(stream, [0x40, 1, 0x78, 1, 0x79, 0x88], endStream: random.chance(1, in: 2))
    case 7: return data(stream, [0x7b], endStream: random.chance(1, in: 2))
    case 8: return headers(stream, [0x08, 3, 0x31, 0x30, 0x33])
    case 9: return frame(Kind.reset, 0, stream: stream, big(UInt32(random.below(12))))
    case 10: return frame(Kind.windowUpdate, 0, stream: stream, big(UInt32(random.below(900))))
    case 11: return frame(Kind.windowUpdate, 0, stream: 0, big(UInt32(1 + random.below(900))))
    case 12: return frame(Kind.settings, 0, stream: 0, [0, 4] + big(UInt32(random.below(200))))
    case 13: return frame(Kind.settings, 0, stream: 0, [0, 1] + big(UInt32(random.below(200))))
    case 14: return frame(Kind.ping, 0, stream: 0, [0, 0, 0, 0, 0, 0, 0, 0])
    case 15:
      return frame(Kind.headers, 0, stream: stream, [0x88])
        + frame(Kind.continuation, Flag.endHeaders | Flag.endStream, stream: stream, [])
    case 16 where random.chance(1, in: 4):
      return frame(Kind.goAway, 0, stream: 0, big(UInt32(random.below(2 * open + 2))) + big(0))
    case 17 where random.chance(1, in: 4):
      return frame(UInt8(random.between(2, 20)), 0, stream: stream, [1, 2, 3, 4])
    default: return frame(0xee, 0, stream: stream)
    }
  }

  @Test("With any input every request has one outcome, and what is sent is whole frames")
  func walk() {
    var failed = 0
    for seed in UInt64(0)..<600 {
      var random = SeededRandom(seed: seed)
      let client = Client()
      var submitted = 0
      var outcomes: [Int32: String] = [:]
      var output: [UInt8] = []
      var bytes = frame(Kind.settings, 0, stream: 0, [0, 4] + big(UInt32(random.below(100))))
      for _ in 0..<60 where !client.session.hasFailed {
        while random.chance(2, in: 3),
          client.submit(body: [UInt8](repeating: 1, count: random.below(99))) != nil
        {
          submitted += 1
        }
        let limit = random.chance(1, in: 30) ? random.below(400) : 100_000
        client.session.pendingOutput(into: &output, limit: output.count + limit)
        bytes += unit(submitted, &random)
        if random.chance(1, in: 200) { bytes[random.below(bytes.count)] = UInt8(random.below(256)) }
        let piece = Array(bytes.prefix(1 + random.below(200)))
        bytes.removeFirst(piece.count)
        client.receive(piece)
        for (stream, outcome) in client.outcomes() {
          #expect(outcomes.updateValue(outcome, forKey: stream) == nil, "seed \(seed)")
        }
      }
      if client.session.hasFailed { failed += 1 }
      output += client.outputBytes()
      for (stream, outcome) in client.lost() {
        #expect(outcomes.updateValue(outcome, forKey: stream) == nil, "seed \(seed)")
      }
      #expect(outcomes.count == submitted, "seed \(seed)")
      #expect(client.session.openStreamCount == 0)
      let sent = frames(Array(output.dropFirst(preface.count)))
      #expect(sent != nil, "seed \(seed)")
      if client.session.hasFailed, submitted == 0 { #expect(GoAway(sent ?? []) != nil) }
    }
    #expect((50...590).contains(failed), "some walks end early, not all")
  }
}
