import ApusCore
import ApusModel
import ApusWalks
import Testing

/// Guarantees for devices and providers, one rule of the courier at a time.
struct ShardTests: ShardSuite {
  let model = ShardModel(devices: 1)

  // MARK: Filter

  @Test("Nothing is delivered before the first filter of a connection")
  func beforeFilter() throws {
    serve()
    model.disconnect(device)
    model.connect(device)
    let order = try #require(model.submit(device, topic))
    model.settle()
    #expect(sendAll() == [])
    model.filterAll(device)
    model.settle()
    #expect(sendAll() == [order])
    expectLawful()
  }

  @Test(
    "A topic's list decides whether its notifications are delivered, and none is lost",
    arguments: TopicState.allCases)
  func lists(state: TopicState) throws {
    serve()
    model.filter(device, state == .unlisted ? [:] : [topic: state])
    let order = try #require(model.submit(device, topic))
    model.settle()
    let flows = [.enabled, .nonWaking, .opportunistic].contains(state)
    #expect(sendAll() == (flows ? [order] : []))
    #expect(model.count(.discardedDisabled) == (state == .ignored ? 1 : 0))
    if state == .paused || state == .unlisted {
      model.filterAll(device)
      model.settle()
      #expect(sendAll() == [order])
    }
    expectLawful()
  }

  @Test(
    "When its topic is paused a waiting one stays stored, and one in flight may be acknowledged")
  func pausedWhileWaiting() throws {
    serve()
    let first = try #require(model.submit(device, topic))
    #expect(model.send(device) == first)
    let second = try #require(model.submit(device, topic))
    model.filterAll(device, .paused)
    #expect(sendAll() == [])
    model.settle()
    model.acknowledge(device, messageID: messageID(first))
    model.settle()
    #expect(model.store.values.sorted() == [second])
    model.filterAll(device)
    model.settle()
    #expect(sendAll() == [second])
    expectLawful()
  }

  @Test("A notification in flight does not take the slot of a later one that was withdrawn")
  func withdrawnOrder() throws {
    serve()
    let first = try #require(model.submit(device, topic))
    #expect(model.send(device) == first)
    model.loopMilliseconds += 1
    let second = try #require(model.submit(device, topic))
    model.filterAll(device, .paused)
    model.seal()
    model.commit()
    model.loopMilliseconds += 1000
    model.seal()
    model.commit()
    #expect(model.store.values.sorted() == [second])
    expectLawful()
  }

  // MARK: Resume

