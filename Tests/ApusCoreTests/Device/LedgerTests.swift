import ApusCore
import ApusModel
import ApusWalks
import Testing

/// The events that the ledger gets for a notification in each case, in order.
struct LedgerTests: ShardSuite {
  let model = ShardModel(devices: 1)

  func events(_ order: UInt64?) -> [LedgerEvent] {
    model.shard.ledger.events.filter { $0.facts.order == order }
  }

  func states(_ order: UInt64?) -> [DeliveryState] { events(order).map(\.state) }

  func causes(_ order: UInt64?) -> [LedgerCause?] {
    events(order).map { LedgerCause(rawValue: $0.causeCode) }
  }

  @Test("A notification sent at once and acknowledged is recorded as delivered")
  func delivered() {
    serve()
    let order = model.submit(device, topic)
    model.send(device)
    acknowledge(order)
    #expect(states(order) == [.received, .delivered])
    expectLawful()
  }

  @Test("For an offline device it is stored with the reason, then delivered from storage")
  func fromStorage() {
    serve()
    model.disconnect(device)
    let order = model.submit(device, topic)
    model.settle()
    serve()
    model.send(device)
    acknowledge(order)
    #expect(states(order) == [.received, .storedDeviceOffline, .deliveredFromStorage])
    #expect(causes(order) == [LedgerCause.none, .deviceAway, LedgerCause.none])
    expectLawful()
  }

  @Test("Unacknowledged at the end of its connection, it is stored for that reason")
  func connectionEnded() {
    serve()
    let order = model.submit(device, topic)
    model.send(device)
    model.disconnect(device)
    #expect(states(order) == [.received, .storedDeviceOffline])
    #expect(causes(order).last == .connectionEnded)
    expectLawful()
  }

  @Test("Paused by the filter, it is stored for that reason")
  func paused() {
    serve(.paused)
    let order = model.submit(device, topic)
    #expect(states(order) == [.received, .storedDeviceOffline])
    #expect(causes(order).last == .topicHeldBack)
    expectLawful()
  }

  @Test("Held for a device that saves power, it is delivered later")
  func power() {
    serve()
    model.shard.setPower(.idle, device, loopMilliseconds: model.loopMilliseconds)
    let order = model.submit(device, topic, priority: .powerSaving)
    model.shard.setPower(.active, device, loopMilliseconds: model.loopMilliseconds)
    model.send(device)
    acknowledge(order)
    #expect(states(order) == [.received, .storedPowerConsiderations, .delivered])
    expectLawful()
  }

  @Test("Refused by the device, it is recorded with the status")
  func refused() {
    serve()
    let order = model.submit(device, topic)
    model.send(device)
    acknowledge(order, status: 0x80)
    #expect(states(order) == [.received, .refusedByDevice])
    #expect(events(order).last?.causeCode == 0x80)
    expectLawful()
  }

  @Test("Ignored by the filter, or neither to be sent nor to be stored, it is discarded")
  func discarded() {
    serve(.ignored)
    let off = model.submit(device, topic)
    #expect(states(off) == [.received, .discardedDisabled])
    model.filterAll(device, .paused)
    let held = model.submit(device, topic, expiresInSeconds: 0)
    #expect(states(held) == [.received, .discardedNotStored])
    #expect(causes(held).last == .topicHeldBack)
    model.disconnect(device)
    let away = model.submit(device, topic, expiresInSeconds: 0)
    #expect(states(away) == [.received, .discardedNotStored])
    #expect(causes(away).last == .deviceAway)
    expectLawful()
  }

  @Test("For an idle device, one that must not be stored is discarded because of power saving")
  func discardedIdle() {
    serve()
    model.shard.setPower(.idle, device, loopMilliseconds: model.loopMilliseconds)
    let order = model.submit(device, topic, priority: .whenActive, expiresInSeconds: 0)
    #expect(states(order) == [.received, .discardedNotStored])
    #expect(causes(order).last == .deviceIdle)
    expectLawful()
  }

  @Test(
    "A stored one that is replaced gets its event with its own ids, once the newer one is durable",
    arguments: [false, true])
  func replaced(isForgotten: Bool) throws {
    serve()
    model.disconnect(device)
    let old = try #require(model.submit(device, topic))
    model.settle()
    // Its owner has unloaded the device and reads the stored notifications again.
    if isForgotten {
      model.forget(device)
      #expect(!device.knowsStored)
    }
    let new = model.submit(device, topic)
    #expect(states(old) == [.received, .storedDeviceOffline])
    model.settle()
    #expect(states(old) == [.received, .storedDeviceOffline, .replaced])
    #expect(states(new) == [.received, .storedDeviceOffline])
    expectLawful()
  }

