import ApusCore
import Testing

@Suite("Which relayed notification is sent when")
struct RelayLaneTests {
  private func sent(_ lane: inout RelayLane, at now: UInt64 = 0) -> [UInt64] {
    var orders: [UInt64] = []
    while case .send(let order) = lane.next(nowMilliseconds: now) { orders.append(order) }
    return orders
  }

  private func lane(_ orders: UInt64..., window: Int = 8) -> RelayLane {
    var lane = RelayLane(storedCount: 0, window: window)
    for order in orders { _ = lane.add(order) }
    return lane
  }

  @discardableResult
  private func answer(
    _ lane: inout RelayLane, _ order: UInt64, _ verdict: UpstreamVerdict?, at now: UInt64 = 0
  ) -> RelayLane.Ending {
    lane.answered(order, verdict, nowMilliseconds: now, entropy: 0)
  }

  @Test("Notifications are sent once each, in their order")
  func order() {
    var lane = lane(3, 5, 9)
    #expect(sent(&lane) == [3, 5, 9])
    #expect(sent(&lane) == [])
    #expect(answer(&lane, 5, .accepted(uniqueID: nil)) == .finished)
    #expect(answer(&lane, 3, .badToken) == .finished)
    #expect(lane.count == 1)
  }

  @Test("Beyond the window they wait in the store, and are read in their order")
  func window() {
    var lane = RelayLane(storedCount: 0, window: 4)
    #expect((1...4).map { lane.add($0) } == [true, true, true, true])
    #expect(lane.add(5) == false)
    #expect(lane.add(6) == false)
    #expect(lane.count == 6)
    #expect(sent(&lane) == [1, 2, 3, 4])
    answer(&lane, 1, .accepted(uniqueID: nil))
    #expect(lane.next(nowMilliseconds: 0) == .wait(untilMilliseconds: nil))
    answer(&lane, 2, .accepted(uniqueID: nil))
    #expect(lane.next(nowMilliseconds: 0) == .read(after: 4, count: 2))
    // One comes while the store is read.
    #expect(lane.add(7) == false)
    lane.read([5, 6], isEnd: false)
    #expect(sent(&lane) == [5, 6])
    #expect(lane.count == 5)
    for order: UInt64 in 3...6 { answer(&lane, order, .accepted(uniqueID: nil)) }
    #expect(lane.next(nowMilliseconds: 0) == .read(after: 6, count: 4))
    lane.read([7], isEnd: true)
    #expect(sent(&lane) == [7])
    #expect(lane.add(8) == true)
  }

  @Test("With room for more, new ones are kept beyond the window, and sent as others are answered")
  func room() {
    var lane = RelayLane(storedCount: 0, window: 2)
    #expect((1...3).map { lane.add($0, hasRoom: true) } == [true, true, true])
    #expect(lane.add(4, hasRoom: false) == false)
    // In their order: the fourth has to be read first.
    #expect(lane.add(5, hasRoom: true) == false)
    #expect(sent(&lane) == [1, 2])
    answer(&lane, 2, .accepted(uniqueID: nil))
    #expect(sent(&lane) == [3])
    for order: UInt64 in [1, 3] { answer(&lane, order, .accepted(uniqueID: nil)) }
    #expect(lane.next(nowMilliseconds: 0) == .read(after: 3, count: 2))
    lane.read([4, 5], isEnd: false)
    #expect(sent(&lane) == [4, 5])
  }

  @Test("What is put back waits until fewer than a window's are being sent")
  func putBackMany() {
    var lane = lane(7, window: 2)
    for order: UInt64 in 1...3 { lane.putBack(order) }
    #expect(sent(&lane) == [1, 2])
    answer(&lane, 1, .accepted(uniqueID: nil))
    #expect(sent(&lane) == [3])
    answer(&lane, 3, .accepted(uniqueID: nil))
    #expect(sent(&lane) == [7])
  }

  @Test("One that was read before its own word came is not known twice")
  func readEarly() {
    var lane = RelayLane(storedCount: 1, window: 4)
    #expect(lane.next(nowMilliseconds: 0) == .read(after: 0, count: 4))
    lane.read([1, 2], isEnd: true)
    #expect(lane.add(2) == false)
    // At worst the store is asked once more.
    #expect(lane.next(nowMilliseconds: 0) == .read(after: 2, count: 2))
    lane.read([], isEnd: true)
    #expect(sent(&lane) == [1, 2])
    for order: UInt64 in 1...2 { answer(&lane, order, .accepted(uniqueID: nil)) }
    #expect(lane.count == 0)
  }

  @Test("After a start everything is read from the store")
  func start() {
    var lane = RelayLane(storedCount: 1_000_000, window: 4)
    #expect(lane.next(nowMilliseconds: 0) == .read(after: 0, count: 4))
    #expect(lane.next(nowMilliseconds: 0) == .wait(untilMilliseconds: nil))
    lane.readFailed(nowMilliseconds: 0)
    #expect(lane.next(nowMilliseconds: 500) == .wait(untilMilliseconds: 1000))
    #expect(lane.next(nowMilliseconds: 1000) == .read(after: 0, count: 4))
    lane.read([10, 11, 12, 13], isEnd: false)
    #expect(sent(&lane, at: 1000) == [10, 11, 12, 13])
    #expect(lane.count == 1_000_000)
  }

