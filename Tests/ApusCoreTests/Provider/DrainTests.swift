import ApusRandom
import ApusCore
import Testing

struct DrainTests {
  @Test("An idle connection is told at once, and closed when it has acknowledged the PING")
  func idle() {
    var drain = Drain()
    #expect(!drain.isDraining)
    #expect(drain.flush(openStreams: 0, isWriting: false) == .none)
    drain.begin(nowSeconds: 100)
    #expect(drain.isDraining && drain.acceptsStreams)
    #expect(drain.flush(openStreams: 0, isWriting: false) == .announce)
    #expect(drain.flush(openStreams: 0, isWriting: true) == .none)
    #expect(drain.acceptsStreams)
    drain.announcementSeen()
    #expect(drain.flush(openStreams: 0, isWriting: false) == .sendFinalGoAway)
    #expect(!drain.acceptsStreams)
    #expect(drain.flush(openStreams: 0, isWriting: true) == .close)
    #expect(drain.flush(openStreams: 0, isWriting: false) == .none)
    #expect(drain.tick(nowSeconds: 1_000) == .none)
  }

  @Test("The announcement is sent with the answer to the last open stream")
  func lastAnswer() {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    #expect(drain.flush(openStreams: 3, isWriting: true) == .none)
    #expect(drain.flush(openStreams: 1, isWriting: true) == .none)
    #expect(drain.flush(openStreams: 0, isWriting: true) == .announce)
    // A request that crossed with it.
    drain.announcementSeen()
    #expect(drain.flush(openStreams: 1, isWriting: false) == .none)
    #expect(drain.flush(openStreams: 0, isWriting: true) == .sendFinalGoAway)
    #expect(drain.flush(openStreams: 0, isWriting: true) == .close)
  }

  @Test("If streams are always open, the announcement is sent with the next answer after a second")
  func busy() {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    #expect(drain.flush(openStreams: 9, isWriting: true) == .none)
    #expect(drain.tick(nowSeconds: 101) == .none)
    #expect(drain.flush(openStreams: 9, isWriting: false) == .none)
    #expect(drain.flush(openStreams: 9, isWriting: true) == .announce)
    drain.announcementSeen()
    #expect(drain.flush(openStreams: 9, isWriting: true) == .none)
    #expect(drain.flush(openStreams: 0, isWriting: true) == .sendFinalGoAway)
  }

  @Test("A client that does not acknowledge the PING is waited for a second")
  func noAnswer() {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    #expect(drain.flush(openStreams: 0, isWriting: false) == .announce)
    #expect(drain.tick(nowSeconds: 100) == .none)
    #expect(drain.flush(openStreams: 0, isWriting: false) == .none)
    #expect(drain.tick(nowSeconds: 101) == .none)
    #expect(drain.flush(openStreams: 0, isWriting: false) == .sendFinalGoAway)
  }

  @Test(
    "A client that never stops is closed after three waits, its open streams answered if possible"
  )
  func relentless() {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    #expect(drain.tick(nowSeconds: 110) == .announce)
    #expect(drain.tick(nowSeconds: 119) == .none)
    #expect(drain.tick(nowSeconds: 120) == .sendFinalGoAway)
    #expect(drain.flush(openStreams: 5, isWriting: true) == .none)
    #expect(!drain.acceptsStreams)
    #expect(drain.tick(nowSeconds: 129) == .none)
    var answered = drain
    #expect(answered.flush(openStreams: 0, isWriting: true) == .close)
    #expect(drain.tick(nowSeconds: 130) == .close)
    #expect(drain.tick(nowSeconds: 200) == .none)
  }

  @Test("Beginning a drain twice has no further effect")
  func twice() {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    drain.begin(nowSeconds: 109)
    #expect(drain.tick(nowSeconds: 110) == .announce)
    drain.begin(nowSeconds: 111)
    #expect(drain.tick(nowSeconds: 120) == .sendFinalGoAway)
  }

  @Test(
    "A clock that is set back restarts a wait, and never makes it last for ever",
    arguments: [1, 3600, 1 << 40] as [Int64])
  func clockSetBack(_ jump: Int64) {
    var drain = Drain()
    drain.begin(nowSeconds: 100)
    #expect(drain.tick(nowSeconds: 100 - jump) == .none)
    #expect(drain.tick(nowSeconds: 109 - jump) == .none)
    #expect(drain.tick(nowSeconds: 110 - jump) == .announce)
  }

  @Test("A connection without a drain never ends because of time")
  func serving() {
    var drain = Drain()
    drain.announcementSeen()
    #expect(drain.tick(nowSeconds: .max) == .none)
    #expect(drain.acceptsStreams)
  }

  @Test(
    "On every path each step occurs once, in order", arguments: 1...50 as ClosedRange<UInt64>)
  func walk(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var drain = Drain()
    var now: Int64 = 1_000
    var actions: [Drain.Action] = []
    drain.begin(nowSeconds: now)
    for _ in 0..<200 {
      let action: Drain.Action
      switch Int.random(in: 0..<5, using: &random) {
      case 0...1:
        now += Int64.random(in: 0...4, using: &random)
        action = drain.tick(nowSeconds: now)
      case 2:
        drain.announcementSeen()
        action = .none
      default:
        action = drain.flush(
          openStreams: Int.random(in: 0...8, using: &random), isWriting: Bool.random(using: &random)
        )
      }
      if action != .none { actions.append(action) }
    }
    #expect(actions == [.announce, .sendFinalGoAway, .close], "seed \(seed)")
  }
}
