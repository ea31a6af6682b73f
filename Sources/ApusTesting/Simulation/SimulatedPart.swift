import ApusCore
import ApusModel
import ApusRandom
import ApusServer
import ApusStore

/// A part of all devices: the node that decides about them, its disk, and what its counters and its ledger must say.
///
/// The first part's node has what exists once, such as channels. A service of its own has no other part.
final class SimulatedPart {
  let number: Int
  let server: SimulatedServer
  let disk: SimulatedDisk
  let ledger = LedgerOracle()
  private unowned let world: Simulation
  private var writeCount = 0
  private var countedTurns = 0

  init(
    _ world: Simulation, _ share: DeviceShare, host: SimulatedHost, disk: SimulatedDisk,
    configuration: ServerConfiguration, workers: Int, random: SeededRandom
  ) throws {
    self.world = world
    self.disk = disk
    number = share.part ?? 0
    var configuration = configuration
    configuration.share = share
    let credentials = world.credentials
    server = try SimulatedServer(
      host: host, network: world.network, disk: disk, trace: world.trace,
      listeners: SimulationListener.all.map {
        ($0.configuration(world.options.canary), try $0.serverContext(credentials))
      },
      configuration: configuration, trust: try credentials.trust(world.directory),
      workers: workers, random: random)
    server.ledger = ledger
    breakRule(of: world.options.canary)
    server.onEnd = { [unowned world] in for device in world.devices { device.disturbed() } }
    server.onStart = { [unowned self] in checkStored() }
    server.onServe = { [unowned self] in
      checkLedgerSoon()
      world.cluster?.serves(self)
    }
    server.onGone = { [unowned self] in
      ledger.serviceEnded(disk.image, losesPower: $0)
      if number == 0 { world.relay.processEnded() }
    }
    disk.onWrite = { [unowned self] _ in
      world.feedback.written()
      if number == 0 { world.relay.written() }
      checkStoredNowAndThen()
    }
  }

  private func breakRule(of canary: SimulationCanary?) {
    server.sharesFeedbackLeases = canary != .splitsLeases
    server.ignoresReloads = canary == .ignoresReloads
    server.recordsUnended = canary != .forgetsUnstored
    server.findsDormant = canary != .losesDormant
    server.renewsListedTokens = canary != .revivesTokens
    server.broadcastFault = canary?.broadcastFault
    server.sharesResends = canary != .splitsResends
    server.host.callsAllTaken = canary == .clearsUnread
    if canary == .endsDevicesWhenFull {
      disk.onFault = { [unowned self] in if disk.isFull { server.service?.beginDeviceDrain() } }
    }
  }

  // MARK: The disk

  /// Checks some writes, since counting is expensive, and all writes soon after a disk fault.
  private func checkStoredNowAndThen() {
    writeCount += 1
    let isAfterFault =
      disk.faultCount > 0 && world.timeline.now < disk.troubledUntil + 2 * Timeline.second
    if writeCount % 20 == 0 || isAfterFault { checkStored() }
  }

  /// Compares the stored notifications with the counters next to them, which a crash now would leave together.
  func checkStored() {
    var stored = countStored()
    let counters = ((try? disk.image.readCounters()) ?? []).map(\.counters).added()
    for topic in counters {
      let place = FeedbackTopic(topic: topic.topic, environment: topic.environment)
      let count = stored.removeValue(forKey: place) ?? 0
      let pending = topic.pendingInStore
      if pending != count || !topic.isBalanced {
        world.oracle.violated(
          .counters,
          "of app \(topic.topic.app.rawValue) \(count) would be stored after a crash, "
            + "\(pending) counted as pending, \(topic.accepted) as accepted, "
            + "\(topic.ended) as ended")
      }
    }
    if !stored.isEmpty { world.oracle.violated(.counters, "stored notifications are not counted") }
  }

  private func countStored() -> [FeedbackTopic: Int64] {
    var stored: [FeedbackTopic: Int64] = [:]
    for row in disk.mailboxRows() {
      guard let place = try? MailboxKey(decoding: row.key.span) else { continue }
      stored[FeedbackTopic(topic: place.topic, environment: place.environment), default: 0] += 1
    }
    // Notifications held only by a session are pending as well, while their trace exists.
    for row in (try? disk.image.readSuperseded()) ?? [] {
      let place = FeedbackTopic(topic: row.facts.topic, environment: row.facts.environment)
      stored[place, default: 0] += 1
    }
    let spool = RelayedRecord.Key.prefix
    try? disk.image.scan(.relay, prefix: spool.span) { key, value in
      if let place = try? RelayedRecord.Key(decoding: key),
        let record = try? RelayedRecord(decoding: value)
      {
        let topic = TopicKey(app: place.app, suffix: record.fields.suffix)
        stored[FeedbackTopic(topic: topic, environment: place.environment), default: 0] += 1
      }
      return true
    }
    return stored
  }