  @Test(
    "Stored ones come oldest first, each marked, the last one as such, with newer ones after them")
  func resume() throws {
    serve()
    model.disconnect(device)
    var kept: [UInt64] = []
    for topic in ShardModel.topics.reversed() {
      model.submit(device, topic)
      kept.append(try #require(model.submit(device, topic)))
    }
    model.settle()
    model.connect(device)
    model.filterAll(device)
    // It arrives during the drain.
    let newer = try #require(model.submit(device, topic))
    #expect(sendAll() == [])
    model.seal(all: true)
    model.commit()
    model.drain()
    let sent = sendAll()
    // The newest of its topic was stored in place of the first, and is not sent twice.
    #expect(sent == kept.filter { model.letters[$0]?.slot.topic != topic } + [newer])
    let last = model.inSession().values.filter(\.isLastFromStorage).map(\.notification.order)
    #expect(last == [kept[2]])
    for order in kept where model.inSession()[order] != nil {
      #expect(model.inSession()[order]?.notification.isFromStorage == true)
    }
    #expect(model.inSession()[newer]?.notification.isFromStorage == false)
    expectLawful()
  }

  @Test("Unacknowledged notifications are sent again with their ids, the newest of each topic")
  func redelivery() throws {
    serve()
    var orders: [UInt64] = []
    for topic in [ShardModel.topics[0], ShardModel.topics[1], ShardModel.topics[0]] {
      orders.append(try #require(model.submit(device, topic)))
    }
    #expect(sendAll() == orders)
    model.disconnect(device)
    #expect(model.count(.replaced) == 1)
    model.settle()
    model.connect(device)
    model.filterAll(device)
    model.settle()
    #expect(sendAll() == [orders[1], orders[2]])
    let again = model.inSession()
    #expect(again[orders[2]]?.notification.messageID == messageID(orders[2]))
    #expect(again.values.allSatisfy { $0.notification.isFromStorage })
    expectLawful()
  }

  @Test("A drain requested by an earlier connection does not open the next one")
  func staleDrain() throws {
    serve()
    model.disconnect(device)
    let order = try #require(model.submit(device, topic))
    model.connect(device)
    model.filterAll(device)
    model.disconnect(device)
    model.connect(device)
    model.seal(all: true)
    model.commit()
    model.drain()
    #expect(sendAll() == [])
    model.filterAll(device)
    model.settle()
    #expect(sendAll() == [order])
    expectLawful()
  }

  @Test("A notification acknowledged while a drain waits is not returned by it")
  func acknowledgedWhileDraining() throws {
    serve()
    let order = try #require(model.submit(device, topic))
    #expect(sendAll() == [order])
    model.settle()
    model.filterAll(device, .paused)
    model.filterAll(device)
    model.seal(all: true)
    model.acknowledge(device, messageID: messageID(order))
    model.commit()
    model.drain()
    #expect(sendAll() == [])
    model.settle()
    #expect(model.store.isEmpty)
    expectLawful()
  }

  // MARK: Acknowledgements

  @Test(
    "Any answer ends a notification, which is counted by its kind and not sent again",
    arguments: [
      (0, .delivered), (2, .refusedByDevice), (3, .refusedByDevice), (0x80, .refusedByDevice),
    ]
      as [(UInt8, DeliveryState)])
  func statuses(status: UInt8, state: DeliveryState) throws {
    serve()
    let order = try #require(model.submit(device, topic))
    #expect(sendAll() == [order])
    model.settle()
    model.acknowledge(device, messageID: messageID(order), status: status)
    #expect(model.count(state) == 1)
    model.settle()
    #expect(model.store.isEmpty)
    model.cycle(device)
    #expect(model.inSession().isEmpty)
    expectLawful()
  }

  @Test("An id that is unknown or already answered is ignored")
  func unknownID() throws {
    serve()
    let order = try #require(model.submit(device, topic))
    model.acknowledge(device, messageID: messageID(order))
    #expect(sendAll() == [order])
    for _ in 0..<2 { model.acknowledge(device, messageID: messageID(order)) }
    model.acknowledge(device, messageID: 0)
    model.acknowledge(device, messageID: .max)
    #expect(model.count(.delivered) == 1)
    expectLawful()
  }

  @Test(
    "One acknowledged before its group is sealed never touches the disk and is answered at once"
  )
  func neverWritten() throws {
    serve()
    let order = try #require(model.submit(device, topic))
    #expect(sendAll() == [order])
    #expect(model.letters[order]?.isAccepted == nil)
    model.acknowledge(device, messageID: messageID(order))
    #expect(model.letters[order]?.isAccepted == true)
    model.seal(all: true)
    #expect(model.sealed?.entries.isEmpty == true)
    expectLawful()
  }

  @Test("The provider's answer waits for the disk if the device does not acknowledge")
  func answered() throws {
    serve()
    let order = try #require(model.submit(device, topic))
    #expect(sendAll() == [order])
    #expect(!model.isGroupDue(inMilliseconds: 19))
    #expect(model.isGroupDue(inMilliseconds: 20))
    model.loopMilliseconds += 20
    model.seal()
    #expect(model.letters[order]?.isAccepted == nil)
    model.commit()
    #expect(model.letters[order]?.isAccepted == true)
    expectLawful()
  }

  @Test("A disk failure is reported to the provider, and earlier notifications stay stored")
  func failingDisk() throws {
    serve()
    model.disconnect(device)
    let kept = try #require(model.submit(device, topic))
    model.settle()
    let lost = try #require(model.submit(device, topic))
    model.seal()
    model.commit(succeeded: false)
    #expect(model.letters[lost]?.isAccepted == false)
    model.cycle(device)
    #expect(model.inSession().keys.sorted() == [kept])
    expectLawful()
  }

  @Test("A deletion for a notification that was not written keeps the older one in its slot")
  func deletionOfNothing() throws {
    serve()
    let kept = try #require(model.submit(device, topic))
    #expect(model.send(device) == kept)
    model.loopMilliseconds += 1000
    model.seal()
    model.commit()
    let newer = try #require(model.submit(device, topic))
    #expect(model.send(device) == newer)
    model.loopMilliseconds += 1000
    model.seal()
    model.acknowledge(device, messageID: messageID(newer))
    model.commit(succeeded: false)
    model.settle()
    #expect(model.store.values.sorted() == [kept])
    model.cycle(device)
    expectLawful()
  }

  @Test("A promoted notification that is acknowledged is returned to the pool once")
  func promotedOnce() throws {
    serve()
    // Keeps the head of the lingering list, so that nothing after it is trimmed.
    model.submit(device, ShardModel.topics[1])
    let order = try #require(model.submit(device, topic))
    #expect(sendAll().count == 2)
    model.filter(device, [ShardModel.topics[1]: .enabled, topic: .enabled])
    model.filterAll(device)
    model.acknowledge(device, messageID: messageID(order))
    model.seal(all: true, trimming: false)
    model.commit()
    var taken: Set<ObjectIdentifier> = []
    var kept: [Notification] = []
    for _ in 0..<8 {
      let notification = model.shard.pool.takeNotification()
      kept.append(notification)
      #expect(taken.insert(ObjectIdentifier(notification)).inserted)
    }
    expectLawful()
  }

  // MARK: Window and room

  @Test("32 notifications are in flight, and one more for each acknowledgement")
  func window() {
    serve()
    for _ in 0..<40 { model.submit(device, topic) }
    let sent = sendAll()
    #expect(sent.count == 32)
    model.acknowledge(device, messageID: messageID(sent[5]))
    #expect(sendAll().count == 1)
    expectLawful()
  }

  @Test("A device that acknowledges is marked again only if something waits for its window")
  func marksAfterAnswers() {
    serve()
    model.shard.joinedCount = 0
    for _ in 0..<33 { model.submit(device, topic) }
    #expect(model.shard.dirty.map(\.key) == [device.key])
    #expect(model.shard.joinedCount == 32)
    let sent = sendAll()
    for (index, isMarked) in [(0, true), (1, true), (2, false)] {
      // The last one is sent once an acknowledgement has made room.
      if index == 2 { #expect(sendAll().count == 1) }
      device.isDirty = false
      model.shard.dirty.removeAll()
      acknowledge(sent[index])
      #expect(model.shard.dirty.isEmpty == !isMarked)
    }
    expectLawful()
  }

  @Test("128 KiB are in flight, plus the notification that crosses the limit")
  func windowBytes() {
    serve()
    for _ in 0..<40 { model.submit(device, topic, payloadBytes: 5120) }
    // 25 payloads are 128,000 bytes, the 26th crosses 131,072.
    #expect(sendAll().count == 26)
    expectLawful()
  }

  @Test("A provider held back for long enough is answered, and nothing leaves the session")
  func overflow() throws {
    serve()
    for _ in 0..<Limits.courierQueueFrames { model.submit(device, topic) }
    let other = try #require(model.submit(device, ShardModel.topics[2]))
    #expect(device.session?.heldBackCount == 1)
    #expect(model.letters[other]?.isAccepted == nil)
    model.loopMilliseconds += Limits.heldBackMilliseconds
    model.deadlineReached(device)
    #expect(model.count(.storedDeviceOffline) == 0)
    #expect(device.session?.queuedCount == Limits.courierQueueFrames + 1)
    model.settle()
    #expect(model.letters[other]?.isAccepted == true)
    var sent: [UInt64] = []
    for _ in 0..<200 {
      let burst = sendAll()
      sent += burst
      for order in burst { model.acknowledge(device, messageID: messageID(order)) }
      model.shard.continueDrain(device)
      model.settle()
    }
    #expect(sent.count == Limits.courierQueueFrames + 1)
    #expect(sent.last == other)
    #expect(model.store.isEmpty)
    expectLawful()
  }

  // MARK: Expiration

  @Test("With expiration 0 one attempt is made if the device is connected, and nothing is stored")
  func notStored() throws {
    serve()
    let sent = try #require(model.submit(device, topic, expiresInSeconds: 0))
    #expect(model.letters[sent]?.isAccepted == true)
    #expect(sendAll() == [sent])
    model.disconnect(device)
    #expect(model.count(.discardedNotStored) == 1)
    try #require(model.submit(device, topic, expiresInSeconds: 0) != nil)
    #expect(model.count(.discardedNotStored) == 2)
    model.cycle(device)
    #expect(model.inSession().isEmpty)
    #expect(model.store.isEmpty)
    expectLawful()
  }

  @Test("Notifications that expire in the store or in the queue are counted and not sent")
  func expired() throws {
    serve()
    for _ in 0..<32 { model.submit(device, ShardModel.topics[1]) }
    let flight = sendAll()
    try #require(model.submit(device, topic, expiresInSeconds: 5) != nil)
    model.wallMilliseconds += 5000
    for order in flight { model.acknowledge(device, messageID: messageID(order)) }
    #expect(sendAll() == [])
    #expect(model.count(.expired) == 1)
    model.disconnect(device)
    try #require(model.submit(device, topic, expiresInSeconds: 5) != nil)
    model.settle()
    model.wallMilliseconds += 5000
    model.cycle(device)
    #expect(model.count(.expired) == 2)
    model.settle()
    #expect(model.store.isEmpty)
    expectLawful()
  }

  @Test("An expired record is not removed together with a newer one being written")
  func expiredUnderNewer() throws {
    serve()
    model.disconnect(device)
    try #require(model.submit(device, topic, expiresInSeconds: 5) != nil)
    model.settle()
    model.connect(device)
    model.filterAll(device)
    model.wallMilliseconds += 5000
    let newer = try #require(model.submit(device, topic))
    model.loopMilliseconds += 1000
    model.seal()
    model.drain()
    model.commit()
    model.settle()
    #expect(model.store.values.sorted() == [newer])
    expectLawful()
  }

  // MARK: Priorities

  /// What an idle device gets at once; it gets everything when it becomes active.
  @Test(
    "An idle device gets immediate ones, and the rest when it or its radio wakes",
    arguments: [
      (.immediate, .enabled, true, true), (.immediate, .nonWaking, false, true),
      (.immediate, .opportunistic, false, true), (.powerSaving, .enabled, false, true),
      (.powerSaving, .nonWaking, false, true), (.powerSaving, .opportunistic, false, true),
      (.whenActive, .enabled, false, false), (.whenActive, .nonWaking, false, false),
      (.whenActive, .opportunistic, false, false),
    ] as [(Priority, TopicState, Bool, Bool)])
  func priorities(priority: Priority, state: TopicState, atOnce: Bool, onKeepAlive: Bool) throws {
    serve(state)
    model.shard.setPower(.idle, device, loopMilliseconds: model.loopMilliseconds)
    let order = try #require(model.submit(device, topic, priority: priority))
    #expect(sendAll() == (atOnce ? [order] : []))
    model.shard.radioIsInUse(device, loopMilliseconds: model.loopMilliseconds)
    #expect(sendAll() == (!atOnce && onKeepAlive ? [order] : []))
    model.shard.setPower(.active, device, loopMilliseconds: model.loopMilliseconds)
    #expect(sendAll() == (onKeepAlive ? [] : [order]))
    #expect(model.count(.storedPowerConsiderations) == (atOnce ? 0 : 1))
    expectLawful()
  }

  @Test("Held notifications are sent after the next immediate one")
  func heldGoesAlong() throws {
    serve()
    model.shard.setPower(.idle, device, loopMilliseconds: model.loopMilliseconds)
    let held = try #require(model.submit(device, ShardModel.topics[1], priority: .powerSaving))
    let never = try #require(model.submit(device, ShardModel.topics[2], priority: .whenActive))
    let immediate = try #require(model.submit(device, topic))
    #expect(sendAll() == [immediate, held])
    model.shard.setPower(.active, device, loopMilliseconds: model.loopMilliseconds)
    #expect(sendAll() == [never])
    expectLawful()
  }

  @Test("A connection that never reports its state counts as active", arguments: Priority.allCases)
  func activeByDefault(priority: Priority) throws {
    serve()
    let order = try #require(model.submit(device, topic, priority: priority))
    #expect(sendAll() == [order])
    expectLawful()
  }

  // MARK: Tokens

  func rejection(generation: UInt16 = 0, _ topic: TopicKey) -> Rejection? {
    model.lastOrder += 1
    let notification = model.take()
    model.fill(notification, model.lastOrder, .volatile(to: device.key, topic))
    notification.claims.generation = generation
    model.shard.submit(
      notification, answer: Answer(worker: 1, slot: 1, generation: 1), device: device,
      nowMilliseconds: model.wallMilliseconds, loopMilliseconds: model.loopMilliseconds)
    defer { model.shard.verdicts.removeAll() }
    return model.shard.verdicts.first?.rejection
  }

  @Test("A token for a topic that the device does not have is rejected with a fitting reason")
  func unknownTopic() {
    let now = model.wallMilliseconds
    #expect(rejection(topic)?.reason == .deviceTokenNotForTopic)
    #expect(
      rejection(generation: 1, topic) == Rejection(.unregistered, timestampMilliseconds: now))
  }

  @Test(
    "A removed app is rejected after the grace, with the time of the filter that dropped it")
  func goneApp() {
    serve()
    let generation = model.shard.generationForToken(
      of: topic, on: device, nowMilliseconds: model.wallMilliseconds)
    let dropped = model.wallMilliseconds
    model.filter(device, [:])
    model.wallMilliseconds += 59_999
    #expect(rejection(generation: generation, topic) == nil)
    model.wallMilliseconds += 1
    #expect(
      rejection(generation: generation, topic)
        == Rejection(.unregistered, timestampMilliseconds: dropped))
  }

  @Test("A token may be sent once the record that knows it is durable")
  func durableRecord() {
    serve()
    _ = model.shard.generationForToken(
      of: topic, on: device, nowMilliseconds: model.wallMilliseconds)
    let version = device.recordVersion
    #expect(device.durableRecordVersion < version)
    model.seal()
    #expect(device.durableRecordVersion < version)
    model.commit()
    #expect(device.durableRecordVersion == version)
    _ = model.shard.generationForToken(
      of: topic, on: device, nowMilliseconds: model.wallMilliseconds)
    #expect(device.recordVersion == version)
  }

  @Test("The data of a new connection is written once, and its drain waits for that")
  func recordOnce() throws {
    model.connect(device)
    model.filter(device, [topic: .enabled])
    _ = model.shard.generationForToken(
      of: topic, on: device, nowMilliseconds: model.wallMilliseconds)
    model.seal()
    let kinds = try #require(model.sealed).entries.map(\.kind)
    #expect(kinds == [.record(version: 1), .milestone, .record(version: 2)])
    #expect(model.shard.drains.isEmpty)
    model.commit()
    #expect(model.shard.drains.count == 1)
    #expect(device.durableRecordVersion == 2)
  }

  @Test("A record that the disk refused is written again, so that its token is sent after all")
  func recordAgain() {
    serve()
    _ = model.shard.generationForToken(
      of: topic, on: device, nowMilliseconds: model.wallMilliseconds)
    model.seal()
    model.commit(succeeded: false)
    #expect(device.durableRecordVersion < device.recordVersion)
    #expect(!model.isGroupDue(inMilliseconds: 0))
    model.shard.retry()
    model.seal()
    model.commit()
    #expect(device.durableRecordVersion == device.recordVersion)
    model.shard.retry()
    #expect(model.isGroupEmpty)
  }

  @Test("A failed read is repeated while the device stays connected, and only until it succeeds")
  func drainAgain() throws {
    serve()
    model.disconnect(device)
    let order = try #require(model.submit(device, topic))
    model.settle()
    model.connect(device)
    model.filterAll(device)
    #expect(model.shard.drains.count == 1)
    model.shard.drains.removeAll()
    model.shard.drainFailed(device, loopMilliseconds: model.loopMilliseconds)
    #expect(sendAll() == [])
    model.shard.retry()
    model.shard.continueDrain(device)
    model.settle()
    #expect(sendAll() == [order])
    model.shard.retry()
    model.shard.continueDrain(device)
    #expect(model.shard.drains.isEmpty)
    expectLawful()
  }

  @Test("A notification that a failed write kept leaves the store once it has expired")
  func expiredAfterFailure() throws {
    serve()
    model.disconnect(device)
    let order = try #require(model.submit(device, topic))
    model.seal()
    model.commit(succeeded: false, keeps: true)
    #expect(model.store.values.sorted() == [order])
    model.settle()
    model.wallMilliseconds += 86_500_000
    model.comeBy(device)
    model.settle()
    #expect(model.store.isEmpty)
    expectLawful()
  }
}
