import ApusCore
import ApusModel
import ApusWalks
import Testing

/// A device that is slower than its providers.
struct ShardBacklogTests: ShardSuite {
  let model = ShardModel(devices: 1)

  @Test("A full queue holds answers back, and accepts held-back notifications in order")
  func heldBack() throws {
    serve()
    var expected: [UInt64] = []
    for _ in 0..<(Limits.courierQueueFrames + 3) {
      expected.append(try #require(model.submit(device, topic)))
    }
    let heldBack = expected.suffix(3)
    #expect(device.session?.heldBackCount == 3)
    model.settle()
    #expect(heldBack.allSatisfy { model.letters[$0]?.isAccepted == nil })
    var sent: [UInt64] = []
    for _ in 0..<200 {
      let burst = sendAll()
      sent += burst
      for order in burst { acknowledge(order) }
    }
    #expect(sent == expected)
    #expect(heldBack.allSatisfy { model.letters[$0]?.isAccepted == true })
    #expect(model.count(.storedDeviceOffline) == 0)
    #expect(model.count(.replaced) == 0)
    expectLawful()
  }

  @Test("When a device disconnects, held-back notifications go to the store")
  func heldBackThenGone() throws {
    serve()
    for _ in 0..<(Limits.courierQueueFrames + 1) { model.submit(device, topic) }
    let last = model.lastOrder
    let volatileOrder = try #require(model.submit(device, topic, expiresInSeconds: 0))
    model.disconnect(device)
    #expect(model.letters[volatileOrder]?.isAccepted == true)
    model.settle()
    #expect(model.letters[last]?.isAccepted == true)
    #expect(model.store.values.contains(last))
    expectLawful()
  }

  @Test(
    "A device that acknowledges gets a whole burst in order",
    arguments: [0, 3600] as [Int64], ProviderInterface.allCases)
  func burst(expiresInSeconds: Int64, interface: ProviderInterface) throws {
    serve()
    var expected: [UInt64] = []
    var sent: [UInt64] = []
    while expected.count < 3 * Limits.courierQueueFrames || sent.count < expected.count {
      if expected.count < 3 * Limits.courierQueueFrames {
        for _ in 0..<512 {
          expected.append(
            try #require(
              model.submit(
                device, topic, expiresInSeconds: expiresInSeconds, interface: interface)))
        }
      }
      let window = sendAll()
      try #require(!window.isEmpty)
      sent += window
      for order in window { acknowledge(order) }
      // A device that acknowledges 32 notifications a second is slow, but makes progress.
      model.loopMilliseconds += 1_000
      model.deadlineReached(device)
    }
    model.settle()
    #expect(sent == expected)
    #expect(expected.allSatisfy { model.letters[$0]?.isAccepted == true })
    #expect(model.count(.delivered) == UInt64(expected.count))
    expectLawful()
  }

