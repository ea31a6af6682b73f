import ApusRandom
import ApusCore
package import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusWire

/// The whole service, its providers and its devices, in a world determined by a seed: a network that loses connections,
/// a disk that fails, a clock that jumps, and processes that are killed.
///
/// Everything runs on one thread, in an order that depends only on the seed. The code is the production code: workers,
/// connections, protocols and state machines. Only TLS (`PlainConfiguration`), libuv (`SimulatedHost`), RocksDB
/// (`SimulatedDisk`) and the threads are replaced.
package final class Simulation {
  package struct Options: Sendable {
    package var seed: UInt64
    /// Simulated seconds of traffic; the final calm phase is added.
    package var seconds: Int
    package var canary: SimulationCanary?
    /// Simulated seconds during which the disk is full.
    package var fullDiskSeconds: Range<Int>?
    /// Trace events kept as text.
    package var traceCapacity = 0
    /// Average microseconds between two bursts of a provider.
    package var meanWait: UInt64 = 2_000_000
    /// Whether reinstalled apps always ask for their tokens before a filter lists them.
    package var asksForTokensFirst = false
    /// Whether apps have channels; nil: the seed decides. A canary that is not about channels has none.
    package var hasChannels: Bool?
    /// The same for apps with an upstream.
    package var hasRelay: Bool?
    /// How many nodes the service has, one to five; nil: the seed decides.
    package var nodes: Int?
    /// How many of them decide about devices, each about a part of them; nil: the seed decides.
    package var parts: Int?
    /// Log lines of the service below this level are not in the trace.
    package var logLevel = Log.Level.notice

    /// Keeps many events, and the service's log of what is usual.
    package mutating func traceEverything() { (traceCapacity, logLevel) = (20_000, .info) }

    package init(seed: UInt64, seconds: Int) {
      self.seed = seed
      self.seconds = seconds
    }

    /// Two seeds of five have a cluster.
    fileprivate var nodesOfSeed: Int {
      guard canary.map(\.needsCluster) ?? (seed % 5 >= 3) else { return 1 }
      return 2 + Int(seed / 5 % UInt64(SimulationCredentials.nodeLimit - 1))
    }

    /// Half of the clusters have several parts, up to three.
    fileprivate func parts(ofSeedWith nodes: Int) -> Int {
      guard nodes > 1 else { return 1 }
      if let canary { return canary.needsParts ? 2 : 1 }
      return [1, 2, 1, min(3, nodes)][Int(seed / 25 % 4)]
    }
  }

  let options: Options
  let timeline = Timeline()
  let trace: SimulationTrace
  let clock: SimulatedClock
  let network: SimulatedNetwork
  /// The nodes that decide about devices; one in a world without a cluster.
  private(set) var parts: [SimulatedPart] = []
  let share: DeviceShare
  let oracle: DeliveryOracle
  let credentials: SimulationCredentials
  private(set) var devices: [SimulatedDevice] = []
  private(set) var senders: [SimulatedSender] = []
  private(set) var oldSenders: [SimulatedBinarySender] = []
  private(set) var readers: [SimulatedFeedbackReader] = []
  private(set) lazy var feedback = FeedbackOracle(self)
  private(set) lazy var broadcasts = BroadcastWorld(self)
  /// Nil in a world with one node.
  private(set) var cluster: SimulatedCluster?
  private(set) lazy var relay = RelayWorld(self)
  let serviceLog: Log
  /// By device and app: the tokens that apps gave their providers.
  private(set) var tokens: [[DeviceToken?]]
  /// The owners of all tokens ever issued.
  private var owners: [DeviceToken: (device: Int, app: Int)] = [:]
  /// The providers and apps that the operator has configured.
  var directory = SimulatedDirectory()
  /// What every worker uses.
  var inEffect = SimulatedDirectory()
  /// Until when a fault may keep the service from answering in time.
  var troubledUntil: UInt64 = 0
  /// The same for faults of connections between nodes, during which providers get answers all the same.
  var linksCutUntil: UInt64 = 0
  /// The same for faults of the disk.
  var diskTroubledUntil: UInt64 = 0
  /// How often a provider got 503 while the disk was full.
  var refusedWhileFull = 0
  var random: SeededRandom
  var isCalm = false
  /// How long an app's tokens outlive the app.
  private(set) var graceSeconds: UInt64 = 0

  /// Created once, because generating keys is slow.
  private static let sharedCredentials = Result { try SimulationCredentials() }

  package init(_ options: Options) throws {
    self.options = options
    random = SeededRandom(seed: options.seed)
    let credentials = try Self.sharedCredentials.get()
    self.credentials = credentials
    directory.retainsOne = options.canary == .retainsOne
    trace = SimulationTrace(timeline, capacity: options.traceCapacity)
    clock = SimulatedClock(timeline)
    let host = SimulatedHost(clock, random: random.split())
    network = SimulatedNetwork(timeline, random: random.split(), trace: trace)
    let disk = SimulatedDisk(
      timeline, random: random.split(), trace: trace, canary: options.canary)
    let deviceCount = 2 + random.below(SimulationCredentials.deviceLimit - 2)
    oracle = DeliveryOracle(devices: deviceCount, clock: clock, trace: trace)
    tokens = Array(
      repeating: Array(repeating: nil, count: SimulationCredentials.appCount), count: deviceCount)
    var configuration = ServerConfiguration(dataDirectory: "(simulated)", listeners: [])
    // In half of the worlds each disconnected device is evicted immediately, and found again abridged or folded.
    // Without a ledger, the stored notifications of a device are remembered in another way.
    if options.seed.isMultiple(of: 2) { configuration.deviceCacheMegabytes = 0 }
    if options.seed.isMultiple(of: 3) { configuration.ledger = .off }
    graceSeconds = random.between(1, 60)
    configuration.unregisterGraceSeconds = Int64(graceSeconds)
    // Devices become dormant between any two messages, or only after a longer silence.
    configuration.dormantSeconds = 1 + options.seed % 8
    let log = trace.log
    serviceLog = Log(minimumLevel: options.logLevel) { log.add($0) }
    configuration.log = serviceLog
    let nodes = options.nodes ?? options.nodesOfSeed
    let partCount = min(nodes, options.parts ?? options.parts(ofSeedWith: nodes))
    share = DeviceShare(part: 0, of: partCount) ?? .all
    if nodes > 1 { configuration.link = SimulatedCluster.serving(as: 0) }
    parts = [
      try SimulatedPart(
        self, share, host: host, disk: disk, configuration: configuration,
        workers: 1 + random.below(3), random: random.split())
    ]
    clock.driftMillionths = Int64(random.between(0, 400)) - 200
    network.latency = random.between(200, 40_000)
    disk.syncMicroseconds = random.between(50, 4_000)
    if nodes > 1 {
      var random = SeededRandom(seed: options.seed &* 0x9E37_79B9_7F4A_7C15)
      let cluster = try SimulatedCluster(
        self, edges: partCount..<nodes, random: random.split())
      for part in 1..<partCount {
        parts.append(try cluster.makePart(part, configuration))
      }
      cluster.join(parts)
      self.cluster = cluster
    }
    network.pick = { [unowned self] in cluster?.pick() ?? server }
    try makeDevices(deviceCount)
    makeSenders()
    makeReaders()
    relay.setUp()
  }

  private func makeDevices(_ count: Int) throws {
    for index in 0..<count {
      let environment: Environment = index % 5 == 4 ? .development : .production
      let dialect: CourierALPN = random.chance(1, in: 3) ? .securityV2 : .apus
      devices.append(
        SimulatedDevice(
          index, environment: environment,
          listener: SimulationListener.index(.courier, environment),
          context: try credentials.clientContext(
            certificate: index, protocols: ["\(dialect.name)"]),
          dialect: dialect, world: self, random: random.split()))
    }
  }

  private func makeSenders() {
    let meanWait = options.meanWait * (options.canary?.quietness ?? 1)
    for index in 0..<(1 + random.below(3)) {
      // The first one has an app that exists from the start.
      let app = random.below(
        index == 0 ? SimulationCredentials.lateApp : SimulationCredentials.appCount)
      let usesCertificate = random.chance(1, in: 3)
      senders.append(
        SimulatedSender(
          index, environment: index == 2 ? .development : .production,
          credential: usesCertificate ? .certificate(app: app) : .token,
          meanWait: meanWait, world: self, random: random.split()))
    }
    for index in 0..<random.below(4) {
      oldSenders.append(
        SimulatedBinarySender(
          index, listener: SimulationListener.gateway(confirms: random.chance(1, in: 2)),
          app: random.below(SimulationCredentials.appCount),
          commands: random.chance(1, in: 3) ? .simple : .enhanced, meanWait: meanWait,
          world: self, random: random.split()))
    }
    // A block that ends within a burst may disconnect a provider, and with command 0 the provider is not told.
    if oldSenders.contains(where: { $0.commands == .simple }) {
      for part in parts { part.server.orderBlockSize = 4096 }
    }
  }

  /// Sometimes several for one list.
  private func makeReaders() {
    let apps = (0..<1 + random.below(2)).map { _ in random.below(SimulationCredentials.appCount) }
    let isAboutFeedback = options.canary == .clearsUnread || options.canary == .splitsLeases
    for index in 0..<(isAboutFeedback ? 5 : random.below(6)) {
      readers.append(
        SimulatedFeedbackReader(
          index, app: random.pick(apps), meanWait: random.between(2, 60) * Timeline.second,
          world: self, random: random.split()))
    }
  }

  // MARK: Queries of providers and devices

  struct Target {
    var device: Int
    var app: Int
    var token: DeviceToken
  }

  var worldSeconds: Int64 {
    (SimulatedClock.epochMilliseconds + Int64(timeline.now / 1000)) / 1000
  }

  /// A random device with a known token; nil if there is none.
  func target(environment: Environment, app: Int?, _ random: inout SeededRandom) -> Target? {
    for _ in 0..<4 {
      let device = random.below(devices.count)
      let app = app ?? random.below(SimulationCredentials.appCount)
      guard devices[device].environment == environment, let token = tokens[device][app] else {
        continue
      }
      return Target(device: device, app: app, token: token)
    }
    return nil
  }

  func sent(_ target: Target, environment: Environment, expiration: Int64?) -> Int {
    let device = devices[target.device]
    let isSteady =
      areServing && timeline.now - upSince > 10 * Timeline.second && !network.isDown
      && (cluster == nil || max(troubledUntil, linksCutUntil) < timeline.now)
    return oracle.send(
      device: target.device, app: target.app, environment: environment,
      expirationSeconds: expiration, isTopicOff: device.isSwitchedOff(target.app),
      isDeviceSteady: isSteady && device.isSteady(target.app))
  }

  func token(_ token: DeviceToken?, of device: Int, _ app: Int) {
    tokens[device][app] = token
    if let token { owners[token] = (device, app) }
  }

  /// The token's owner. A token that was issued and lost on its way to the device is identified by its claims.
  func owner(of token: DeviceToken) -> (device: Int, app: Int)? {
    if let owner = owners[token] { return owner }
    guard let claims = credentials.claims(of: token),
      let device = devices.indices.first(where: {
        SimulationCredentials.deviceID($0) == claims.device
          && devices[$0].environment == claims.environment
      })
    else { return nil }
    return (device, Int(claims.topic.app.rawValue) - 1)
  }

  /// The provider was told that the token is inactive.
  func tokenDied(_ serial: Int) {
    let notification = oracle.sent[serial]
    if !oracle.sent[serial].mayBeDiscarded {
      oracle.violated(
        .livingTokens, "the token for notification \(serial) died, but its app is installed")
    }
    if devices[notification.device].states[notification.app] == .unlisted {
      tokens[notification.device][notification.app] = nil
    }
  }

  // MARK: The run

  package func run() -> Report {
    begin()
    let end = UInt64(options.seconds) * Timeline.second
    timeline.run(until: end) { isDecided }
    calmDown()
    timeline.run(until: end + Self.calmSeconds * Timeline.second) { isDecided }
    if !isDecided { judge() }
    // The remaining stored notifications arrive with new connections.
    for device in devices { device.suffer(.closes) }
    let last = end + (Self.calmSeconds + Self.freshSeconds) * Timeline.second
    timeline.run(until: last) { isDecided }
    if !isDecided {
      for device in devices { device.finishReports() }
      oracle.checkMailbox(waiting)
      oracle.finish()
      feedback.finish()
      checkAnswers()
      for part in parts { part.checkPending() }
      relay.finish()
    }
    var report = report
    report.relayed = relay.oracle.pushes.count
    report.relayedReceived = relay.oracle.receivedCount
    report.relayedRepeated = relay.oracle.repeatedCount
    report.refusedWhileFull = refusedWhileFull
    if let full = options.fullDiskSeconds {
      report.undeliveredWhileFull = oracle.storable(sentIn: full).undelivered
      report.acceptedAfterFull =
        oracle.storable(sentIn: full.upperBound..<options.seconds).accepted
    }
    // Planned events hold references to everything.
    timeline.clear()
    for part in parts { part.server.discard() }
    cluster?.discard()
    network.clear()
    return report
  }

  /// Whether the first broken law ends the run. The run of a canary goes on to the law that must report it.
  private var isDecided: Bool {
    guard let canary = options.canary else { return !oracle.broken.isEmpty }
    return oracle.broken.contains(canary.law)
  }

  private static let calmSeconds: UInt64 = 400
  private static let freshSeconds: UInt64 = 60

  private func begin() {
    for part in parts { part.server.start() }
    cluster?.start()
    for device in devices {
      timeline.after(random.between(1, 3_000_000)) { device.start() }
    }
    for sender in senders {
      timeline.after(random.between(1, 3_000_000)) { sender.start() }
    }
    for sender in oldSenders {
      timeline.after(random.between(1, 3_000_000)) { sender.start() }
    }
    for reader in readers {
      timeline.after(random.between(1, 3_000_000)) { reader.start() }
    }
    broadcasts.start()
    relay.start()
    watchClock()
    beginFaults()
    planReloads()
    if let seconds = options.fullDiskSeconds ?? options.canary?.fullDiskSeconds {
      planFullDisk(seconds)
    }
  }

  private func calmDown() {
    isCalm = true
    trace("calm")
    endFaults()
    for sender in senders { sender.stopSending() }
    for sender in oldSenders { sender.stopSending() }
    broadcasts.stopSending()
    relay.calmDown()
    timeline.after(seconds: 2) { [self] in for device in devices { device.calmDown() } }
  }
}
