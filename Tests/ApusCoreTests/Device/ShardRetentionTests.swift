import ApusCore
import ApusModel
import Testing

/// An app of which more than the newest notification waits for a device that is away.
struct ShardRetentionTests: ShardSuite {
  let model = ShardModel(devices: 1)

  init() { model.shard.retentions = [ShardModel.topics[0].app: 3] }

  /// Gives the device, which is away, notifications one group after the other.
  func store(_ count: Int, collapseID: String = "", isBackground: Bool = false) -> [UInt64] {
    (0..<count).compactMap { _ in
      let order = model.submit(
        device, topic, collapseID: collapseID, isBackground: isBackground)
      model.settle()
      return order
    }
  }

  /// What comes when the device does.
  func fetch() -> [UInt64] {
    serve()
    return sendAll()
  }

  @Test("One notification of an app waits by default, the newest", arguments: [false, true])
  func one(inOneGroup: Bool) throws {
    model.shard.retentions = [:]
    serve()
    model.disconnect(device)
    if inOneGroup { for _ in 0..<4 { model.submit(device, topic) } } else { _ = store(4) }
    let newest = try #require(model.submit(device, topic))
    model.settle()
    #expect(fetch() == [newest])
    #expect(model.count(.replaced) == 4)
    expectLawful()
  }

  @Test("So many as the app retains wait, the newest, and come oldest first")
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

  @Test("The same where they come within one group, and each provider is answered")
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

  @Test("Another app's notifications are counted for themselves")
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

  @Test("One that was acknowledged makes room: none of the others falls out for the next")
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

  @Test("A newer one with the same collapse id takes the place of the older, wherever that stands")
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

  @Test("Of background pushes only the newest waits, whatever the app retains")
  func background() throws {
    serve()
    model.disconnect(device)
    let alert = try #require(store(1).first)
    let pushes = store(2, isBackground: true)
    #expect(fetch() == [alert, pushes[1]])
    #expect(model.count(.replaced) == 1)
    expectLawful()
  }

  @Test("One that takes the places of two leaves a place empty")
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

  @Test("Unacknowledged at the end of a connection: so many of the newest stay")
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
    "A lower number holds from the next notification on: what is too much falls out, oldest first")
  func lowered() throws {
    serve()
    model.disconnect(device)
    let orders = store(3)
    model.shard.retentions = [:]
    #expect(model.store.count == 3)
    let newest = try #require(store(1).first)
    #expect(model.store.values.sorted() == [newest])
    expectLawful()
    #expect(orders.allSatisfy { model.states[$0]?.last == .replaced })
    model.cycle(device)
    expectLawful()
  }

  @Test("A higher number holds from the next notification on")
  func raised() {
    model.shard.retentions = [:]
    serve()
    model.disconnect(device)
    let first = store(2)
    model.shard.retentions = [topic.app: 2]
    let second = store(1)
    #expect(fetch() == first.suffix(1) + second)
    expectLawful()
  }

  @Test("A group that fails takes nothing from what waits, evictions included")
  func failing() throws {
    serve()
    model.disconnect(device)
    let orders = store(3)
    model.shard.retentions = [topic.app: 2]
    let lost = try #require(model.submit(device, topic))
    model.seal()
    model.commit(succeeded: false)
    #expect(model.letters[lost]?.isAccepted == false)
    #expect(fetch() == orders)
    expectLawful()
  }

  @Test("After a crash the same ones wait, and the next one takes the oldest's place")
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
