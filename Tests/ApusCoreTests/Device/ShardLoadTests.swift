import ApusCore
import ApusModel
import ApusWalks
import Testing

/// An excessive provider, and wrong clocks, do not affect others.
struct ShardLoadTests: ShardSuite {
  let model = ShardModel(devices: 3)

  /// Submits a push without the model's records; returns the provider's answer if it comes at once.
  private func push(
    to device: Device, _ topic: TopicKey, order: UInt64, interface: ProviderInterface = .http2
  ) -> [Verdict] {
    let notification = model.shard.pool.takeNotification()
    notification.order = order
    notification.claims = TokenClaims(
      device: device.key.id, topic: topic, environment: device.key.environment, generation: 0)
    notification.interface = interface
    notification.expirationSeconds = model.wallSeconds + 3600
    model.shard.submit(
      notification,
      answer: Answer(worker: 0, slot: UInt32(truncatingIfNeeded: order), generation: 0),
      device: device, nowMilliseconds: model.wallMilliseconds,
      loopMilliseconds: model.loopMilliseconds)
    defer { model.shard.verdicts.removeAll(keepingCapacity: true) }
    return model.shard.verdicts
  }

  /// Writes the gathered group; returns how many it accepts.
  private func write() -> Int {
    var entries: [GroupEntry] = []
    let number = model.shard.sealGroup(
      into: &entries, nowMilliseconds: model.loopMilliseconds, all: true)
    for entry in entries where !entry.device.knowsStored {
      entry.device.loadStored([])
    }
    model.shard.slots.assign(&entries)
    model.shard.ledger.takeDurableCounters(with: entries) { _ in }
    model.shard.committed(entries, number: number, succeeded: true)
    defer { model.shard.verdicts.removeAll(keepingCapacity: true) }
    return model.shard.verdicts.count { $0.rejection == nil }
  }

  private func expectBalance(pending: [TopicKey: Int64]) {
    for counters in model.shard.ledger.counters.snapshot() {
      #expect(counters.isBalanced)
      if counters.environment == device.key.environment {
        #expect(counters.pending == pending[counters.topic] ?? 0)
      }
    }
  }

  @Test(
    "Of thirty thousand requests to one token a burst is accepted, and no other token is affected"
  )
  func flood() {
    for device in model.devices {
      model.connect(device)
      model.filterAll(device)
      model.settle()
      model.disconnect(device)
    }
    model.shard.ledger.recordsEvents = false
    var accepted = 0
    var refused = 0
    for order in 1...30_000 as ClosedRange<UInt64> {
      for verdict in push(to: device, topic, order: order) {
        if verdict.rejection == Rejection(.tooManyRequests) { refused += 1 }
      }
      if order.isMultiple(of: 10_000) { accepted += write() }
    }
    #expect(accepted == Limits.requestsPerToken)
    #expect(refused == 30_000 - Limits.requestsPerToken)
    // Another app of the same device, and the same app on another device.
    #expect(push(to: device, ShardModel.topics[2], order: 200_001) == [])
    #expect(push(to: model.devices[2], topic, order: 200_002) == [])
    #expect(write() == 2)
    // Only the newest is kept, and the counts are balanced.
    #expect(device.stored.map(\.facts.order).sorted() == [10_000, 200_001])
    #expect(model.count(.replaced) == UInt64(Limits.requestsPerToken - 1))
    expectBalance(pending: [topic: 2, ShardModel.topics[2]: 1])
  }

  @Test("Both interfaces use one bucket: one rejects requests, the other slows them down")
  func bothListeners() {
    serve()
    model.shard.requestLimit = RateLimit(capacity: 4, refill: 1)
    for order in 1...4 as ClosedRange<UInt64> {
      let listener: ProviderInterface = order.isMultiple(of: 2) ? .http2 : .binary
      #expect(push(to: device, topic, order: order, interface: listener) == [])
    }
    #expect(push(to: device, topic, order: 5).map(\.rejection) == [Rejection(.tooManyRequests)])
    let slowed = push(to: device, topic, order: 6, interface: .binary)
    #expect(slowed.map(\.notice) == [.flood] && slowed.map(\.rejection) == [nil])
    #expect(push(to: device, ShardModel.topics[2], order: 7) == [])
    #expect(push(to: device, topic, order: 8).map(\.rejection) == [Rejection(.tooManyRequests)])
    model.loopMilliseconds += 1000
    #expect(push(to: device, topic, order: 9) == [])
  }

  @Test("The rate applies to each of several alternating apps")
  func turns() {
    serve()
    model.shard.requestLimit = RateLimit(capacity: 2, refill: 1)
    var refused: [TopicKey: Int] = [:]
    for order in 1...40 as ClosedRange<UInt64> {
      let topic = ShardModel.topics[Int(order % 4)]
      if push(to: device, topic, order: order).first?.rejection != nil {
        refused[topic, default: 0] += 1
      }
    }
    #expect(refused == Dictionary(uniqueKeysWithValues: ShardModel.topics.map { ($0, 8) }))
  }

  @Test("Without a limit no request is rejected")
  func unlimited() {
    serve()
    model.shard.requestLimit = nil
    for order in 1...20_000 as ClosedRange<UInt64> {
      #expect(push(to: device, topic, order: order) == [])
    }
  }

  @Test(
    "When the clock jumps by an hour, only what has expired by the new time expires",
    arguments: [3600, -3600] as [Int64])
  func clock(jumpSeconds: Int64) throws {
    serve()
    model.disconnect(device)
    let short = try #require(model.submit(device, topic, expiresInSeconds: 1800))
    let long = try #require(model.submit(device, ShardModel.topics[2], expiresInSeconds: 7200))
    model.settle()
    model.wallMilliseconds += jumpSeconds * 1000
    serve()
    #expect(sendAll() == (jumpSeconds > 0 ? [long] : [short, long]))
    #expect(model.count(.expired) == (jumpSeconds > 0 ? 1 : 0))
    for order in model.inSession().keys.sorted() { acknowledge(order) }
    // Requests are counted with a clock that does not jump.
    let after = try #require(model.submit(device, topic))
    #expect(sendAll() == [after])
    expectLawful()
  }

  @Test(
    "A clock that jumps by an hour does not move a burst, and drops no app of the device",
    arguments: [3600, -3600] as [Int64])
  func clockOfHeld(jumpSeconds: Int64) throws {
    serve(.idle)
    let held = try #require(model.submit(device, topic, priority: .powerSaving))
    model.wallMilliseconds += jumpSeconds * 1000
    model.deadlineReached(device)
    #expect(sendAll() == [])
    model.loopMilliseconds += Limits.burstMilliseconds
    model.deadlineReached(device)
    #expect(sendAll() == [held])
    #expect(model.submit(device, topic) != nil)
    expectLawful()
  }
}