  // MARK: Later

  @Test("What concerns one token delays that one only, each time twice as long")
  func single() {
    var lane = lane(1, 2)
    #expect(sent(&lane) == [1, 2])
    #expect(answer(&lane, 1, .later(afterSeconds: nil, isForAll: false)) == .again)
    _ = lane.add(3)
    #expect(sent(&lane) == [3])
    #expect(lane.next(nowMilliseconds: 0) == .wait(untilMilliseconds: 1000))
    #expect(sent(&lane, at: 1000) == [1])
    answer(&lane, 1, .again(mayDuplicate: true), at: 1000)
    #expect(lane.next(nowMilliseconds: 1000) == .wait(untilMilliseconds: 3000))
    #expect(sent(&lane, at: 3000) == [1])
    answer(&lane, 1, .later(afterSeconds: 30, isForAll: false), at: 3000)
    #expect(lane.next(nowMilliseconds: 3000) == .wait(untilMilliseconds: 33_000))
  }

  @Test("While upstream is busy nothing is sent; then one is tried, and its answer decides")
  func busy() {
    var lane = lane(1, 2, 3)
    #expect(sent(&lane) == [1, 2, 3])
    for order: UInt64 in 1...3 { answer(&lane, order, .later(afterSeconds: nil, isForAll: true)) }
    #expect(lane.hold == .busy)
    #expect(lane.next(nowMilliseconds: 999) == .wait(untilMilliseconds: 1000))
    #expect(sent(&lane, at: 1000) == [1])
    answer(&lane, 1, .again(mayDuplicate: false), at: 1000)
    #expect(lane.next(nowMilliseconds: 1000) == .wait(untilMilliseconds: 3000))
    #expect(sent(&lane, at: 3000) == [1])
    answer(&lane, 1, .accepted(uniqueID: nil), at: 3000)
    #expect(lane.hold == nil)
    #expect(sent(&lane, at: 3000) == [2, 3])
  }

  @Test("The longest pause is a minute, unless upstream asks for more")
  func longest() {
    var lane = lane(1)
    var now: UInt64 = 0
    for _ in 0..<12 {
      #expect(sent(&lane, at: now) == [1])
      answer(&lane, 1, .misconfigured, at: now)
      guard case .wait(let until?) = lane.next(nowMilliseconds: now) else {
        Issue.record("the lane is not held")
        return
      }
      #expect(until - now <= 60_000)
      now = until
    }
    #expect(lane.hold == .misconfigured)
    #expect(sent(&lane, at: now) == [1])
    answer(&lane, 1, .later(afterSeconds: 600, isForAll: true), at: now)
    #expect(lane.next(nowMilliseconds: now) == .wait(untilMilliseconds: now + 600_000))
  }

  @Test("A later answer of the same outage extends the pause only if upstream asks for more")
  func extended() {
    var lane = lane(1, 2, 3)
    #expect(sent(&lane) == [1, 2, 3])
    answer(&lane, 1, .again(mayDuplicate: false))
    answer(&lane, 2, .again(mayDuplicate: false), at: 500)
    #expect(lane.next(nowMilliseconds: 500) == .wait(untilMilliseconds: 1000))
    answer(&lane, 3, .later(afterSeconds: 5, isForAll: true), at: 600)
    #expect(lane.next(nowMilliseconds: 600) == .wait(untilMilliseconds: 5600))
  }

  // MARK: The end

  @Test("What has expired is given up, unless upstream is being asked")
  func expired() {
    var lane = lane(1, 2, 3, 4)
    guard case .send(1) = lane.next(nowMilliseconds: 0) else {
      Issue.record("nothing was sent")
      return
    }
    guard case .send(2) = lane.next(nowMilliseconds: 0) else {
      Issue.record("nothing was sent")
      return
    }
    answer(&lane, 2, .later(afterSeconds: nil, isForAll: false))
    let dropped = lane.drop([1, 2, 3, 77])
    #expect(dropped.sorted() == [2, 3])
    #expect(sent(&lane) == [4])
    #expect(lane.count == 2)
  }

  @Test("A pause by the operator lasts until he ends it")
  func paused() {
    var lane = lane(1, 2)
    guard case .send(1) = lane.next(nowMilliseconds: 0) else {
      Issue.record("nothing was sent")
      return
    }
    lane.pause()
    answer(&lane, 1, .accepted(uniqueID: nil))
    #expect(lane.next(nowMilliseconds: 1_000_000) == .wait(untilMilliseconds: nil))
    #expect(lane.hold == .paused)
    lane.resume()
    #expect(sent(&lane) == [2])
  }

  @Test("A changed configuration ends all waiting")
  func resumed() {
    var lane = lane(1, 2, 3)
    #expect(sent(&lane) == [1, 2, 3])
    for order: UInt64 in [3, 1, 2] { answer(&lane, order, .misconfigured) }
    lane.resume()
    #expect(sent(&lane) == [1, 2, 3])
  }
}
