import ApusCore
import ApusModel
import Testing

/// What devices and providers may rely on, one rule of the courier at a time.
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
    "A topic's list decides whether its notifications flow, and nothing is lost where they do not",
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

  @Test("What waits when its topic is paused stays stored, what is in flight may be acknowledged")
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

  @Test("What is in flight does not take the slot of what was withdrawn behind it")
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
    "What was kept comes oldest first, each marked, the last as the last, and newer ones behind")
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
    // Comes while the drain is under way.
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

  @Test("Unacknowledged notifications come again under their ids, the newest of each topic")
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

  @Test("A drain that an earlier connection asked for does not open the next one")
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

  @Test("What is acknowledged while a drain waits does not come out of it")
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
    "Any answer ends a notification; it is counted by its kind and not sent again",
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

  @Test("An unknown id, or one that was answered before, is ignored")
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
    "What is acknowledged before its group is sealed never touches the disk, and is answered at once"
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

  @Test("The provider's answer waits for the disk where the device does not answer")
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

  @Test("A disk that fails is the provider's to know, and takes nothing from what was kept before")
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

  @Test("A deletion for what the disk then did not take leaves the older one in its slot")
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

  @Test("A promoted notification that is acknowledged goes back into the pool once")
  func promotedOnce() throws {
    serve()
    // Keeps the head of the lingering list, so that nothing behind it is trimmed.
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
      let notification = model.shard.takeNotification()
      kept.append(notification)
      #expect(taken.insert(ObjectIdentifier(notification)).inserted)
    }
    expectLawful()
  }

  // MARK: Window and room

  @Test("32 notifications are in flight, and one more for each that is answered")
  func window() {
    serve()
    for _ in 0..<40 { model.submit(device, topic) }
    let sent = sendAll()
    #expect(sent.count == 32)
    model.acknowledge(device, messageID: messageID(sent[5]))
    #expect(sendAll().count == 1)
    expectLawful()
  }

  @Test("A device that answers is looked after again only where something waits for its window")
  func marksAfterAnswers() {
    serve()
    model.shard.joinedCount = 0
    for _ in 0..<33 { model.submit(device, topic) }
    #expect(model.shard.dirty.map(\.key) == [device.key])
    #expect(model.shard.joinedCount == 32)
    let sent = sendAll()
    for (index, isMarked) in [(0, true), (1, true), (2, false)] {
      // The last one goes once an answer has made room.
      if index == 2 { #expect(sendAll().count == 1) }
      device.isDirty = false
      model.shard.dirty.removeAll()
      acknowledge(sent[index])
      #expect(model.shard.dirty.isEmpty == !isMarked)
    }
    expectLawful()
  }

  @Test("128 KiB are in flight, plus what crosses the line")
  func windowBytes() {
    serve()
    for _ in 0..<40 { model.submit(device, topic, payloadBytes: 5120) }
    // 25 payloads are 128,000 bytes, the 26th crosses 131,072.
    #expect(sendAll().count == 26)
    expectLawful()
  }

  @Test("A provider that was held back for long enough is answered, and nothing leaves the session")
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

  @Test("Expiration 0 is tried once where the device is connected, and never stored")
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

  @Test("What expires in the store or in the queue is counted and not sent")
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

  @Test("An expired record is not removed together with a newer one on its way")
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

  /// What an idle device gets at once; it gets everything when it is active again.
  @Test(
    "An idle device gets what is immediate, and the rest when its radio or it wakes",
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

  @Test("What is held goes along with the next immediate notification, behind it")
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

  @Test("A connection that never says otherwise counts as active", arguments: Priority.allCases)
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
    model.fill(
      notification, model.lastOrder,
      ShardModel.Letter(
        slot: ShardModel.Slot(device: device.key, topic: topic), mayBeStored: false,
        expirationSeconds: 0, priority: .immediate, payloadBytes: 1))
    notification.claims.generation = generation
    model.shard.submit(
      notification, answer: Answer(worker: 1, slot: 1, generation: 1), device: device,
      nowMilliseconds: model.wallMilliseconds, loopMilliseconds: model.loopMilliseconds)
    defer { model.shard.verdicts.removeAll() }
    return model.shard.verdicts.first?.rejection
  }

  @Test("A token of the device for a topic that it does not have is refused by its kind")
  func unknownTopic() {
    let now = model.wallMilliseconds
    #expect(rejection(topic)?.reason == .deviceTokenNotForTopic)
    #expect(
      rejection(generation: 1, topic) == Rejection(.unregistered, timestampMilliseconds: now))
  }

  @Test(
    "An app that is gone is refused with the time of the filter that dropped it, after the grace")
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

  @Test("A token may leave once the record that knows it is durable")
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

  @Test("What a device has to tell when it connects is written, and its drain waits for that")
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

  @Test("A record that the disk did not take is written again, so that its token leaves after all")
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

  @Test("What could not be read is read again while the device stays, and not a second time")
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

  @Test("What a failed write kept all the same leaves the store once it has expired")
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
