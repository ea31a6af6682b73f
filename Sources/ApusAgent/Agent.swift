import ApusDevice
package import ApusLog
package import ApusLoop
import ApusModel
import ApusTrust
import ApusWire
import Glibc

/// The agent: one device for all programs of the machine, or of a user's session. Confined to its loop.
package final class Agent {
  /// Seconds between two attempts to enrol after a refusal.
  static let enrolmentRetryMilliseconds: UInt64 = 600_000
  /// Milliseconds between two attempts to connect while the service does not accept the device: it is retired, or needs
  /// a new certificate.
  static let refusedRetryMilliseconds: UInt64 = 3_600_000
  /// Milliseconds for the answer to a keep-alive. What is lost on the way is sent again within this time.
  static let answerMilliseconds: UInt64 = 10_000
  /// The same after a suspend or a change of the network, to be connected again within two seconds.
  static let verifyMilliseconds: UInt64 = 1000
  /// Milliseconds of silence while notifications are unacknowledged: the service ends a connection after 60 s of it.
  static let holdingMilliseconds: UInt64 = 30_000
  /// Milliseconds that running commands have when the agent is stopped.
  static let stopMilliseconds: UInt64 = 10_000

  package enum State: Sendable, Equatable {
    case starting
    /// With a readable reason.
    case enrolling(String)
    case connecting(String)
    case connected
    case stopping

    var text: String {
      switch self {
      case .starting: "starting"
      case .enrolling(let detail): "enrolling: \(detail)"
      case .connecting(let detail): "not connected: \(detail)"
      case .connected: "connected"
      case .stopping: "stopping"
      }
    }

    var name: String {
      switch self {
      case .starting: "starting"
      case .enrolling: "enrolling"
      case .connecting: "connecting"
      case .connected: "connected"
      case .stopping: "stopping"
      }
    }
  }

  let loop: EventLoop
  let log: Log
  let manager: ServiceManager?
  /// The enrolment code from the environment; nil: none.
  let code: String?
  var configuration: AgentConfiguration
  /// The addresses of the service, which stay as they are when the configuration is read again.
  let services: [DeviceAddress]
  let identityFile: DeviceIdentityFile
  let dispatcher: Dispatcher
  let server: ControlServer
  var permissions = Permissions(agentUser: geteuid())
  var registrations: Registrations
  var state = State.starting { didSet { stateChanged(from: oldValue) } }
  var deviceID: String?
  /// Unix seconds.
  var certificateEnd: Int64?

  var connection: DeviceConnection?
  var session: EnrolmentSession?
  var sentTopics: CourierTopics?
  var names: [TopicHash: String] = [:]
  var tokens: [String: String] = [:]
  /// Topics for which the service has no app. Asked for again with the next keep-alive: the operator may add it.
  var unknownTopics: Set<String> = []
  /// Programs that wait for a token.
  var tokenWaiters: [String: [ControlClient]] = [:]
  var networks: KnownNetworks
  var network = SystemWatch.networkName
  var search: KeepAliveSearch
  /// The silence after which the last connection was lost, until the next one shows that the network is fine.
  var lostAfterSeconds: Int?
  /// The place of the address of the last connection among the service's.
  var addressIndex = 0
  var connectedCount = 0
  private var watch: SystemWatch?
  var timer: LoopTimer?
  var whenTimerFires: (() -> Void)?
  private var isStopped = false

  /// - Throws: If the state cannot be used, another agent uses it, or the socket cannot be opened.
  package init(
    loop: EventLoop, configuration: AgentConfiguration, log: Log, manager: ServiceManager?,
    code: String?
  ) throws(AgentFault) {
    self.loop = loop
    self.configuration = configuration
    services = configuration.services
    self.log = log
    self.manager = manager
    self.code = code
    let directory = configuration.stateDirectory
    let file = try RecordFile(directory: directory, capacity: configuration.rememberedCount)
    dispatcher = Dispatcher(
      loop: loop, log: log, file: file, commandLimit: configuration.commandLimit)
    identityFile = DeviceIdentityFile(path: "\(directory)/identity.pem")
    registrations = Registrations(
      text: try StateFiles.readText("\(directory)/registrations") ?? "")
    networks = KnownNetworks(text: try StateFiles.readText("\(directory)/networks") ?? "")
    search = networks.search(network, bounds: configuration.keepAlive)
    server = try ControlServer(path: configuration.socketPath, loop: loop)
    dispatcher.host = self
    server.host = self
    timer = LoopTimer(loop: loop) { [weak self] in
      let body = self?.whenTimerFires
      self?.whenTimerFires = nil
      body?()
    }
    watch = try SystemWatch(loop: loop) { [weak self] in
      self?.networkChanged($0)
    } clockJumped: { [weak self] in
      self?.verify("the clock jumped")
    }
    useConfiguration()
  }

  package func start() {
    log(
      .info, "started", .text("service", configuration.serviceText),
      .number("topics", dispatcher.rules.count), .text("socket", configuration.socketPath))
    manager?.ready(state.text)
    findIdentity()
  }

  /// Replaces the configuration. Service, state and socket stay as they are until the next start.
  package func reload(_ new: AgentConfiguration) {
    let isOther =
      new.services != configuration.services
      || new.stateDirectory != configuration.stateDirectory
      || new.socketPath != configuration.socketPath
      || new.authorityFile != configuration.authorityFile
    if isOther {
      log(
        .warning, "service, authority, state and socket change only when the agent is started again"
      )
    }
    configuration = new
    search = networks.search(network, bounds: new.keepAlive)
    useConfiguration()
    updateConnection()
    log(.info, "configuration read again", .number("topics", dispatcher.rules.count))
    manager?.ready(state.text)
  }

  /// Waits for running commands, ends the connection, and stops the loop.
  package func stop() {
    guard state != .stopping else { return }
    state = .stopping
    manager?.stopping()
    session?.cancel()
    watch?.close()
    after(Self.stopMilliseconds) { [weak self] in self?.disconnect() }
    dispatcher.stop { [weak self] in self?.disconnect() }
  }

  private func disconnect() {
    guard !isStopped else { return }
    isStopped = true
    server.close()
    if let connection { connection.stop() } else { loop.stop() }
  }

  /// One thing at a time: the former one is forgotten.
  func after(_ milliseconds: UInt64, _ body: @escaping () -> Void) {
    whenTimerFires = body
    loop.updateNow()
    timer?.start(afterMilliseconds: milliseconds)
  }

  private func stateChanged(from old: State) {
    guard state != old, state != .stopping else { return }
    manager?.ready(state.text)
  }

  // MARK: Configuration

  private func useConfiguration() {
    permissions = Permissions(agentUser: geteuid())
    for grant in configuration.grants {
      guard let account = Account(named: grant.user) else {
        log(.warning, "there is no such user", .text("user", grant.user))
        continue
      }
      permissions.grants.append((account.user, grant))
    }
    for rule in configuration.topics {
      guard let users = rule.forward else { continue }
      permissions.readers[rule.topic] =
        users.contains("*") ? .some(nil) : Set(users.compactMap { Account(named: $0)?.user })
    }
    useRules()
  }

  /// The topics of the configuration, and those that programs registered.
  func useRules() {
    var rules = configuration.topics
    let configured = Set(rules.map(\.topic))
    for topic in registrations.topics where !configured.contains(topic) {
      var rule = TopicRule(topic: topic)
      rule.forward = []
      rules.append(rule)
    }
    dispatcher.use(rules, commandLimit: configuration.commandLimit)
    let hashes = rules.map { (Self.hash($0.topic), $0.topic) }
    names = Dictionary(hashes) { first, _ in first }
    for topic in Array(tokens.keys) where dispatcher.rules[topic] == nil { tokens[topic] = nil }
  }

  static func hash(_ topic: String) -> TopicHash {
    let bytes = Array(topic.utf8)
    return TopicHash(of: bytes.span)
  }

  /// Changes a file of the state; a failure is logged, and the former contents stay.
  func save(_ name: String, _ text: String) {
    do throws(AgentFault) {
      try StateFiles.replace("\(configuration.stateDirectory)/\(name)", text)
    } catch {
      log(.error, "state not saved", .text("reason", "\(error)"))
    }
  }
}
