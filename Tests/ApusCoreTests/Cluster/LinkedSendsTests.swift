import ApusModel
import Testing

@testable import ApusCore

@Suite("Notifications that another node decides about")
struct LinkedSendsTests {
  private var sends = LinkedSends()

  private static func answer(_ slot: UInt32) -> Answer {
    Answer(worker: 1, slot: slot, generation: 0)
  }

  private mutating func submit(_ slots: UInt32..., atMilliseconds now: UInt64 = 0) {
    for slot in slots {
      let notification = Notification()
      notification.order = UInt64(slot)
      sends.submit(notification, Self.answer(slot), nowMilliseconds: now)
    }
  }

  /// Sends everything that waits, and returns the numbers on the link by the notifications, and whether these say that
  /// the device may have them.
  private mutating func sendAll() -> [(order: UInt64, number: UInt32, isMarked: Bool)] {
    var sent: [(UInt64, UInt32, Bool)] = []
    while let (number, notification) = sends.next() {
      sent.append((notification.order, number, notification.mayBeRepeated))
    }
    return sent
  }

  @Test("They are sent in order, and each verdict finds its request")
  mutating func order() {
    submit(10, 11, 12)
    let sent = sendAll()
    #expect(sent.map(\.order) == [10, 11, 12])
    #expect(sends.count == 3 && sends.waitingCount == 0)
    for place in [2, 0, 1] {
      let decided = sends.decided(sent[place].number)
      #expect(decided?.answer == Self.answer(UInt32(sent[place].order)))
      #expect(decided?.notification.order == sent[place].order)
    }
    #expect(sends.count == 0)
  }

  @Test("A second verdict, one that nothing was sent for, and one for what waits mean nothing")
  mutating func strayVerdicts() {
    submit(10)
    #expect(sends.decided(0) == nil)
    #expect(sends.decided(7) == nil)
    let number = sendAll()[0].number
    #expect(sends.decided(number) != nil)
    #expect(sends.decided(number) == nil)
  }

  @Test("After the link has ended, what has no verdict is sent again before what came later")
  mutating func linkEnds() {
    submit(10, 11, 12, 13)
    let sent = sendAll()
    _ = sends.decided(sent[1].number)
    // Takes the free number, which is lower than those of older ones.
    submit(14)
    sends.linkEnded()
    #expect(sends.waitingCount == 4)
    #expect(sends.decided(sent[0].number) == nil, "of the link before")
    #expect(sendAll().map(\.order) == [10, 12, 13, 14])
    sends.linkEnded()
    submit(15)
    #expect(sendAll().map(\.order) == [10, 12, 13, 14, 15])
  }

  @Test("What was sent before says so when it is sent again, and nothing else does")
  mutating func marks() {
    submit(10, 11)
    #expect(sendAll().map(\.isMarked) == [false, false])
    submit(12)
    sends.linkEnded()
    submit(13)
    #expect(sendAll().map(\.isMarked) == [true, true, false, false])
    sends.linkEnded()
    // While there is no link, another one does not come about either.
    sends.linkEnded()
    submit(14)
    #expect(sendAll().map(\.isMarked) == [true, true, true, true, false])
  }

  @Test("What waits for too long is given up, and what was sent is not")
  mutating func overdue() {
    let limit = Limits.linkWaitMilliseconds
    submit(10)
    _ = sendAll()
    submit(11, atMilliseconds: 100)
    submit(12, atMilliseconds: 200)
    #expect(sends.nextOverdue(nowMilliseconds: 99 + limit) == nil)
    #expect(sends.nextOverdue(nowMilliseconds: 100 + limit)?.answer == Self.answer(11))
    #expect(sends.nextOverdue(nowMilliseconds: 100 + limit) == nil)
    // Sent long ago, and the link ends only now.
    sends.linkEnded()
    #expect(sends.nextOverdue(nowMilliseconds: 100 + limit)?.answer == Self.answer(10))
    #expect(sends.nextOverdue(nowMilliseconds: 100 + limit) == nil)
    #expect(sendAll().map(\.order) == [12])
    #expect(sends.nextOverdue(nowMilliseconds: 1000 + limit) == nil)
  }
}
