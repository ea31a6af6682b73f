import ApusRandom
import ApusDevice
import ApusModel
import ApusTLS
import ApusWire

/// A device with its user: connects, sets its topics, receives notifications and acknowledges them, with or without
/// faults. It uses the same protocol code as real devices.
final class SimulatedDevice: ChannelOwner {
  let index: Int
  let environment: Environment
  let listener: Int
  unowned let world: Simulation
  var random: SeededRandom
  private let context: TLSContext
  private let dialect: CourierALPN

  private var client: CourierClient
  private(set) var channel: ClientChannel?
  /// Connections that this device has abandoned and the service has not.
  var ghosts: [ClientChannel] = []
  /// Finds the notifications in the input, independently of the client.
  private var framer = CourierFramer()
  /// Serial numbers by message id.
  private var serials: [UInt32: Int] = [:]

  /// The user's setting for each app.
  private(set) var states: [TopicState]
  private(set) var power = PowerState.active
  /// Whether the app's notifications may be discarded, now or because of an earlier setting.
  private var isOff: [Bool]
  private var goneApps: Set<Int> = []
  /// Since when nothing has disturbed the connection to the service.
  private(set) var steadySince: UInt64?
  /// Delay of an acknowledgement in milliseconds; nil: never acknowledged.
  var acknowledgeMilliseconds: UInt64? = 20 {
    didSet { acknowledgementsChanged = world.timeline.now }
  }
  private var acknowledgementsChanged: UInt64?
  var refusesPerThousand = 0
  /// Notifications that the app has not processed.
  private var neglected: [UInt32] = []
  private var tokens = SimulatedTokens(apps: SimulationCredentials.appCount)
  private var reports = ArrivalReports()
  private(set) lazy var subscriber = SimulatedSubscriber(self)
  private var connects = true
  /// The generation of the service process that accepted the device.
  private(set) var serverGeneration = 0
  /// Until when the connection may be affected by faults of the device.
  var hinderedUntil: UInt64 = 0
  private(set) var connectionCount = 0

  init(
    _ index: Int, environment: Environment, listener: Int, context: TLSContext,
    dialect: CourierALPN,
    world: Simulation, random: SeededRandom
  ) {
    self.index = index
    self.environment = environment
    self.listener = listener
    self.context = context
    self.dialect = dialect
    self.world = world
    self.random = random
    states = Array(repeating: .enabled, count: SimulationCredentials.appCount)
    states[SimulationCredentials.lateApp] = .unlisted
    isOff = Array(repeating: false, count: SimulationCredentials.appCount)
    client = CourierClient(
      configuration: CourierClient.Configuration(
        dialect: dialect, responseMilliseconds: 20_000, keepAliveMilliseconds: 120_000,
        answerMilliseconds: 20_000))
  }

  private var now: UInt64 { world.timeline.now / 1000 }

  // MARK: Queries

  /// Whether a notification sent to the app now must reach the device without being replaced.
  func isSteady(_ app: Int) -> Bool {
    states[app] == .enabled && power == .active && steadyForLong != nil
  }

  /// Since when the device has been steady, if long enough for the service to have processed everything.
  private var steadyForLong: UInt64? {
    guard let since = reachesServiceSince, world.timeline.now - since > 10 * Timeline.second
    else { return nil }
    return since
  }

  /// Since when what the device sends has reached the service.
  private var reachesServiceSince: UInt64? { hasLiveLink ? steadySince : nil }

  /// Whether the service has received and written the filter.
  private var serviceSurelyKnowsFilter: Bool {
    steadyForLong.map { world.wasUntroubled(since: $0) } ?? false
  }

  /// After a power loss of the service, its devices still believe they are connected.
  private var hasLiveLink: Bool {
    guard let link = channel?.link else { return false }
    return link.isServiceOpen && !link.isServiceGone && !link.isCut
  }

  /// Whether what it gets was written at one node and passed on by another.
  var isAtEdge: Bool { channel?.link?.host !== world.server(of: index).host }

  /// Whether the device has been connected, awake and acknowledging, with the app enabled, since then.
  func isAttentive(_ app: Int, since time: UInt64) -> Bool {
    states[app] == .enabled && isAttentive(since: time)
  }

  /// The same whatever the app.
  func isAttentive(since time: UInt64) -> Bool {
    guard let steadySince, steadySince < time, power == .active, hasAcknowledged(since: time),
      hasLiveLink
    else { return false }
    return channel?.link?.isPeerReading == true
  }

  /// Whether the device has acknowledged promptly since then.
  func hasAcknowledged(since time: UInt64) -> Bool {
    guard let milliseconds = acknowledgeMilliseconds, milliseconds <= 200, neglected.isEmpty else {
      return false
    }
    guard let acknowledgementsChanged else { return true }
    return acknowledgementsChanged + Self.latestAcknowledgement < time
  }

  /// Acknowledgements planned before a change of the delay are sent within this time.
  private static let latestAcknowledgement = 140 * Timeline.second