  /// The service runs again: soon every earlier end must be on the disk, or the notification still stored.
  private func checkLedgerSoon() {
    let generation = world.generation
    world.timeline.after(seconds: 5) { [weak self] in
      guard let self, world.generation == generation, server.keepsLedger else { return }
      let since = world.timeline.now - 4 * Timeline.second
      guard world.wasUntroubled(since: since, generation) else { return checkLedgerSoon() }
      for order in ledger.missing(disk.image) {
        world.oracle.violated(
          .ledger, "the ledger has no end for the notification with order \(order)")
      }
    }
  }

  // MARK: The process

  private static let turnsPerSecond = 10_000

  /// Laws 3 and 4, as far as they are visible from outside.
  func checkLimits() {
    let count = server.host.turnCount
    // Another machine counts from the beginning.
    let turns = count < countedTurns ? 0 : count - countedTurns
    countedTurns = count
    // A few turns for each event, and there are far fewer than thousands of events a second.
    if turns > Self.turnsPerSecond {
      world.oracle.violated(.idleness, "the workers took \(turns) turns in a second")
    }
    guard let service = server.service else { return }
    // The sum is expensive.
    if world.timeline.now / Timeline.second % 60 == 0,
      let topic = service.topicCounters().first(where: { !$0.isBalanced })
    {
      world.oracle.violated(
        .counters,
        "of app \(topic.topic.app.rawValue) \(topic.accepted) were accepted, "
          + "\(topic.ended) have ended, \(topic.pending) are pending")
    }
    let extent = service.extent()
    // A record and the frame that did not fit into it may be added.
    if extent.unsentBytes > Limits.outputHighWaterBytes + 65_536 {
      world.oracle.violated(.bounds, "\(extent.unsentBytes) bytes wait for one peer")
    }
    if extent.openRequests > Limits.openRequests {
      world.oracle.violated(.bounds, "\(extent.openRequests) requests are open")
    }
  }

  /// Checks that nothing is pending any more.
  func checkPending() {
    for topic in server.service?.topicCounters() ?? [] where topic.pending != 0 {
      world.oracle.violated(
        .counters,
        "of app \(topic.topic.app.rawValue) nothing waits, but \(topic.pending) are pending")
    }
    checkStored()
  }
}

// All parts as one service.

extension Simulation {
  /// That of the node with what exists once.
  var server: SimulatedServer { parts[0].server }
  var disk: SimulatedDisk { parts[0].disk }

  func part(of device: Int) -> Int { share.part(of: SimulationCredentials.deviceID(device)) }

  /// The node that decides about a device.
  func server(of device: Int) -> SimulatedServer { parts[part(of: device)].server }

  /// One of the parts, for something to happen to.
  func anyPart(_ random: inout SeededRandom) -> SimulatedPart {
    parts.count == 1 ? parts[0] : random.pick(parts)
  }

  /// Changes when any of the processes that decide is another one.
  var generation: Int { parts.reduce(0) { $0 + $1.server.generation } }
  var areUp: Bool { parts.allSatisfy { $0.server.state == .up } }
  var areServing: Bool { parts.allSatisfy(\.server.isServing) }
  /// Since when all have been serving.
  var upSince: UInt64 { parts.reduce(0) { max($0, $1.server.upSince) } }
  var crashCount: Int { parts.reduce(0) { $0 + $1.server.crashCount } }
  var takeOverCount: Int { parts.reduce(0) { $0 + $1.server.takeOverCount } }
  /// Faults of all disks.
  var diskFaultCount: Int { parts.reduce(0) { $0 + $1.disk.faultCount } }
  /// Until when the last fault of a disk may have had effects.
  var diskFaultsUntil: UInt64 { parts.reduce(0) { max($0, $1.disk.troubledUntil) } }
  var disksSlowUntil: UInt64 { parts.reduce(0) { max($0, $1.disk.slowUntil) } }
}
