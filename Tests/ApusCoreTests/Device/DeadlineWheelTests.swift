import ApusRandom
import ApusCore
import Testing

struct DeadlineWheelTests {
  func entry(_ number: Int) -> DeadlineWheel.Entry {
    DeadlineWheel.Entry(slot: Int32(number), generation: 3)
  }

  func advance(_ wheel: inout DeadlineWheel, to now: UInt64) -> [Int32] {
    wheel.advance(toSeconds: now)
    var due: [Int32] = []
    while let entry = wheel.takeDue() { due.append(entry.slot) }
    return due
  }

  @Test(
    "An entry is due once, when its second comes", arguments: [1, 2, 63, 4094, 4095] as [UInt64])
  func due(after seconds: UInt64) {
    var wheel = DeadlineWheel(nowSeconds: 10_000)
    wheel.add(entry(1), deadlineSeconds: 10_000 + seconds)
    #expect(advance(&wheel, to: 10_000 + seconds - 1) == [])
    #expect(advance(&wheel, to: 10_000 + seconds) == [1])
    #expect(advance(&wheel, to: 10_000 + seconds + 5000) == [])
  }

  @Test(
    "A deadline in the past is due a second from now", arguments: [0, 9_999, 10_000] as [UInt64])
  func past(deadline: UInt64) {
    var wheel = DeadlineWheel(nowSeconds: 10_000)
    wheel.add(entry(1), deadlineSeconds: deadline)
    #expect(advance(&wheel, to: 10_000) == [])
    #expect(advance(&wheel, to: 10_001) == [1])
  }

  @Test(
    "A deadline beyond one turn of the wheel is examined after one turn",
    arguments: [4096, 9000, .max - 10_000] as [UInt64])
  func far(seconds: UInt64) {
    var wheel = DeadlineWheel(nowSeconds: 10_000)
    wheel.add(entry(1), deadlineSeconds: 10_000 + seconds)
    #expect(advance(&wheel, to: 14_094) == [])
    #expect(advance(&wheel, to: 14_095) == [1])
  }

  @Test("A clock that jumps ahead makes everything due once, and one that goes back nothing")
  func jumps() {
    var wheel = DeadlineWheel(nowSeconds: 100)
    for number in 1...50 { wheel.add(entry(number), deadlineSeconds: 100 + UInt64(number) * 80) }
    #expect(advance(&wheel, to: 99) == [])
    #expect(advance(&wheel, to: 0) == [])
    #expect(advance(&wheel, to: 1_000_000).sorted() == (1...50).map(Int32.init))
    #expect(advance(&wheel, to: 2_000_000) == [])
    wheel.add(entry(7), deadlineSeconds: 2_000_005)
    #expect(advance(&wheel, to: 2_000_005) == [7])
  }

  @Test("Due entries can be taken a few at a time, the earliest first, while more become due")
  func fewAtATime() {
    var wheel = DeadlineWheel(nowSeconds: 0)
    for number in 0..<100 { wheel.add(entry(number), deadlineSeconds: 1) }
    for number in 100..<150 { wheel.add(entry(number), deadlineSeconds: 2) }
    #expect(!wheel.hasDue)
    var taken: [Int32] = []
    wheel.advance(toSeconds: 1)
    while taken.count < 7, let next = wheel.takeDue() { taken.append(next.slot) }
    wheel.advance(toSeconds: 2)
    // An entry that is added again is not due before its time.
    wheel.add(entry(200), deadlineSeconds: 3)
    #expect(wheel.hasDue)
    while let next = wheel.takeDue() { taken.append(next.slot) }
    #expect(taken == (0..<150).map(Int32.init))
    #expect(!wheel.hasDue)
    #expect(advance(&wheel, to: 3) == [200])
  }

  @Test("Random deadlines are due in their seconds", arguments: 1...20 as ClosedRange<UInt64>)
  func walk(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var now = UInt64.random(in: 0...1_000_000, using: &random)
    var wheel = DeadlineWheel(nowSeconds: now)
    var expected: [Int32: UInt64] = [:]
    for number in 0..<Int32(500) {
      let deadline = now + UInt64.random(in: 1...4095, using: &random)
      wheel.add(entry(Int(number)), deadlineSeconds: deadline)
      expected[number] = deadline
      if number % 5 == 0 {
        now += UInt64.random(in: 0...300, using: &random)
        let due = advance(&wheel, to: now)
        #expect(Set(due) == Set(expected.filter { $0.value <= now }.keys), "seed \(seed)")
        #expect(Set(due).count == due.count, "seed \(seed)")
        for slot in due { expected[slot] = nil }
      }
    }
  }
}
