import ApusModel
import Testing

@testable import ApusTesting

/// What providers were told and devices received, without a service between them.
@Suite("What a simulation knows about broadcasts")
struct BroadcastOracleTests {
  /// A channel with a device, number 0, that has been subscribed and connected for a minute. Nothing is known of
  /// device 1.
  private final class World {
    let timeline = Timeline()
    private(set) lazy var oracle = BroadcastOracle(
      timeline, wallMilliseconds: { [unowned self] in wallSeconds * 1000 },
      mishaps: { [unowned self] in mishaps }, fencedUntil: { [unowned self] in fencedUntil },
      violated: { [unowned self] law, _ in violations.append(law) })
    private(set) var violations: [SimulationLaw] = []
    var mishaps = 0
    var fencedUntil: UInt64 = 0
    var wallSeconds: Int64 = 1_000
    /// Since when nothing has disturbed the device's connection.
    var steadySince: UInt64 = 0
    var connection = 1

    init(_ storage: ChannelStorage = .newest) {
      _ = oracle.created(app: 0, environment: .production, storage: storage)
      subscribe()
      advance(60)
    }

    func subscribe() {
      oracle.asks(0, 0, subscribes: true)
      oracle.confirmed(0, 0, subscribes: true)
    }

    func advance(_ seconds: UInt64) {
      timeline.run(until: timeline.now + seconds * Timeline.second) { false }
    }

    /// A provider is told after a second that its broadcast was accepted, unless it waits for the answer.
    func broadcast(expirationSeconds: Int64 = 5_000, isAnswered: Bool = true) -> Int {
      let serial = oracle.send(on: 0, expirationSeconds: expirationSeconds)
      advance(1)
      if isAnswered { oracle.answered(serial, .accepted) }
      return serial
    }

    func reconnect() {
      connection += 1
      steadySince = timeline.now
    }

    func arrives(_ serial: Int, change: (inout BroadcastOracle.Arrival) -> Void = { _ in }) {
      var arrival = BroadcastOracle.Arrival(
        serial: serial, device: 0, environment: .production, app: 0, channel: 0,
        id: NotificationID(high: 1, low: UInt64(serial)),
        identity: BroadcastIdentity(messageID: UInt32(serial) + 1, sentNanoseconds: 1), part: 0,
        isMarked: connection > 1, connection: connection, isAtEdge: false,
        connectedTime: steadySince)
      change(&arrival)
      oracle.delivered(arrival)
    }

    /// The device has been connected for another half minute.
    func expectNewest(triedTooOften: Bool = false) {
      advance(31)
      oracle.expect(
        0, acceptedBefore: timeline.now - 30 * Timeline.second, steadySince: steadySince
      ) { _ in triedTooOften }
    }
  }

  // MARK: Arrival

  @Test(
    "A device that is connected must have the newest broadcast", arguments: [0, 5_000] as [Int64])
  func connected(expirationSeconds: Int64) {
    let world = World()
    let serial = world.broadcast(expirationSeconds: expirationSeconds)
    world.expectNewest()
    #expect(world.violations == [.broadcastArrival])
    world.arrives(serial)
    world.expectNewest()
    #expect(world.violations == [.broadcastArrival])
  }

  @Test("One that comes later must have a stored one, and nothing else")
  func later() {
    for (storage, expiration, isExpected) in [
      (.newest, 5_000, true), (.newest, 0, false), (.none, 0, false),
    ] as [(ChannelStorage, Int64, Bool)] {
      let world = World(storage)
      _ = world.broadcast(expirationSeconds: expiration)
      world.reconnect()
      world.expectNewest()
      #expect(world.violations == (isExpected ? [.broadcastArrival] : []))
    }
  }

  @Test("A newer one replaces it, and one without an answer may have")
  func replaced() {
    let world = World()
    _ = world.broadcast()
    world.arrives(world.broadcast())
    world.expectNewest()
    _ = world.broadcast()
    let unanswered = world.broadcast(isAnswered: false)
    world.expectNewest()
    #expect(world.violations == [])
    world.oracle.answered(unanswered, .refused)
    world.expectNewest()
    #expect(world.violations == [.broadcastArrival])
  }