  @Test("Of several in one group the last one is kept")
  func replacedInOneGroup() {
    serve()
    model.disconnect(device)
    let orders = (0..<3).map { _ in model.submit(device, topic) }
    model.settle()
    #expect(orders.map { states($0).last } == [.replaced, .replaced, .storedDeviceOffline])
    expectLawful()
  }

  @Test(
    "After a crash, each of ten for a device that never acknowledges has ended or is pending",
    arguments: [false, true])
  func crashWithoutAcknowledgement(isOneGroup: Bool) throws {
    serve()
    let orders = (0..<10).compactMap { _ in
      let order = model.submit(device, topic)
      model.send(device)
      if !isOneGroup {
        model.seal(all: true)
        model.commit()
      }
      return order
    }
    model.settle()
    expectLawful()
    #expect(orders.allSatisfy { model.letters[$0]?.isAccepted == true })
    model.crash()
    expectLawful()
    #expect(orders.dropLast().allSatisfy { model.states[$0]?.last == .replaced })
    #expect(model.store.values.sorted() == [orders[9]])
    let counters = try #require(model.shard.ledger.counters.snapshot().first)
    #expect(counters.accepted == 10 && counters.ended == 9 && counters.pending == 1)
    // The next crash finds no traces: they were removed with the lines.
    model.settle()
    #expect(model.traces.isEmpty)
    model.crash()
    expectLawful()
    #expect(model.shard.ledger.counters.snapshot().first == counters)
  }

  @Test("The trace of a notification that only a session has is removed when it ends")
  func traceRemoved() throws {
    serve()
    let orders = (0..<3).compactMap { _ in model.submit(device, topic) }
    sendAll()
    model.seal(all: true)
    model.commit()
    #expect(Set(model.traces.keys) == Set(orders.prefix(2)))
    acknowledge(orders[0])
    model.disconnect(device)
    model.settle()
    #expect(model.traces.isEmpty)
    expectLawful()
    #expect(model.states[orders[0]]?.last == .delivered)
    #expect(model.states[orders[1]]?.last == .replaced)
  }

  @Test("A replacement is recorded with its group, and not if the group is not written")
  func replacedWithGroup() throws {
    serve()
    model.disconnect(device)
    let old = try #require(model.submit(device, topic))
    model.settle()
    model.submit(device, topic)
    model.seal()
    #expect(model.sealed?.lines == [old])
    model.commit(succeeded: false)
    #expect(states(old).last == .storedDeviceOffline)
    model.submit(device, topic)
    model.seal()
    model.write()
    model.crash()
    expectLawful()
    #expect(model.durableEnds.contains(old))
  }

  @Test("One that expires in the store is recorded as expired when the device connects")
  func expired() {
    serve()
    model.disconnect(device)
    let order = model.submit(device, topic, expiresInSeconds: 5)
    model.settle()
    model.wallMilliseconds += 5000
    serve()
    #expect(states(order) == [.received, .storedDeviceOffline, .expired])
    expectLawful()
  }

  @Test("If the store fails, the new one is discarded and stored ones are kept")
  func storeFailed() {
    serve()
    model.disconnect(device)
    let kept = model.submit(device, topic)
    model.settle()
    let lost = model.submit(device, topic)
    model.seal()
    model.commit(succeeded: false)
    #expect(states(lost) == [.received, .storedDeviceOffline, .discardedStoreFailed])
    #expect(states(kept) == [.received, .storedDeviceOffline])
    model.settle()
    expectLawful()
  }

  @Test("A deletion of a failed group is repeated with the next group, invisibly")
  func deletedAgain() throws {
    serve()
    model.disconnect(device)
    let order = try #require(model.submit(device, topic))
    model.settle()
    serve()
    model.send(device)
    acknowledge(order)
    model.seal()
    model.commit(succeeded: false)
    #expect(model.store.values.sorted() == [order])
    // A drain finds it, and knows that it has ended.
    model.cycle(device)
    #expect(model.inSession().isEmpty)
    #expect(model.store.isEmpty)
    expectLawful()
    #expect(model.states[order] == [.received, .storedDeviceOffline, .deliveredFromStorage])
  }

