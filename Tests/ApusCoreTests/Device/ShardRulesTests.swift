import ApusCore
import ApusModel
import ApusWalks
import Testing

/// Replacing, background pushes and waiting for power, one rule at a time.
struct ShardRulesTests: ShardSuite {
  let model = ShardModel(devices: 1)

  // MARK: Collapse

  @Test("A newer notification with the same collapse id replaces a waiting one")
  func collapse() throws {
    serve()
    // The window is full, so further ones wait.
    for _ in 0..<32 { model.submit(device, topic, expiresInSeconds: 0) }
    _ = sendAll()
    let first = try #require(model.submit(device, topic, collapseID: "score"))
    let other = try #require(model.submit(device, topic, collapseID: "weather"))
    let plain = try #require(model.submit(device, topic))
    let second = try #require(model.submit(device, topic, collapseID: "score"))
    #expect(model.count(.replaced) == 1)
    #expect(model.successors == [first: second])
    for order in model.unanswered[device.key]?.values.sorted() ?? [] { acknowledge(order) }
    #expect(sendAll() == [other, plain, second])
    expectLawful()
  }

  @Test("The collapse ids of different topics are independent")
  func collapsePerTopic() throws {
    serve(.idle)
    for topic in ShardModel.topics {
      model.submit(device, topic, priority: .powerSaving, collapseID: "score")
    }
    #expect(model.count(.replaced) == 0)
    #expect(device.session?.queuedCount == ShardModel.topics.count)
    expectLawful()
  }

  @Test("A notification in flight is not replaced, because the device does that itself")
  func collapseInFlight() throws {
    serve()
    let first = try #require(model.submit(device, topic, collapseID: "score"))
    #expect(sendAll() == [first])
    let second = try #require(model.submit(device, topic, collapseID: "score"))
    #expect(sendAll() == [second])
    #expect(model.count(.replaced) == 0)
    expectLawful()
  }

  @Test("The provider of a replaced one is answered when the newer one is durable, not before")
  func heirAnswers() throws {
    serve(.idle)
    setPower(.active)
    for _ in 0..<32 { model.submit(device, topic, expiresInSeconds: 0) }
    _ = sendAll()
    let first = try #require(model.submit(device, topic, collapseID: "score"))
    let second = try #require(model.submit(device, topic, collapseID: "score"))
    #expect(model.letters[first]?.isAccepted == nil)
    model.seal(all: true)
    #expect(model.letters[first]?.isAccepted == nil)
    model.commit()
    #expect(model.letters[first]?.isAccepted == true)
    #expect(model.letters[second]?.isAccepted == true)
    expectLawful()
  }

  @Test("If the newer one cannot be written, both providers get the same answer")
  func heirFails() throws {
    serve(.active)
    for _ in 0..<32 { model.submit(device, topic, expiresInSeconds: 0) }
    _ = sendAll()
    let first = try #require(model.submit(device, topic, collapseID: "score"))
    let second = try #require(model.submit(device, topic, collapseID: "score"))
    model.seal(all: true)
    model.commit(succeeded: false)
    #expect(model.letters[first]?.isAccepted == false)
    #expect(model.letters[second]?.isAccepted == false)
  }