  @Test("Of a burst, any may be the newest")
  func burst() {
    let world = World()
    let first = world.broadcast(isAnswered: false)
    _ = world.broadcast()
    world.oracle.answered(first, .accepted)
    world.arrives(first)
    world.expectNewest()
    #expect(world.violations == [])
  }

  @Test("An expired one, a deleted channel and one that was tried too often are not missed")
  func excused() {
    let world = World()
    _ = world.broadcast()
    world.expectNewest(triedTooOften: true)
    world.wallSeconds = 4_999
    world.oracle.clockMoved()
    world.expectNewest()
    _ = world.broadcast(expirationSeconds: 9_000)
    world.oracle.isBeingDeleted(0)
    world.expectNewest()
    #expect(world.violations == [])
  }

  @Test("A device whose subscription is not confirmed misses nothing")
  func unconfirmed() {
    let world = World()
    world.oracle.asks(0, 0, subscribes: false)
    _ = world.broadcast()
    world.expectNewest()
    #expect(world.violations == [])
    world.subscribe()
    world.expectNewest()
    #expect(world.violations == [.broadcastArrival])
  }

  // MARK: Subscriptions

  @Test("Nothing comes before a subscription or after its end")
  func subscribed() {
    let world = World()
    world.arrives(world.broadcast()) { $0.device = 1 }
    #expect(world.violations == [.subscriptions])
    world.oracle.asks(0, 0, subscribes: false)
    world.arrives(world.broadcast())
    #expect(world.violations == [.subscriptions])
    world.oracle.confirmed(0, 0, subscribes: false)
    world.arrives(world.broadcast())
    #expect(world.violations == [.subscriptions, .subscriptions])
  }

  @Test("It comes as what it is")
  func frame() {
    let changes: [(inout BroadcastOracle.Arrival) -> Void] = [
      { $0.channel = nil }, { $0.app = 1 }, { $0.environment = .development }, { $0.serial = 7 },
    ]
    for change in changes {
      let world = World()
      world.arrives(world.broadcast(), change: change)
      #expect(world.violations == [.subscriptions])
    }
  }

  @Test("Nothing comes on a connection that is younger than the end of its channel")
  func deleted() {
    let world = World()
    let serial = world.broadcast()
    world.oracle.deleted(0)
    world.arrives(serial)
    #expect(world.violations == [])
    world.advance(1)
    world.reconnect()
    world.arrives(serial)
    #expect(world.violations == [.subscriptions])
  }

  // MARK: Uniqueness

  /// A broadcast that comes twice, with what happens in between.
  private func repeats(
    _ storage: ChannelStorage = .newest, expirationSeconds: Int64 = 5_000, isMarked: Bool? = true,
    isAtEdge: Bool = false, between: (World, Int) -> Void
  ) -> [SimulationLaw] {
    let world = World(storage)
    let serial = world.broadcast(expirationSeconds: expirationSeconds)
    world.arrives(serial)
    between(world, serial)
    world.arrives(serial) { ($0.isMarked, $0.isAtEdge) = (isMarked, isAtEdge) }
    return world.violations
  }