  /// Whether a notification for the app may be discarded.
  func isSwitchedOff(_ app: Int) -> Bool {
    if isRestrictive(states[app]) { return true }
    if isOff[app], let since = reachesServiceSince,
      world.timeline.now - since > 30 * Timeline.second, world.diskFaultsUntil < since
    {
      isOff[app] = false
    }
    return isOff[app]
  }

  /// Whether the app was ever removed from the device.
  func wasEverGone(_ app: Int) -> Bool { goneApps.contains(app) }

  private func isRestrictive(_ state: TopicState) -> Bool {
    state == .ignored || state == .unlisted
  }

  /// Something happened that the device may not have noticed.
  func disturbed() {
    steadySince = channel?.isOpen == true && client.phase == .filterSent ? world.timeline.now : nil
    world.oracle.unsteady(index)
  }

  var isConnected: Bool { client.phase == .filterSent }
  var hasAllTokens: Bool { client.pendingTokens.isEmpty }

  // MARK: Connections

  func start() {
    for app in states.indices where states[app] != .unlisted {
      var nothing: [UInt8] = []
      _ = client.requestToken(SimulationCredentials.topicHash(app), to: &nothing)
    }
    var nothing: [UInt8] = []
    client.setTopics(topics, to: &nothing)
    connect()
    tick()
  }

  func connect() {
    guard connects, channel == nil else { return }
    connectionCount += 1
    framer = CourierFramer()
    do {
      let channel = try ClientChannel(
        self, listener: listener, context: context, network: world.network)
      self.channel = channel
      world.trace("device connects", index, channel.number)
    } catch {
      world.oracle.violated(.protocols, "no TLS connection: \(error)")
    }
  }

  func channelOpened(_ channel: ClientChannel) {
    guard channel === self.channel else { return }
    say { client, output in client.begin(nowMilliseconds: self.now, to: &output) }
  }

  func channelEnded(_ channel: ClientChannel, _ end: ClientChannel.End) {
    ghosts.removeAll { $0 === channel }
    guard channel === self.channel else { return }
    world.trace("device loses connection", index, channel.number)
    checkStays()
    lost()
    connectLater()
  }

  func lost() {
    channel = nil
    client.disconnected()
    steadySince = nil
    world.oracle.unsteady(index)
  }

  func channelReceived(_ channel: ClientChannel, _ bytes: [UInt8], wallMilliseconds: Int64) {
    guard channel === self.channel else { return }
    observe(bytes, channel, wallMilliseconds)
    var offset = 0
    var output: [UInt8] = []
    while let event = client.next(
      bytes.span, at: &offset, nowMilliseconds: now, to: &output)
    {
      handle(event, to: &output)
      if self.channel !== channel { return }
    }
    channel.send(output)
  }

  private func handle(_ event: CourierClientEvent, to output: inout [UInt8]) {
    switch event {
    case .connected:
      world.trace("device connected", index)
      steadySince = world.timeline.now
      serverGeneration = world.generation
      subscriber.connected(to: &output)
    case .appToken(let topic, let token):
      guard let app = app(of: topic) else { return }
      world.trace("device token", index, app)
      if !tokens.isGood(token, of: app) {
        world.oracle.violated(.deadTokens, "an inactive token of device \(index) is active again")
      }
      world.token(token, of: index, app)
    case .tokenRefused: world.oracle.violated(.protocols, "device \(index) was refused a token")
    case .notification(let arrival): acknowledgeLater(arrival.notification.messageID)
    case .noStorage, .issued, .renewal, .renewalAdvised, .subscriptions: break
    case .refused, .goodbye, .fault:
      checkStays()
      // The service closes or is abandoned.
      if case .goodbye = event { return }
      channel?.drop(resets: false)
      lost()
      connectLater()
    }
  }

  private func say(_ body: (inout CourierClient, inout [UInt8]) -> Void) {
    var output: [UInt8] = []
    body(&client, &output)
    channel?.send(output)
  }

  private func tick() {
    var output: [UInt8] = []
    let event = client.timePassed(nowMilliseconds: now, to: &output)
    channel?.send(output)
    if let event { handle(event, to: &output) }
    world.timeline.after(seconds: 5) { [weak self] in self?.tick() }
  }

  // MARK: Notifications