  @Test("A notification kept by a write that was reported as failed is accepted after all")
  func foundInStore() throws {
    serve()
    model.disconnect(device)
    let old = try #require(model.submit(device, topic))
    model.settle()
    let new = try #require(model.submit(device, topic))
    model.seal()
    model.commit(succeeded: false, keeps: true)
    #expect(states(new).last == .discardedStoreFailed)
    model.settleDoubts()
    #expect(states(old).last == .replaced)
    #expect(states(new).suffix(2) == [.discardedStoreFailed, .received])
    model.settle()
    expectLawful()
    serve()
    #expect(model.send(device) == new)
    acknowledge(new)
    model.settle()
    #expect(model.store.isEmpty)
    expectLawful()
  }

  @Test("One that a failed write kept and the device has acknowledged is not sent again")
  func keptAndAcknowledged() throws {
    serve()
    let order = try #require(model.submit(device, topic))
    model.send(device)
    model.seal(all: true)
    model.commit(succeeded: false, keeps: true)
    #expect(model.letters[order]?.isAccepted == false)
    #expect(model.store.values.sorted() == [order])
    acknowledge(order)
    model.settle()
    #expect(model.store.isEmpty)
    #expect(states(order) == [.received, .delivered])
    expectLawful()
  }

  @Test("One that was acknowledged while its replacement failed is not sent again")
  func endedBelowDoubt() throws {
    serve()
    model.disconnect(device)
    let old = try #require(model.submit(device, topic))
    model.settle()
    serve()
    model.send(device)
    model.submit(device, topic)
    model.seal(all: true)
    model.commit(succeeded: false)
    acknowledge(old)
    model.settle()
    #expect(model.store.isEmpty)
    #expect(states(old).last == .deliveredFromStorage)
    expectLawful()
  }

  @Test("One that a failed write kept is known as stored when its device acknowledges it")
  func keptAndFound() throws {
    serve()
    let order = try #require(model.submit(device, topic))
    model.send(device)
    model.seal(all: true)
    model.commit(succeeded: false, keeps: true)
    model.settle()
    #expect(model.store.values.sorted() == [order])
    acknowledge(order)
    model.settle()
    #expect(model.store.isEmpty)
    expectLawful()
  }

  @Test("A stored one is kept if its replacement could not be written")
  func replacementFailed() throws {
    serve()
    model.shard.setPower(.idle, device, loopMilliseconds: model.loopMilliseconds)
    let old = try #require(
      model.submit(device, topic, priority: .powerSaving, collapseID: "score"))
    model.settle()
    let new = try #require(
      model.submit(device, topic, priority: .powerSaving, collapseID: "score"))
    model.seal(all: true)
    model.commit(succeeded: false)
    #expect(
      states(old) == [.received, .storedPowerConsiderations, .replaced, .received])
    #expect(causes(old).last == .replacementFailed)
    #expect(model.letters[new]?.isAccepted == false)
    #expect(model.store.values.sorted() == [old])
    expectLawful()
    // The connection stays, and the old one is sent on it.
    setPower(.active)
    #expect(sendAll() == [new])
    model.shard.continueDrain(device)
    model.settle()
    #expect(sendAll() == [old])
    acknowledge(new)
    acknowledge(old)
    model.settle()
    expectLawful()
    #expect(model.store.isEmpty)
    #expect(model.states[old]?.last == .deliveredFromStorage)
    #expect(model.states[new]?.last == .delivered)
  }

  @Test("On the binary interface, a push to a dead token is received and discarded")
  func unregistered() throws {
    let notification = model.take()
    model.fill(notification, 1, .volatile(to: device.key, topic))
    notification.claims.generation = 1
    notification.interface = .binary
    model.shard.submit(
      notification, answer: Answer(worker: 1, slot: 1, generation: 1), device: device,
      nowMilliseconds: model.wallMilliseconds, loopMilliseconds: model.loopMilliseconds)
    #expect(states(1) == [.received, .discardedTokenUnregistered])
    #expect(events(1).last?.facts.interface == .binary)
  }

  @Test("Rejected requests are in no balance")
  func refusedRequest() {
    #expect(model.submit(device, topic) == nil)
    #expect(model.shard.ledger.events.isEmpty)
    #expect(model.shard.ledger.counters.snapshot().isEmpty)
  }

  @Test("The counters count even if the ledger is off")
  func off() {
    serve()
    model.shard.ledger.recordsEvents = false
    model.submit(device, topic)
    #expect(model.shard.ledger.events.isEmpty)
    #expect(model.count(.received) == 1)
  }
}