  @Test("One that was not acknowledged comes again on a new connection, with a mark")
  func repeated() {
    for mark in [true, nil] {
      #expect(repeats(isMarked: mark) { world, _ in world.reconnect() } == [])
    }
    #expect(
      repeats(isMarked: false) { world, _ in world.reconnect() } == [.broadcastUniqueness])
    #expect(repeats { _, _ in } == [.broadcastUniqueness])
    // Several nodes may have served a connection at an edge.
    #expect(repeats(isAtEdge: true) { _, _ in } == [])
    #expect(repeats(isMarked: false, isAtEdge: true) { _, _ in } == [.broadcastUniqueness])
  }

  /// A broadcast arrives, and then at another device, numbered differently. Returns the laws that this breaks.
  private func renumbered(
    part: Int, expirationSeconds: Int64 = 5_000, _ before: (World) -> Void = { _ in }
  ) -> [SimulationLaw] {
    let world = World()
    world.oracle.asks(1, 0, subscribes: true)
    let serial = world.broadcast(expirationSeconds: expirationSeconds)
    world.arrives(serial) { $0.part = part }
    before(world)
    world.arrives(serial) { arrival in
      (arrival.device, arrival.part) = (1, part)
      arrival.identity.messageID += 1
    }
    return world.violations
  }

  @Test(
    "The devices of a part know a broadcast by one number, unless several of its nodes told them")
  func numbers() {
    let world = World()
    world.oracle.asks(1, 0, subscribes: true)
    let serial = world.broadcast()
    world.arrives(serial)
    world.arrives(serial) { arrival in
      (arrival.device, arrival.part) = (1, 1)
      arrival.identity.messageID += 1
    }
    #expect(world.violations == [])
    for part in 0...1 { #expect(renumbered(part: part) == [.broadcastUniqueness]) }
    func expires(_ world: World) {
      world.wallSeconds = 5_000
      world.oracle.clockMoved()
    }
    #expect(renumbered(part: 0, expires) == [.broadcastUniqueness])
    #expect(renumbered(part: 1, expires) == [])
    func isFenced(_ world: World) { world.fencedUntil = world.timeline.now }
    for part in 0...1 { #expect(renumbered(part: part, isFenced) == [.broadcastUniqueness]) }
    #expect(renumbered(part: 0, expirationSeconds: 0, isFenced) == [.broadcastUniqueness])
    #expect(renumbered(part: 1, expirationSeconds: 0, isFenced) == [])
  }

  @Test("One that was acknowledged comes again only after a mishap, or with a new subscription")
  func acknowledged() {
    let twice = repeats { world, serial in
      world.oracle.settled(serial, 0)
      world.reconnect()
    }
    #expect(twice == [.broadcastUniqueness])
    let afterMishap = repeats { world, serial in
      world.oracle.settled(serial, 0)
      world.mishaps += 1
      world.reconnect()
    }
    #expect(afterMishap == [])
    let subscribedAgain = repeats(isMarked: false) { world, serial in
      world.oracle.settled(serial, 0)
      world.oracle.asks(0, 0, subscribes: false)
      world.oracle.confirmed(0, 0, subscribes: false)
      world.subscribe()
    }
    #expect(subscribedAgain == [])
  }

  @Test("One for a single attempt never comes again")
  func once() {
    for storage in [.none, .newest] as [ChannelStorage] {
      let twice = repeats(storage, expirationSeconds: 0) { world, _ in
        world.mishaps += 1
        world.reconnect()
      }
      #expect(twice == [.broadcastUniqueness])
    }
  }

  @Test("What a device knows it by stays the same")
  func identity() {
    let changes: [(inout BroadcastOracle.Arrival) -> Void] = [
      { $0.id = NotificationID(high: 2, low: 2) }, { $0.identity.messageID += 1 },
      { $0.identity.sentNanoseconds = 2 },
    ]
    for change in changes {
      let world = World()
      let serial = world.broadcast()
      world.arrives(serial)
      world.reconnect()
      world.arrives(serial, change: change)
      #expect(world.violations == [.broadcastUniqueness])
    }
    let world = World()
    let serial = world.broadcast(isAnswered: false)
    world.arrives(serial)
    world.oracle.answered(serial, .accepted, id: NotificationID(high: 3, low: 3))
    #expect(world.violations == [.broadcastUniqueness])
  }

  // MARK: Order and rejection

  @Test("None comes after one that was sent when it had been accepted")
  func order() {
    let world = World()
    let first = world.broadcast()
    world.advance(1)
    world.arrives(world.broadcast())
    world.arrives(first)
    #expect(world.violations == [.broadcastOrder])
  }

  @Test("Those of a burst have the service's order")
  func orderOfBurst() {
    let world = World()
    let first = world.broadcast(isAnswered: false)
    let second = world.broadcast()
    world.oracle.answered(first, .accepted)
    world.arrives(second)
    world.arrives(first)
    #expect(world.violations == [])
  }

  @Test("What was rejected does not arrive, neither before the answer nor after it")
  func rejected() {
    let world = World()
    let early = world.broadcast(isAnswered: false)
    world.arrives(early)
    world.oracle.answered(early, .refused)
    #expect(world.violations == [.rejection])
    let late = world.broadcast(isAnswered: false)
    world.oracle.answered(late, .refused)
    world.arrives(late)
    #expect(world.violations == [.rejection, .rejection])
  }
}
