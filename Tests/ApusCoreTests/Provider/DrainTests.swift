import ApusCore
import Testing

struct DrainTests {
  @Test("An idle connection gets one GOAWAY and is closed")
  func idle() {
    var drain = Drain()
    #expect(!drain.isDraining)
    #expect(drain.gap(openStreams: 0) == .none)
    drain.begin(nowSeconds: 100)
    #expect(drain.isDraining && drain.acceptsStreams)
    #expect(drain.gap(openStreams: 0) == .sendFinalGoAway)
    #expect(!drain.acceptsStreams)
    #expect(drain.gap(openStreams: 0) == .close)
    #expect(drain.gap(openStreams: 0) == .none)
    #expect(drain.tick(nowSeconds: 1_000) == .none)
  }

  @Test("A busy connection is waited for, and announces nothing when a gap comes in time")
  func gapInTime() {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    #expect(drain.gap(openStreams: 3) == .none)
    #expect(drain.tick(nowSeconds: 109) == .none)
    #expect(drain.acceptsStreams)
    #expect(drain.gap(openStreams: 1) == .none)
    #expect(drain.gap(openStreams: 0) == .sendFinalGoAway)
    #expect(drain.gap(openStreams: 0) == .close)
  }

  @Test("Without a gap: announce, answer what is open, then the final one")
  func announced() {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    #expect(drain.gap(openStreams: 9) == .none)
    #expect(drain.tick(nowSeconds: 110) == .announce)
    #expect(drain.gap(openStreams: 9) == .none)
    #expect(drain.acceptsStreams)
    #expect(drain.tick(nowSeconds: 111) == .none)
    #expect(drain.gap(openStreams: 0) == .sendFinalGoAway)
    #expect(drain.gap(openStreams: 0) == .close)
  }

  @Test(
    "A client that never stops is ended after three waits, its open streams answered if they can be"
  )
  func relentless() {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    #expect(drain.tick(nowSeconds: 110) == .announce)
    #expect(drain.tick(nowSeconds: 119) == .none)
    #expect(drain.tick(nowSeconds: 120) == .sendFinalGoAway)
    #expect(drain.gap(openStreams: 5) == .none)
    #expect(!drain.acceptsStreams)
    #expect(drain.tick(nowSeconds: 129) == .none)
    var answered = drain
    #expect(answered.gap(openStreams: 0) == .close)
    #expect(drain.tick(nowSeconds: 130) == .close)
    #expect(drain.tick(nowSeconds: 200) == .none)
  }

  @Test("To begin twice is to begin once")
  func twice() {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    drain.begin(nowSeconds: 109)
    #expect(drain.tick(nowSeconds: 110) == .announce)
    drain.begin(nowSeconds: 111)
    #expect(drain.tick(nowSeconds: 120) == .sendFinalGoAway)
  }

  @Test(
    "A clock set back makes a wait begin anew, not last for ever",
    arguments: [1, 3600, 1 << 40] as [Int64])
  func clockSetBack(_ jump: Int64) {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    #expect(drain.tick(nowSeconds: 100 - jump) == .none)
    #expect(drain.tick(nowSeconds: 109 - jump) == .none)
    #expect(drain.tick(nowSeconds: 110 - jump) == .announce)
  }

  @Test("A connection that was not asked to end is not ended by time")
  func serving() {
    var drain = Drain()
    #expect(drain.tick(nowSeconds: .max) == .none)
    #expect(drain.acceptsStreams)
  }

  @Test(
    "On every path the final GOAWAY comes once, before the close and after any announcement",
    arguments: 1...50 as ClosedRange<UInt64>)
  func walk(seed: UInt64) {
    var random = SeededRandom(state: seed)
    var drain = Drain()
    var now: Int64 = 1_000
    var actions: [Drain.Action] = []
    drain.begin(nowSeconds: now)
    for _ in 0..<200 {
      let action: Drain.Action
      if Bool.random(using: &random) {
        now += Int64.random(in: 0...4, using: &random)
        action = drain.tick(nowSeconds: now)
      } else {
        action = drain.gap(openStreams: Int.random(in: 0...8, using: &random))
      }
      if action != .none { actions.append(action) }
    }
    let short: [Drain.Action] = [.sendFinalGoAway, .close]
    #expect(actions == short || actions == [.announce] + short, "seed \(seed)")
  }
}