  @Test("A replaced stored notification does not return after a crash or a reconnect")
  func collapseStored() throws {
    serve(.idle)
    let first = try #require(
      model.submit(device, topic, priority: .powerSaving, collapseID: "score"))
    model.settle()
    #expect(model.store.values.contains(first))
    let second = try #require(
      model.submit(device, topic, priority: .powerSaving, collapseID: "score"))
    // One group removes the old one and writes the new one.
    model.seal(all: true)
    model.commit()
    #expect(model.store.values.sorted() == [second])
    model.cycle(device)
    expectLawful()
  }

  // MARK: Background

  @Test("Of background pushes only the newest waits")
  func newestBackground() throws {
    serve(.idle)
    model.submit(device, topic, priority: .powerSaving, isBackground: true)
    model.submit(device, topic, priority: .powerSaving, isBackground: true)
    let alert = try #require(model.submit(device, topic, priority: .powerSaving))
    let last = try #require(
      model.submit(device, topic, priority: .powerSaving, isBackground: true))
    #expect(model.count(.replaced) == 2)
    setPower(.active)
    #expect(sendAll() == [alert, last])
    expectLawful()
  }

  @Test("An idle device is woken for three background pushes per hour and app")
  func backgroundBudget() throws {
    serve(.idle)
    func wake() -> [UInt64] {
      model.shard.radioIsInUse(device, loopMilliseconds: model.loopMilliseconds)
      return sendAll()
    }
    for _ in 0..<Limits.backgroundPushesPerHour {
      let order = try #require(
        model.submit(device, topic, priority: .powerSaving, isBackground: true))
      #expect(wake() == [order])
      acknowledge(order)
    }
    let waiting = try #require(
      model.submit(device, topic, priority: .powerSaving, isBackground: true))
    let other = try #require(
      model.submit(device, ShardModel.topics[2], priority: .powerSaving, isBackground: true))
    let plain = try #require(model.submit(device, topic, priority: .powerSaving))
    #expect(wake() == [other, plain])
    model.loopMilliseconds += 3_600_000 / UInt64(Limits.backgroundPushesPerHour)
    #expect(wake() == [waiting])
    expectLawful()
  }

  // MARK: Power

  @Test("Held notifications are sent in a burst after five minutes, except priority 1")
  func burst() throws {
    serve(.idle)
    let held = try #require(model.submit(device, topic, priority: .powerSaving))
    model.submit(device, ShardModel.topics[2], priority: .whenActive)
    model.loopMilliseconds += Limits.burstMilliseconds - 1
    model.deadlineReached(device)
    #expect(sendAll() == [])
    model.loopMilliseconds += 1
    model.deadlineReached(device)
    #expect(sendAll() == [held])
    expectLawful()
  }

  @Test("In low power only notifications that may wake are sent, whatever the radio does")
  func lowPower() throws {
    serve(.lowPower)
    let urgent = try #require(model.submit(device, topic))
    let held = try #require(model.submit(device, ShardModel.topics[2], priority: .powerSaving))
    #expect(sendAll() == [urgent])
    model.loopMilliseconds += 3 * Limits.burstMilliseconds
    model.deadlineReached(device)
    model.shard.radioIsInUse(device, loopMilliseconds: model.loopMilliseconds)
    #expect(sendAll() == [])
    setPower(.idle)
    model.shard.radioIsInUse(device, loopMilliseconds: model.loopMilliseconds)
    #expect(sendAll() == [held])
    expectLawful()
  }

  @Test("Stored notifications wait for power like all others")
  func storedWaitsForPower() throws {
    serve()
    model.filter(device, [topic: .enabled])
    model.settle()
    let held = try #require(
      model.submit(device, ShardModel.topics[2], priority: .powerSaving))
    model.settle()
    setPower(.idle)
    model.filterAll(device)
    model.settle()
    #expect(sendAll() == [])
    setPower(.active)
    #expect(sendAll() == [held])
    expectLawful()
  }

  @Test("One that must not be stored never replaces one that may")
  func volatileCollapse() throws {
    serve()
    for _ in 0..<32 { model.submit(device, ShardModel.topics[2]) }
    sendAll()
    let stored = try #require(model.submit(device, topic, collapseID: "score"))
    model.submit(device, topic, expiresInSeconds: 0, collapseID: "score")
    model.settle()
    model.disconnect(device)
    model.settle()
    #expect(model.store.values.contains(stored))
    expectLawful()
  }

  @Test("Background pushes to a device in use are sent one by one")
  func backgroundBurst() throws {
    serve()
    var expected: [UInt64] = []
    for _ in 0..<20 {
      expected.append(
        try #require(model.submit(device, topic, priority: .powerSaving, isBackground: true)))
    }
    #expect(sendAll() == expected)
    expectLawful()
  }
}
