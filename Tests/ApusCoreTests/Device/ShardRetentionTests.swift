import ApusCore
import ApusModel
import ApusWalks
import Testing

/// An app that stores more than one notification for an offline device.
struct ShardRetentionTests: ShardSuite {
  let model = ShardModel(devices: 1)

  init() { model.shard.slots.retentions = [ShardModel.topics[0].app: 3] }

  /// Sends the offline device notifications, each in a group of its own.
  func store(_ count: Int, collapseID: String = "", isBackground: Bool = false) -> [UInt64] {
    (0..<count).compactMap { _ in
      let order = model.submit(
        device, topic, collapseID: collapseID, isBackground: isBackground)
      model.settle()
      return order
    }
  }

  /// The notifications delivered when the device connects.
  func fetch() -> [UInt64] {
    serve()
    return sendAll()
  }

  @Test("Stored notifications that wait for the device to become active keep their order")
  func heldInOrder() throws {
    serve()
    model.disconnect(device)
    let expected = (0..<3).compactMap { _ in
      model.submit(device, topic, priority: .powerSaving)
    }
    model.settle()
    model.connect(device)
    setPower(.idle)
    model.filterAll(device)
    model.settle()
    #expect(sendAll() == [])
    setPower(.active)
    #expect(sendAll() == expected)
    expectLawful()
  }

  @Test("By default one notification of an app is stored, the newest", arguments: [false, true])
  func one(inOneGroup: Bool) throws {
    model.shard.slots.retentions = [:]
    serve()
    model.disconnect(device)
    if inOneGroup { for _ in 0..<4 { model.submit(device, topic) } } else { _ = store(4) }
    let newest = try #require(model.submit(device, topic))
    model.settle()
    #expect(fetch() == [newest])
    #expect(model.count(.replaced) == 4)
    expectLawful()
  }

  @Test("As many of the newest as the app retains are stored, and delivered oldest first")
  func several() {
    serve()
    model.disconnect(device)
    let orders = store(5)
    #expect(model.store.values.sorted() == orders.suffix(3))
    #expect(orders.prefix(2).allSatisfy { model.states[$0]?.last == nil })
    #expect(fetch() == orders.suffix(3))
    let last = model.inSession().values.filter(\.isLastFromStorage).map(\.notification.order)
    #expect(last == [orders[4]])
    expectLawful()
    #expect(
      orders.prefix(2).allSatisfy {
        model.states[$0] == [.received, .storedDeviceOffline, .replaced]
      })
  }

  @Test("The same holds within one group, and each provider is answered")
  func severalInOneGroup() {
    serve()
    model.disconnect(device)
    let orders = (0..<7).compactMap { _ in model.submit(device, topic) }
    model.settle()
    #expect(model.store.values.sorted() == orders.suffix(3))
    #expect(orders.allSatisfy { model.letters[$0]?.isAccepted == true })
    #expect(model.count(.replaced) == 4)
    #expect(fetch() == orders.suffix(3))
    expectLawful()
  }

  @Test("Another app's notifications are counted separately")
  func otherApps() throws {
    serve()
    model.disconnect(device)
    let own = store(3)
    let other = ShardModel.topics[2]
    model.submit(device, other)
    let newest = try #require(model.submit(device, other))
    model.settle()
    #expect(fetch() == own + [newest])
    expectLawful()
  }

  @Test("An acknowledged one makes room, and no other is evicted for the next")
  func room() throws {
    serve()
    model.disconnect(device)
    let orders = store(3)
    #expect(fetch() == orders)
    acknowledge(orders[1])
    model.disconnect(device)
    model.settle()
    let next = try #require(model.submit(device, topic))
    model.settle()
    #expect(model.count(.replaced) == 0)
    #expect(fetch() == [orders[0], orders[2], next])
    expectLawful()
  }

  @Test("A newer one with the same collapse id replaces the older one, whatever its position")
  func collapse() throws {
    serve()
    model.disconnect(device)
    let score = try #require(store(1, collapseID: "score").first)
    let others = store(2)
    let newer = try #require(store(1, collapseID: "score").first)
    #expect(model.store.values.sorted() == others + [newer])
    expectLawful()
    #expect(model.states[score]?.last == .replaced)
    #expect(fetch() == others + [newer])
    expectLawful()
  }

  @Test("Of background pushes only the newest is stored, whatever the app retains")
  func background() throws {
    serve()
    model.disconnect(device)
    let alert = try #require(store(1).first)
    let pushes = store(2, isBackground: true)
    #expect(fetch() == [alert, pushes[1]])
    #expect(model.count(.replaced) == 1)
    expectLawful()
  }

  @Test("One that replaces two leaves one slot empty")
  func collapseOfTwo() throws {
    serve()
    model.disconnect(device)
    let first = try #require(store(1, collapseID: "score").first)
    let second = try #require(store(1, isBackground: true).first)
    let third = try #require(store(1, collapseID: "score", isBackground: true).first)
    #expect(model.store.values.sorted() == [third])
    expectLawful()
    #expect(model.states[first]?.last == .replaced && model.states[second]?.last == .replaced)
    let more = store(2)
    #expect(fetch() == [third] + more)
    expectLawful()
  }

  @Test("Unacknowledged ones at the end of a connection are kept up to the retention, newest first")
  func disconnected() {
    serve()
    let orders = (0..<5).compactMap { _ in model.submit(device, topic) }
    #expect(sendAll() == orders)
    model.disconnect(device)
    model.settle()
    #expect(model.store.values.sorted() == orders.suffix(3))
    #expect(fetch() == orders.suffix(3))
    expectLawful()
  }

  @Test(
    "A lower retention applies from the next notification on, and the oldest are evicted")
  func lowered() throws {
    serve()
    model.disconnect(device)
    let orders = store(3)
    model.shard.slots.retentions = [:]
    #expect(model.store.count == 3)
    let newest = try #require(store(1).first)
    #expect(model.store.values.sorted() == [newest])
    expectLawful()
    #expect(orders.allSatisfy { model.states[$0]?.last == .replaced })
    model.cycle(device)
    expectLawful()
  }

  @Test("A higher retention applies from the next notification on")
  func raised() {
    model.shard.slots.retentions = [:]
    serve()
    model.disconnect(device)
    let first = store(2)
    model.shard.slots.retentions = [topic.app: 2]
    let second = store(1)
    #expect(fetch() == first.suffix(1) + second)
    expectLawful()
  }

  @Test("A failed group removes nothing stored, evictions included")
  func failing() throws {
    serve()
    model.disconnect(device)
    let orders = store(3)
    model.shard.slots.retentions = [topic.app: 2]
    let lost = try #require(model.submit(device, topic))
    model.seal()
    model.commit(succeeded: false)
    #expect(model.letters[lost]?.isAccepted == false)
    #expect(fetch() == orders)
    expectLawful()
  }

  @Test("After a crash the same ones are stored, and the next one replaces the oldest")
  func crash() throws {
    serve()
    model.disconnect(device)
    let orders = store(4)
    model.crash()
    let next = try #require(model.submit(device, topic))
    model.settle()
    #expect(fetch() == [orders[2], orders[3], next])
    expectLawful()
  }
}