  @Test("Further requests to a stalled device are refused, and nothing is lost")
  func stall() throws {
    serve()
    var accepted: [UInt64] = []
    for _ in 0..<Limits.courierQueueFrames {
      accepted.append(try #require(model.submit(device, topic)))
    }
    let window = sendAll()
    for _ in 0..<32 { accepted.append(try #require(model.submit(device, topic))) }
    model.loopMilliseconds += Limits.courierStallMilliseconds - 1
    let late = try #require(model.submit(device, topic))
    #expect(device.session?.heldBackCount == 1)
    model.loopMilliseconds += 1
    model.deadlineReached(device)
    #expect(model.letters[late]?.isAccepted == false)
    #expect(model.submit(device, topic) == nil)
    // The binary interface has no status for it.
    accepted.append(try #require(model.submit(device, topic, interface: .binary)))
    #expect(device.session?.heldBackCount == 0)
    var sent = window
    for order in window { acknowledge(order) }
    while sent.count < accepted.count {
      let next = sendAll()
      try #require(!next.isEmpty)
      sent += next
      for order in next { acknowledge(order) }
    }
    #expect(sent == accepted)
    #expect(model.submit(device, topic) != nil)
    expectLawful()
  }

  @Test(
    "A device in power saving gets held notifications early when they are too many",
    arguments: zip([PowerState.lowPower, .idle], [Priority.powerSaving, .whenActive]))
  func heldBound(power: PowerState, priority: Priority) throws {
    serve(power)
    var expected: [UInt64] = []
    for _ in 1..<Limits.courierQueueFrames {
      expected.append(try #require(model.submit(device, topic, priority: priority)))
    }
    #expect(sendAll() == [])
    expected.append(try #require(model.submit(device, topic, priority: priority)))
    let last = try #require(model.submit(device, topic, priority: priority))
    #expect(receiveAll() == expected)
    setPower(.active)
    #expect(receiveAll() == [last])
    model.settle()
    #expect(model.letters.values.allSatisfy { $0.isAccepted == true })
    #expect(model.count(.storedDeviceOffline) == 0)
    #expect(model.count(.replaced) == 0)
    expectLawful()
  }

  /// Acknowledges everything that is sent; returns the orders.
  private func receiveAll() -> [UInt64] {
    var received: [UInt64] = []
    while true {
      let window = sendAll()
      guard !window.isEmpty else { return received }
      received += window
      for order in window { acknowledge(order) }
    }
  }
}

/// The same with so little memory that a few hundred notifications fill the crowded queue.
struct ShardCrowdTests: ShardSuite {
  let model = ShardModel(devices: 1, memoryBytes: 1 << 20)

  private func push(_ count: Int, expiresInSeconds: Int64 = 3600) throws -> [UInt64] {
    try (0..<count).map { _ in
      try #require(
        model.submit(device, topic, expiresInSeconds: expiresInSeconds, interface: .binary))
    }
  }

  private var heldBackCount: Int { device.session?.heldBackCount ?? 0 }

  /// Pushes `count` notifications before and after the device counts as stalled; returns those that were sent.
  private func stall(pushing count: Int) throws -> (all: [UInt64], sent: [UInt64]) {
    serve()
    let all = try push(count)
    let sent = sendAll()
    model.loopMilliseconds += Limits.courierStallMilliseconds
    model.deadlineReached(device)
    #expect(heldBackCount == 0)
    return (all, sent)
  }

  /// Acknowledges what was sent, and everything that is sent then; returns the orders.
  private func receive(_ sent: [UInt64]) -> [UInt64] {
    var received: [UInt64] = []
    var window = sent
    while !window.isEmpty {
      received += window
      for order in window { acknowledge(order) }
      window = sendAll()
    }
    return received
  }

  private let pauseMilliseconds =
    Limits.courierUnresponsiveMilliseconds - Limits.courierStallMilliseconds

  @Test(
    "A device that is silent for nearly a minute loses nothing of a burst",
    arguments: [0, 3600] as [Int64])
  func silentMinute(expiresInSeconds: Int64) throws {
    let (first, sent) = try stall(pushing: 50)
    let all = try first + push(950, expiresInSeconds: expiresInSeconds)
    let waiting = heldBackCount
    #expect((1..<900).contains(waiting))
    model.loopMilliseconds += pauseMilliseconds - 1
    model.deadlineReached(device)
    #expect(heldBackCount == waiting)
    #expect(receive(sent) == all)
    model.settle()
    #expect(model.count(.delivered) == UInt64(all.count))
    #expect(model.count(.replaced) == 0)
    expectLawful()
  }

  @Test("What is accepted for an unresponsive device replaces nothing that was accepted before")
  func unresponsive() throws {
    var (accepted, sent) = try stall(pushing: 50)
    var last: [UInt64] = []
    while last.isEmpty, accepted.count < 2000 {
      let next = try push(1)
      if heldBackCount > 0 { last = next } else { accepted += next }
    }
    last += try push(1)
    #expect(heldBackCount == 2)
    model.loopMilliseconds += pauseMilliseconds
    model.deadlineReached(device)
    #expect(heldBackCount == 0)
    model.settle()
    // Of the two, the store keeps the newer one.
    #expect(model.count(.replaced) == 1)
    #expect(receive(sent) == accepted)
    model.shard.continueDrain(device)
    model.settle()
    #expect(receive(sendAll()) == last.suffix(1))
    expectLawful()
  }
}
