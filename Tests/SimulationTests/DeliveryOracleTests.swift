import Testing

@testable import ApusTesting

/// What providers were told and devices received, without a service between them.
@Suite("What a simulation knows about losses")
struct DeliveryOracleTests {
  /// One device, offline at first, whose notifications are stored for a day.
  private final class World {
    let timeline = Timeline()
    let oracle: DeliveryOracle
    let app: Int

    /// - Parameter retained: How many notifications the app retains.
    init(retained: Int) throws {
      app = try #require(SimulationCredentials.retentions.firstIndex(of: retained))
      oracle = DeliveryOracle(devices: 1, timeline: timeline)
    }

    /// A provider is told at once that its notification was accepted, unless it waits for the answer.
    @discardableResult
    func push(isAnswered: Bool = true, isDeviceSteady: Bool = false) -> Int {
      advance(1)
      let serial = oracle.send(
        device: 0, app: app, expirationSeconds: 1_800_086_400, isDeviceSteady: isDeviceSteady)
      if isAnswered { oracle.accepted(serial) }
      return serial
    }

    func advance(_ seconds: UInt64) {
      timeline.run(until: timeline.now + seconds * Timeline.second) { false }
    }

    /// The device has been online and acknowledging for a minute.
    func expectAll() {
      advance(61)
      oracle.expect(device: 0, app: app, acceptedBefore: timeline.now - 60 * Timeline.second)
    }

    func arrives(_ serial: Int) {
      oracle.delivered(
        DeliveryOracle.Arrival(serial: serial, device: 0, app: app, isFromStorage: true))
      oracle.acknowledged(serial)
    }

    /// The laws broken until the end.
    func finish() -> [SimulationLaw] {
      oracle.finish()
      return oracle.violations.map(\.law)
    }
  }

  @Test("A loss is found although something newer is sent a minute later")
  func followed() throws {
    let world = try World(retained: 1)
    world.push()
    world.expectAll()
    world.arrives(world.push())
    #expect(world.finish() == [.timeliness, .arrival])
  }

  @Test("A loss is found whose only replacement in time was rejected in the end")
  func rejectedReplacement() throws {
    let world = try World(retained: 1)
    world.push()
    let newer = world.push(isAnswered: false)
    world.expectAll()
    world.oracle.refused(newer, mayHaveTaken: false)
    world.arrives(world.push())
    #expect(world.finish() == [.arrival])
  }

  @Test(
    "An app that retains several loses one only to as many newer ones", arguments: [3, 5], [0, 1])
  func retained(retained: Int, missing: Int) throws {
    let world = try World(retained: retained)
    world.push()
    let newer = (0..<retained - missing).map { _ in world.push() }
    for serial in newer { world.arrives(serial) }
    world.expectAll()
    #expect(world.finish() == (missing == 0 ? [] : [.timeliness, .arrival]))
  }

  @Test("Too few newer ones are found at the end as well, for a device that came late")
  func retainedToTheEnd() throws {
    let world = try World(retained: 5)
    world.push()
    for serial in (0..<4).map({ _ in world.push() }) { world.arrives(serial) }
    #expect(world.finish() == [.arrival])
  }

  @Test("One that a newer one may have replaced while it waited is not missed")
  func replaced() throws {
    let world = try World(retained: 1)
    world.push()
    let newer = world.push()
    world.arrives(newer)
    world.expectAll()
    world.arrives(world.push())
    #expect(world.finish() == [])
  }

  @Test("One with the same collapse id is enough, whatever the app retains")
  func collapsed() throws {
    let world = try World(retained: 5)
    let older = world.push()
    let newer = world.push()
    for serial in [older, newer] { world.oracle.collapses(serial, group: 1) }
    world.arrives(newer)
    world.expectAll()
    #expect(world.finish() == [])
  }

  @Test("Nothing replaces what was sent to a device that was connected all the time")
  func steady() throws {
    let world = try World(retained: 1)
    world.push(isDeviceSteady: true)
    for _ in 0..<3 { world.arrives(world.push()) }
    #expect(world.finish() == [.arrival])
  }
}