  /// Reports every notification to the oracle, including repeated ones.
  private func observe(_ bytes: [UInt8], _ channel: ClientChannel, _ wallMilliseconds: Int64) {
    var offset = 0
    do {
      while let frame = try framer.next(bytes.span, at: &offset) {
        let fields = frame.fields(in: bytes.span)
        if frame.command == CourierCommand.channel.rawValue {
          subscriber.confirmed(try CourierChannelConfirmation(decoding: fields))
        }
        guard frame.command == CourierCommand.notification.rawValue else { continue }
        let view = try CourierNotificationView(
          decoding: fields, extensions: dialect.allowsExtensions)
        guard view.channelID.isEmpty else {
          subscriber.observe(view, fields, extensions: dialect.allowsExtensions)
          continue
        }
        let payload = fields.extracting(view.payload)
        guard let serial = SimulationPayload.serial(of: payload) else {
          world.oracle.violated(.addressee, "device \(index) got an unknown payload")
          continue
        }
        serials[view.notification.messageID] = serial
        reports.pass(
          DeliveryOracle.Arrival(
            serial: serial, device: index, app: app(of: view.notification.topic),
            environment: environment,
            wallMilliseconds: channel.wasBlocked || isAtEdge ? nil : wallMilliseconds,
            isFromStorage: view.notification.storage.contains(.fromStorage),
            mayBeRepeated: dialect.allowsExtensions
              ? view.notification.storage.contains(.mayBeRepeated) : nil), to: world, &random)
      }
    } catch {
      world.oracle.violated(
        .protocols, "device \(index) cannot read the service's output: \(error)")
    }
  }

  private func app(of topic: TopicHash) -> Int? {
    states.indices.first { SimulationCredentials.topicHash($0) == topic }
  }

  private func acknowledgeLater(_ messageID: UInt32) {
    guard let milliseconds = acknowledgeMilliseconds else {
      guard world.options.canary != .forgetsUnacknowledged else {
        return say { client, output in client.acknowledge(messageID, to: &output) }
      }
      return neglected.append(messageID)
    }
    let (channel, steadySince) = (channel, steadySince)
    let wait = random.between(milliseconds / 2, milliseconds * 3 / 2) * 1000
    world.timeline.after(wait) { [weak self, weak channel] in
      self?.acknowledge(messageID, self?.steadySince == steadySince ? channel : nil)
    }
  }

  private func acknowledge(_ messageID: UInt32, _ arrivedOn: ClientChannel?) {
    let refuses = random.chance(refusesPerThousand, in: 1000)
    var output: [UInt8] = []
    client.acknowledge(messageID, status: refuses ? .rejected : .taken, to: &output)
    world.trace("acknowledges", index, serials[messageID] ?? -1, output.isEmpty ? 0 : 1)
    let serial = serials[messageID].flatMap { reports.hasLost($0) ? nil : $0 }
    // If it arrives again, the client acknowledges it on its own.
    if let serial { world.oracle.acknowledged(serial) }
    guard !output.isEmpty, let channel else { return }
    channel.send(output)
    guard channel === arrivedOn else { return }
    settle(serial, subscriber.serials[messageID], on: channel)
  }

  // MARK: Faults

  private var topics: CourierTopics {
    func hashes(_ state: TopicState) -> [TopicHash] {
      states.indices.filter { states[$0] == state }.map(SimulationCredentials.topicHash)
    }
    let activities = world.broadcasts.topicHashes
    return CourierTopics(
      enabled: hashes(.enabled) + activities, ignored: hashes(.ignored),
      opportunistic: hashes(.opportunistic),
      paused: hashes(.paused), nonWaking: hashes(.nonWaking))
  }

  func setState(_ state: TopicState, of app: Int) {
    guard states[app] != state else { return }
    world.trace("device filter", index, app, Int(state.rawValue))
    let wasGone = states[app] == .unlisted
    if wasGone { tokens.comesBack(app, steadySince: reachesServiceSince, world) }
    let wasSurelyListed = serviceSurelyKnowsFilter
    states[app] = state
    if isRestrictive(state) {
      isOff[app] = true
      world.oracle.switchedOff(index, app: app)
    }
    disturbed()
    let topics = topics
    if wasGone { world.token(nil, of: index, app) }
    if state == .unlisted {
      goneApps.insert(app)
      tokens.goes(app, wasSurelyListed: wasSurelyListed, at: world.timeline.now)
    }
    // A reinstalled app may have a new token. It asks before or after the filter lists it.
    let asksFirst = wasGone && (random.chance(1, in: 2) || world.options.asksForTokensFirst)
    say { client, output in
      if asksFirst { _ = client.requestToken(SimulationCredentials.topicHash(app), to: &output) }
      client.setTopics(topics, to: &output)
      if wasGone, !asksFirst {
        _ = client.requestToken(SimulationCredentials.topicHash(app), to: &output)
      }
    }
  }

  func setPower(_ power: PowerState) {
    self.power = power
    world.trace("device power", index, Int(power.rawValue))
    disturbed()
    say { client, output in client.setPower(power, to: &output) }
  }

  /// The world is about to end.
  func finishReports() { reports.giveBack(to: world) }

  /// The user leaves the device alone, online and awake; earlier effects are cleared.
  func calmDown() {
    acknowledgeMilliseconds = 20
    refusesPerThousand = 0
    for messageID in neglected { acknowledge(messageID, nil) }
    neglected = []
    for app in states.indices {
      let isKnown = app != SimulationCredentials.lateApp || world.inEffect.hasLateApp
      if isKnown, states[app] != .enabled { setState(.enabled, of: app) }
    }
    setPower(.active)
    for ghost in ghosts { ghost.drop(resets: true) }
    ghosts = []
  }
}
