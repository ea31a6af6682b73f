import ApusCore
import ApusLog
import ApusModel
import ApusRandom
import ApusRelay
import ApusServer

/// Apps with an upstream, their providers, and the operator of the relay. Its randomness is its own, as that of
/// `BroadcastWorld`.
final class RelayWorld {
  struct Token {
    var app: Int
    var device: DeviceToken
  }

  private unowned let world: Simulation
  private var random: SeededRandom
  let isOn: Bool
  let oracle: RelayOracle
  let upstream: SimulatedUpstream
  private(set) var tokens: [Token] = []
  /// By their bytes.
  private var tokenIndexes: [DeviceToken: Int] = [:]
  private(set) var senders: [SimulatedLegacySender] = []
  private let provider: SimulatedChannelProvider
  private let limits: SpoolLimits
  private let meanWait: UInt64
  /// Microseconds between two faults.
  private let meanFault: UInt64
  private var writeCount = 0
  private var checkedTime: UInt64 = 0

  private static let tokensOfApp = 10
  private static let apps = 0..<SimulationCredentials.relayedAppCount

  init(_ world: Simulation) {
    self.world = world
    var random = SeededRandom(seed: world.options.seed ^ 0x5e1a_75b0)
    let isOnBySeed = random.chance(2, in: 5)
    isOn = world.options.hasRelay ?? world.options.canary?.needsRelay ?? isOnBySeed
    meanWait = random.between(4, 20) * Timeline.second
    meanFault = random.between(5, 60) * Timeline.second
    limits = SpoolLimits(
      byteCount: random.chance(1, in: 4) ? 6_000 : 1 << 30,
      ageSeconds: random.chance(1, in: 4) ? 600 : 86_400)
    oracle = RelayOracle(
      world.timeline, wallMilliseconds: { [unowned world] in world.clock.wallMilliseconds },
      isUntroubled: { [unowned world] in
        world.wasUntroubled(since: $0, $1) && world.oracle.clockSetTime < $0
      },
      violated: { [unowned world] in world.oracle.violated($0, $1) })
    oracle.ageSeconds = limits.ageSeconds
    upstream = SimulatedUpstream(world, oracle, random: random.split())
    provider = SimulatedChannelProvider(
      SimulationListener.index(.provider, .production), world, random.split(),
      waitsForUpstream: true)
    self.random = random
  }

  // MARK: The service

  /// Prepares the service: before it starts for the first time.
  func setUp() {
    guard isOn else { return }
    var directory = world.directory
    directory.upstreamEditions = Self.apps.map { _ in 0 }
    world.replace(directory)
    for app in Self.apps {
      for _ in 0..<Self.tokensOfApp { issue(app, .good) }
      issue(app, .bad)
    }
    world.server.makeRelay = { [unowned self] loop in
      oracle.generation = world.server.generation
      let relay = Relay(
        limits, log: world.serviceLog,
        simulation: RelaySimulation(
          loop: loop, entropy: { [upstream] in upstream.entropy() },
          sending: { [upstream] in upstream.send($0, $1) }))
      guard let canary = world.options.canary, canary.needsRelay else { return relay }
      return FaultyRelay(relay, canary)
    }
    makeSenders()
  }

  private func makeSenders() {
    for index in 0..<2 + random.below(3) {
      let provider: RelayedPush.Provider =
        index == 0 || random.chance(1, in: 2) ? .careful : random.pick([.careful, .deaf, .simple])
      senders.append(
        SimulatedLegacySender(
          index, app: random.below(SimulationCredentials.relayedAppCount), provider,
          meanWait: meanWait, self, world, random: random.split()))
    }
  }

  func start() {
    guard isOn else { return }
    for sender in senders {
      world.timeline.after(random.between(1, 3_000_000)) { sender.start() }
    }
    provider.start()
    requestLater()
    troubleLater()
  }

  // MARK: Tokens

  private func issue(_ app: Int, _ condition: SimulatedUpstream.Condition) {
    let bytes = random.bytes(DeviceToken.byteCount)
    guard let token = DeviceToken(bytes: bytes.span) else { return }
    tokenIndexes[token] = tokens.count
    tokens.append(Token(app: app, device: token))
    upstream.conditions.append(condition)
  }

  /// The index of a token: mostly a good one.
  func token(_ app: Int, _ random: inout SeededRandom) -> Int {
    let own = tokens.indices.filter { tokens[$0].app == app }
    let good = own.filter { upstream.conditions[$0] == .good }
    return random.pick(random.chance(1, in: 12) || good.isEmpty ? own : good)
  }

  /// An app is removed from a device, and installed on another.
  private func killToken() {
    let good = tokens.indices.filter { upstream.conditions[$0] == .good }
    guard !good.isEmpty else { return }
    let index = random.pick(good)
    let ago = Int64(random.between(0, 100_000_000))
    upstream.conditions[index] = .dead(
      sinceMilliseconds: world.clock.wallMilliseconds - ago)
    issue(tokens[index].app, .good)
    if random.chance(1, in: 4) { issue(tokens[index].app, .bad) }
  }

  // MARK: Requests

  private func requestLater() {
    world.timeline.after(random.wait(mean: meanWait)) { [weak self] in
      guard let self, !world.isCalm else { return }
      for _ in 0..<(random.chance(1, in: 8) ? 1 + random.below(20) : 1) { request() }
      requestLater()
    }
  }

