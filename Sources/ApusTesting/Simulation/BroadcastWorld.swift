import ApusModel
import ApusRandom
import ApusWire

/// The channels of a run with their providers. Its randomness is its own, so that the rest of the world is the same
/// without channels.
final class BroadcastWorld {
  private unowned let world: Simulation
  private var random: SeededRandom
  let oracle: BroadcastOracle
  /// The bytes of each channel's id.
  private(set) var ids: [[UInt8]] = []
  private var isQuiet = false
  /// Whether there are any in this run. Without, it is the run that the seed had before there were channels.
  let isOn: Bool
  private let meanWait: UInt64
  /// Those that have devices.
  private let environments: [Environment]
  private var managers: [Environment: SimulatedChannelProvider] = [:]
  private var broadcasters: [Environment: SimulatedChannelProvider] = [:]

  private static let channelsAtStart = 4
  private static let fewestChannels = 2
  private static let mostChannels = 8

  init(_ world: Simulation) {
    self.world = world
    var random = SeededRandom(seed: world.options.seed ^ 0xb0ad_ca57)
    let isOnBySeed = random.chance(2, in: 3)
    isOn = world.options.hasChannels ?? world.options.canary?.needsChannels ?? isOnBySeed
    // With long waits, a device may miss a broadcast that no newer one replaces soon.
    meanWait = random.between(5, random.chance(1, in: 4) ? 600 : 60) * Timeline.second
    oracle = BroadcastOracle(
      world.timeline, wallMilliseconds: { [unowned world] in world.clock.wallMilliseconds },
      mishaps: { [unowned world] in
        world.crashCount + world.takeOverCount + world.diskFaultCount
      },
      fencedUntil: { [unowned world] in world.cluster?.fencedUntil ?? 0 },
      violated: { [unowned world] in world.oracle.violated($0, $1) })
    environments = Environment.allCases.filter { environment in
      world.devices.contains { $0.environment == environment }
    }
    for environment in environments {
      managers[environment] = SimulatedChannelProvider(
        SimulationListener.index(.channels, environment), world, random.split())
      broadcasters[environment] = SimulatedChannelProvider(
        SimulationListener.index(.provider, environment), world, random.split())
    }
    self.random = random
  }

  /// The topics under which devices get broadcasts.
  var topicHashes: [TopicHash] {
    guard isOn else { return [] }
    return (0..<SimulationCredentials.broadcastApps).map(SimulationCredentials.activityTopicHash)
  }

  func start() {
    guard isOn else { return }
    for environment in environments {
      managers[environment]?.start()
      broadcasters[environment]?.start()
    }
    for _ in 0..<Self.channelsAtStart {
      world.timeline.after(random.between(3, 20) * Timeline.second) { [weak self] in self?.create()
      }
    }
    wishLater()
    broadcastLater()
  }

  func stopSending() { isQuiet = true }

  func secondPassed() {
    guard isOn else { return }
    oracle.clockMoved()
    let since = world.timeline.now - min(world.timeline.now, 30 * Timeline.second)
    if world.wasUntroubled(since: since) {
      for device in world.devices { device.subscriber.check(since: since) }
    }
  }

  // MARK: Channels

  private func create() {
    guard !isQuiet else { return }
    let environment = random.chance(1, in: 4) ? random.pick(environments) : .production
    let app = random.below(SimulationCredentials.broadcastApps)
    let storage: ChannelStorage = random.chance(1, in: 3) ? .none : .newest
    let body =
      #"{"message-storage-policy":\#(storage.rawValue),"push-type":"LiveActivity"}"#
    managers[environment]?.submit(
      "POST", "/1/apps/\(SimulationCredentials.topic(app))/channels", body: Array(body.utf8)
    ) { [weak self] answer in
      guard let self, answer?.status == 201, let text = answer?.channel,
        let id = Base64.decode(Array(text.utf8).span)
      else { return }
      ids.append(id)
      let index = oracle.created(app: app, environment: environment, storage: storage)
      world.trace("channel created", index, app, Int(storage.rawValue))
      for device in world.devices
      where device.environment == environment && random.chance(2, in: 3) {
        device.subscriber.toggle(index)
      }
    }
  }

