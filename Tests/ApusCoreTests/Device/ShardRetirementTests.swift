import ApusCore
import ApusModel
import ApusWalks
import Testing

/// The handling of a retired device and of notifications for it.
struct ShardRetirementTests: ShardSuite {
  let model = ShardModel(devices: 1)

  func expectPurged(_ discarded: UInt64) {
    model.settle()
    model.check()
    #expect(model.store.isEmpty)
    #expect(model.count(.discardedTokenUnregistered) == discarded)
    #expect(model.faults == [])
  }

  /// Submits a push to the shard and returns the provider's answer.
  func push(
    _ topic: TopicKey, generation: UInt16, interface: ProviderInterface = .http2
  ) -> Verdict? {
    push(topic, generation: generation, interface: interface, to: device, model)
  }

  func push(
    _ topic: TopicKey, generation: UInt16, interface: ProviderInterface = .http2,
    to device: Device, _ model: ShardModel
  ) -> Verdict? {
    let notification = model.shard.pool.takeNotification()
    notification.claims = TokenClaims(
      device: device.key.id, topic: topic, environment: device.key.environment,
      generation: generation)
    notification.interface = interface
    notification.expirationSeconds = model.wallSeconds + 100
    model.shard.submit(
      notification, answer: Answer(worker: 0, slot: 0, generation: 0), device: device,
      nowMilliseconds: model.wallMilliseconds, loopMilliseconds: model.loopMilliseconds)
    defer { model.shard.verdicts.removeAll() }
    return model.shard.verdicts.count == 1 ? model.shard.verdicts.first : nil
  }

  func token(_ topic: TopicKey) -> UInt16 {
    model.shard.generationForToken(
      of: topic, on: device, nowMilliseconds: model.wallMilliseconds)
  }

  /// Takes the dropped topics whose grace is over.
  func endGraces() {
    while let due = model.shard.nextDropped(nowMilliseconds: model.wallMilliseconds) {
      model.shard.graceIsOver(due.topic, of: device, nowMilliseconds: model.wallMilliseconds)
    }
  }

  // MARK: Tokens

  @Test("Every token is dead since the retirement, including unknown ones and the base token")
  func deadTokens() {
    serve()
    let generation = token(topic)
    let since = model.wallMilliseconds
    model.retire(device)
    model.shard.deadTokens.removeAll()
    model.wallMilliseconds += 5_000
    let unknown = TopicKey(app: AppID(77))
    for (topic, generation) in [(topic, generation), (topic, 0), (unknown, 0), (unknown, 3)] {
      let told = push(topic, generation: generation)
      #expect(told?.rejection == Rejection(.unregistered, timestampMilliseconds: since))
    }
    #expect(model.shard.deadTokens.map(\.sinceMilliseconds) == [since, since, since, since])
    #expect(model.shard.deadTokens.map(\.claims.topic) == [topic, topic, unknown, unknown])
  }

  @Test("The binary interface accepts a push for a retired device, and drops it")
  func binary() {
    serve()
    let generation = token(topic)
    let since = model.wallMilliseconds
    model.retire(device)
    model.shard.deadTokens.removeAll()
    let told = push(topic, generation: generation, interface: .binary)
    #expect(told != nil && told?.rejection == nil)
    #expect(model.count(.received) == 1)
    #expect(model.count(.discardedTokenUnregistered) == 1)
    #expect(model.shard.deadTokens.map(\.sinceMilliseconds) == [since])
  }