  private func request() {
    guard provider.isReady else { return }
    let app = random.below(SimulationCredentials.relayedAppCount)
    let token = token(app, &random)
    let expiration = world.worldSeconds + Int64(random.between(60, 100_000))
    let serial = oracle.send(
      app: app, token: token, by: .request, expirationSeconds: expiration)
    provider.submit(
      "POST", "/3/device/\(tokens[token].device.hex)",
      [
        (.apnsTopic, SimulationCredentials.relayedTopic(app)), (.apnsExpiration, "\(expiration)"),
        (.apnsPushType, "alert"),
      ], body: SimulationPayload.bytes(serial, padding: random.below(100))
    ) { [weak self] answer in
      guard let self else { return }
      world.trace("relayed request answered", serial, Int(answer?.status ?? 0))
      if answer?.status == 200 { return oracle.accepted(serial) }
      oracle.lost(serial, isWordLost: true)
    }
  }

  // MARK: Faults and the operator

  private enum Event: CaseIterable {
    case unreachable, silent, slow, lossy, goAway, reset, busy, misconfigured, doubtful
    case tokenDies, pause, flush, confirm, change, sender
  }

  private func troubleLater() {
    world.timeline.after(random.wait(mean: meanFault)) { [weak self] in
      guard let self, !world.isCalm else { return }
      happen(random.pick(Event.allCases))
      killToken()
      troubleLater()
    }
  }

  private func happen(_ event: Event) {
    let app = random.below(SimulationCredentials.relayedAppCount)
    switch event {
    case .unreachable:
      upstream.cut(isGoAway: false)
      upstream.reach = .unreachable
      soon(60) { $0.upstream.reach = .reachable }
    case .silent:
      upstream.reach = .silent
      soon(40) { $0.upstream.reach = .reachable }
    case .slow:
      upstream.pace = random.between(1_000, 15_000_000)
      soon(60) { $0.upstream.pace = 50_000 }
    case .lossy:
      upstream.losesOneIn = 2 + random.below(10)
      soon(60) { $0.upstream.losesOneIn = 0 }
    case .goAway: upstream.cut(isGoAway: true)
    case .reset: upstream.cut(isGoAway: false)
    case .busy: trouble(.busy, app)
    case .misconfigured: trouble(.misconfigured, app)
    case .doubtful: trouble(.doubtful, app)
    case .tokenDies: killToken()
    case .pause:
      order(.pause, app)
      soon(120) { $0.order(.resume, app) }
    case .flush: order(.flush, app)
    case .confirm: order(.confirm, app)
    case .change: world.changeUpstream(of: app)
    case .sender:
      random.pick(senders).line.suffer(resets: random.chance(1, in: 2))
    }
  }

  private func soon(_ most: UInt64, _ action: @escaping (RelayWorld) -> Void) {
    world.timeline.after(random.between(1, most) * Timeline.second) { [weak self] in
      if let self { action(self) }
    }
  }

  /// The operator mends it, or it passes.
  private func trouble(_ trouble: SimulatedUpstream.Trouble, _ app: Int) {
    world.trace("upstream trouble", app, trouble.rawValue)
    upstream.troubles[app] = trouble
    soon(90) { relay in
      relay.upstream.troubles[app] = .none
      if relay.random.chance(1, in: 2) { relay.world.changeUpstream(of: app) }
    }
  }

  private func order(_ command: RelayCommand, _ app: Int) {
    world.trace("relay command", app, text: command.rawValue)
    guard let relay = world.server.relay else { return }
    if command == .pause || command == .resume { oracle.paused(app, command == .pause) }
    relay.obey(command, SimulationCredentials.relayedAppID(app))
  }

  func calmDown() {
    guard isOn else { return }
    (upstream.reach, upstream.pace, upstream.losesOneIn) = (.reachable, 50_000, 0)
    for app in Self.apps {
      upstream.troubles[app] = .none
      world.changeUpstream(of: app)
    }
    for sender in senders { sender.stopSending() }
    for seconds in [5.0, 60, 200, 300] {
      world.timeline.after(seconds: seconds) { [weak self] in
        for app in Self.apps {
          self?.order(.resume, app)
          self?.order(.confirm, app)
        }
      }
    }
  }

  // MARK: Checks

  func clockMoved() { if isOn { oracle.clockMoved() } }

  func listed(_ token: DeviceToken) {
    if let index = tokenIndexes[token] { oracle.list(index) }
  }

  /// Reading is expensive.
  func written() {
    writeCount += 1
    if isOn, writeCount.isMultiple(of: 8) { check() }
  }

  @discardableResult
  private func check() -> RelayRows {
    let rows = RelayRows(world.disk.image)
    oracle.compare(rows.sums, totals: rows.totals)
    // A row that a failed write left goes soon.
    let isDoubtful =
      world.disk.faultCount > 0 && checkedTime < world.disk.troubledUntil + 60 * Timeline.second
    oracle.stored(rows.serials, isDoubtful: isDoubtful)
    checkedTime = world.timeline.now
    return rows
  }

  /// The service's process has ended.
  func processEnded() {
    guard isOn else { return }
    upstream.clientGone()
    let rows = check()
    var dead: [Int: Int64] = [:]
    for index in tokens.indices {
      dead[index] = rows.deadTokens[RelayRows.digest(tokens[index])]
    }
    oracle.processEnded(Set(rows.serials.keys), deadTokens: dead)
  }

  func finish() {
    guard isOn else { return }
    oracle.finish(waiting: Array(check().serials.values).sorted())
    for sender in senders where !sender.isDone {
      world.oracle.violated(.relayRest, "legacy sender \(sender.line.index) still waits")
    }
  }
}