  private func delete(_ index: Int) {
    let channel = oracle.channels[index]
    oracle.isBeingDeleted(index)
    managers[channel.environment]?.submit(
      "DELETE", "/1/apps/\(SimulationCredentials.topic(channel.app))/channels",
      [(.apnsChannelID, channelText(index))], body: []
    ) { [weak self] answer in
      self?.world.trace("channel deleted", index, Int(answer?.status ?? 0))
      if answer?.status == 204 { self?.oracle.deleted(index) }
    }
  }

  private var living: [Int] {
    oracle.channels.indices.filter { oracle.channels[$0].existence == .exists }
  }

  private func channelText(_ index: Int) -> String {
    let id = ids[index]
    return String(decoding: Base64.encode(id.span), as: UTF8.self)
  }

  /// Devices subscribe and unsubscribe, and channels come and go.
  private func wishLater() {
    world.timeline.after(random.between(1, 20) * Timeline.second) { [weak self] in
      guard let self else { return }
      for device in world.devices { device.subscriber.ask() }
      if !isQuiet { wish() }
      wishLater()
    }
  }

  private func wish() {
    let living = living
    guard !living.isEmpty else { return create() }
    let index = random.pick(living)
    switch random.below(20) {
    case 0 where living.count < Self.mostChannels: create()
    case 1 where living.count > Self.fewestChannels: delete(index)
    case 2...9:
      let device = random.pick(world.devices)
      if device.environment == oracle.channels[index].environment {
        device.subscriber.toggle(index)
      }
    default: break
    }
  }

  // MARK: Broadcasts

  private func broadcastLater() {
    world.timeline.after(random.wait(mean: meanWait)) { [weak self] in
      guard let self, !isQuiet else { return }
      // Some are for a channel that does not exist any more.
      let channels = random.chance(1, in: 12) ? Array(ids.indices) : living
      if !channels.isEmpty {
        let index = random.pick(channels)
        for _ in 0..<(random.chance(1, in: 8) ? 1 + random.below(20) : 1) { broadcast(index) }
      }
      broadcastLater()
    }
  }

  private func broadcast(_ index: Int) {
    let channel = oracle.channels[index]
    guard let broadcaster = broadcasters[channel.environment], broadcaster.isReady else { return }
    let now = world.clock.wallMilliseconds / 1000
    // One in twenty is wrong: a channel that stores nothing takes no expiration.
    let mayExpire = channel.storage == .newest || random.chance(1, in: 20)
    let expiration =
      mayExpire && random.chance(3, in: 4) ? now + Int64(random.between(60, 1500)) : 0
    let serial = oracle.send(on: index, expirationSeconds: expiration)
    let event = random.chance(1, in: 20) ? "start" : "update"
    let body = #"{"aps":{"event":"\#(event)"},"serial":\#(serial)}"#
    let priority = random.chance(1, in: 4) ? "5" : "10"
    world.trace("broadcast", serial, index, expiration > 0 ? 1 : 0)
    broadcaster.submit(
      "POST", "/4/broadcasts/apps/\(SimulationCredentials.topic(channel.app))",
      [
        (.apnsChannelID, channelText(index)), (.apnsPushType, "liveactivity"),
        (.apnsExpiration, "\(expiration)"), (.apnsPriority, priority),
      ], body: Array(body.utf8)
    ) { [weak self] answer in self?.answered(serial, answer, mustBeRejected: event == "start") }
  }

  private func answered(
    _ serial: Int, _ answer: SimulatedChannelProvider.Answer?, mustBeRejected: Bool
  ) {
    world.trace("broadcast answered", serial, Int(answer?.status ?? 0))
    guard let answer else { return oracle.answered(serial, .unknown) }
    guard answer.status == 200 else {
      return oracle.answered(serial, answer.status >= 500 ? .unknown : .refused)
    }
    if mustBeRejected {
      world.oracle.violated(.rights, "broadcast \(serial) was accepted, which starts an activity")
    }
    if world.options.canary == .deniesBroadcasts, serial.isMultiple(of: 10) {
      return oracle.answered(serial, .refused)
    }
    if let full = world.disk.fullSince, full < oracle.sent[serial].sentTime,
      oracle.channels[oracle.sent[serial].channel].storage == .newest
    {
      world.oracle.violated(
        .fullDiskAnswers, "broadcast \(serial) was accepted, but cannot be on the full disk")
    }
    let id = answer.unique.flatMap { NotificationID(text: Array($0.utf8).span) }
    if id == nil { world.oracle.violated(.protocols, "broadcast \(serial) has no id") }
    oracle.answered(serial, .accepted, id: id)
  }
}
