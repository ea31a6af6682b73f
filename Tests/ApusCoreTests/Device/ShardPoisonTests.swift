import ApusCore
import ApusModel
import ApusWalks
import Testing

/// A notification that makes its device fail: a poison message must not loop.
struct ShardPoisonTests: ShardSuite {
  let model = ShardModel(devices: 1)

  /// Connects, receives notifications until `poison` comes, and fails; returns what was acknowledged before.
  func live(until poison: UInt64) -> [UInt64] {
    serve()
    var taken: [UInt64] = []
    while let order = model.send(device), order != poison {
      acknowledge(order)
      taken.append(order)
    }
    model.disconnect(device)
    model.settle()
    return taken
  }

  @Test("A notification that ended ten connections is set aside, and the rest is delivered")
  func poison() throws {
    serve()
    model.disconnect(device)
    let poison = try #require(model.submit(device, topic))
    let behind = try #require(model.submit(device, ShardModel.topics[2]))
    model.settle()
    var taken: [UInt64] = []
    for _ in 0..<Limits.unacknowledgedEnds { taken += live(until: poison) }
    // After it until it is suspected, before it from then on.
    #expect(taken == [])
    #expect(model.count(.discardedUnacknowledged) == 1)
    #expect(model.store.values.sorted() == [behind])
    serve()
    #expect(sendAll() == [behind])
    acknowledge(behind)
    expectLawful()
    #expect(
      model.states[poison]?.filter { $0 != .storedDeviceOffline }
        == [.received, .discardedUnacknowledged])
    #expect(model.states[behind]?.last == .deliveredFromStorage)
  }

  @Test("Its provider was told that it was accepted, and gets no other answer")
  func answered() throws {
    serve()
    let poison = try #require(model.submit(device, topic))
    for _ in 0..<Limits.unacknowledgedEnds { _ = live(until: poison) }
    #expect(model.letters[poison]?.isAccepted == true)
    #expect(model.count(.discardedUnacknowledged) == 1)
    expectLawful()
  }

  @Test("With one end less, an acknowledgement ends it like any other")
  func oneLess() throws {
    serve()
    let order = try #require(model.submit(device, topic))
    for _ in 1..<Limits.unacknowledgedEnds { _ = live(until: order) }
    serve()
    #expect(sendAll() == [order])
    acknowledge(order)
    expectLawful()
    #expect(model.states[order]?.last == .deliveredFromStorage)
  }

  @Test("From the third end on it is sent alone, so that nothing else is lost with it")
  func alone() throws {
    serve()
    model.disconnect(device)
    let orders = try [ShardModel.topics[0], ShardModel.topics[2], ShardModel.topics[3]].map {
      try #require(model.submit(device, $0))
    }
    model.settle()
    for _ in 0..<Limits.unacknowledgedEndsTogether {
      serve()
      #expect(sendAll() == orders)
      model.disconnect(device)
      model.settle()
    }
    serve()
    for order in orders {
      #expect(sendAll() == [order])
      acknowledge(order)
    }
    expectLawful()
  }

  @Test("A connection that ends before it was sent does not count")
  func unsent() throws {
    serve()
    model.disconnect(device)
    let order = try #require(model.submit(device, topic))
    model.settle()
    for _ in 0..<3 * Limits.unacknowledgedEnds {
      serve()
      model.disconnect(device)
    }
    #expect(model.count(.discardedUnacknowledged) == 0)
    serve()
    #expect(sendAll() == [order])
    expectLawful()
  }

  @Test("A restart resets the count, and the device gets as many attempts again")
  func restart() throws {
    serve()
    let poison = try #require(model.submit(device, topic))
    for _ in 1..<Limits.unacknowledgedEnds { _ = live(until: poison) }
    model.crash()
    for _ in 1..<Limits.unacknowledgedEnds { _ = live(until: poison) }
    #expect(model.count(.discardedUnacknowledged) == 0)
    _ = live(until: poison)
    #expect(model.count(.discardedUnacknowledged) == 1)
    #expect(model.store.isEmpty)
    expectLawful()
  }

  @Test("A newer notification of its app replaces it, and starts with a count of 0")
  func replaced() throws {
    serve()
    let poison = try #require(model.submit(device, topic))
    for _ in 1..<Limits.unacknowledgedEnds { _ = live(until: poison) }
    let newer = try #require(model.submit(device, topic))
    model.settle()
    _ = live(until: newer)
    #expect(model.count(.discardedUnacknowledged) == 0)
    #expect(model.store.values.sorted() == [newer])
    expectLawful()
  }
}