  @Test("A token that died before its device keeps its time")
  func diedBefore() {
    serve()
    let generation = token(topic)
    let dropped = model.wallMilliseconds
    model.filter(device, [:])
    model.wallMilliseconds += 60_000
    model.retire(device)
    #expect(
      push(topic, generation: generation)?.rejection
        == Rejection(.unregistered, timestampMilliseconds: dropped))
  }

  @Test(
    "A token whose death was told stays dead if the clock is set back", arguments: [false, true])
  func clockSetBack(byPush: Bool) {
    serve()
    let generation = token(topic)
    let dropped = model.wallMilliseconds
    model.filter(device, [:])
    model.wallMilliseconds += 60_000
    if byPush { _ = push(topic, generation: generation) }
    // What the queue has of it is recorded no second time.
    endGraces()
    #expect(model.shard.deadTokens.map(\.claims.generation) == [generation])
    model.wallMilliseconds = dropped + 10
    let again = token(topic)
    #expect(again != generation)
    model.filter(device, [topic: .enabled])
    #expect(
      push(topic, generation: generation)?.rejection
        == Rejection(.unregistered, timestampMilliseconds: dropped))
    #expect(push(topic, generation: again)?.rejection == nil)
  }

  @Test("While the store fails, few devices wait to be recorded, and every push is answered")
  func storeFails() {
    let model = ShardModel(devices: Limits.invalidationsWaiting + 10)
    for device in model.devices {
      model.connect(device)
      model.filter(device, [topic: .enabled])
      _ = model.shard.generationForToken(
        of: topic, on: device, nowMilliseconds: model.wallMilliseconds)
      model.filter(device, [:])
      model.disconnect(device)
    }
    model.settle()
    model.wallMilliseconds += 60_000
    func tell(_ devices: ArraySlice<Device>) {
      for device in devices {
        #expect(push(topic, generation: 1, to: device, model)?.rejection?.reason == .unregistered)
      }
      model.seal(all: true)
      model.commit(succeeded: false)
    }
    tell(model.devices[..<Limits.invalidationsWaiting])
    tell(model.devices[Limits.invalidationsWaiting...])
    #expect(
      model.devices.count { $0.recordVersion > $0.durableRecordVersion }
        == Limits.invalidationsWaiting)
  }

  @Test("A topic dropped within its grace dies with the device, and is recorded once")
  func droppedWithinGrace() {
    serve()
    let generation = token(topic)
    model.filter(device, [:])
    model.wallMilliseconds += 59_999
    let since = model.wallMilliseconds
    model.retire(device)
    model.wallMilliseconds += 60_000
    endGraces()
    #expect(model.shard.deadTokens.map(\.sinceMilliseconds) == [since])
    #expect(
      push(topic, generation: generation)?.rejection
        == Rejection(.unregistered, timestampMilliseconds: since))
  }

  @Test("The issued tokens are recorded for the feedback list, and no others")
  func noted() {
    serve()
    let generations = [token(ShardModel.topics[2]), token(topic)]
    let since = model.wallMilliseconds
    model.retire(device)
    #expect(
      model.shard.deadTokens
        == [topic, ShardModel.topics[2]].map {
          DeadToken(
            claims: TokenClaims(
              device: device.key.id, topic: $0, environment: device.key.environment,
              generation: generations[0]),
            token: nil, sinceMilliseconds: since)
        })
    #expect(generations == [1, 1])
  }

  // MARK: Notifications

  @Test("Its stored notifications are removed and counted once")
  func stored() {
    serve()
    model.disconnect(device)
    for topic in ShardModel.topics.prefix(3) { model.submit(device, topic) }
    model.settle()
    model.retire(device)
    expectPurged(3)
  }

  @Test("A notification found twice, because the retirement time changed, is counted once")
  func twice() {
    serve()
    model.disconnect(device)
    model.submit(device, topic)
    model.settle()
    model.retire(device)
    model.wallMilliseconds += 1000
    model.retire(device)
    expectPurged(1)
  }

  @Test("A notification being written is removed once it is stored")
  func beingWritten() throws {
    serve()
    model.disconnect(device)
    let sealed = try #require(model.submit(device, topic))
    model.seal()
    let gathering = try #require(model.submit(device, ShardModel.topics[1]))
    model.retire(device)
    #expect(model.shard.drains.isEmpty)
    expectPurged(2)
    #expect([sealed, gathering].map { model.letters[$0]?.isAccepted } == [true, true])
  }

  @Test("Its session ends: nothing more is sent or written, and its providers are answered")
  func session() throws {
    serve()
    let inFlight = try #require(model.submit(device, topic))
    #expect(model.send(device) == inFlight)
    let queued = try #require(model.submit(device, ShardModel.topics[1]))
    model.submit(device, ShardModel.topics[2], expiresInSeconds: 0)
    model.retire(device)
    #expect(device.session == nil)
    #expect(model.count(.discardedTokenUnregistered) == 3)
    #expect([inFlight, queued].map { model.letters[$0]?.isAccepted } == [true, true])
    model.seal(all: true)
    #expect(model.sealed?.writes.isEmpty == true)
    expectPurged(3)
  }

  @Test("A withdrawn notification that is only in the store is removed with the rest, and counted")
  func withdrawn() throws {
    serve()
    let first = try #require(model.submit(device, topic))
    #expect(model.send(device) == first)
    model.settle()
    model.filterAll(device, .paused)
    try #require(model.submit(device, topic) != nil)
    model.seal()
    model.retire(device)
    model.commit()
    // The second replaced the first, whose provider gets no further answer.
    expectPurged(1)
    #expect(model.count(.replaced) == 1)
  }

  @Test("A device whose retirement is taken back is an ordinary one without stored notifications")
  func takenBack() throws {
    serve()
    model.disconnect(device)
    model.submit(device, topic)
    model.settle()
    model.retire(device)
    expectPurged(1)
    model.reinstate(device)
    model.cycle(device)
    #expect(model.inSession().isEmpty)
    let order = try #require(model.submit(device, topic))
    #expect(model.send(device) == order)
    #expect(model.faults == [])
  }
}
