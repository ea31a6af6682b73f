import ApusRandom
import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusTrust
import ApusWire
import Glibc

/// The devices of one process, well-behaved or misbehaving.
protocol DeviceCrowd: AnyObject {
  /// Why it ended early or failed; nil if it did not.
  var failure: CommandFailure? { get }
  /// Called once all tokens are known and written.
  var onRegistration: () -> Void { get set }
  func add(_ configuration: DeviceConnection.Configuration)
  /// The current status.
  func status() -> FleetStatus
  /// Resets the latency.
  func cut()
  func start()
  /// Breaks all connections, like a network failure.
  func breakConnections()
  /// Closes all connections, then stops the loop.
  func stop()
}

/// Many well-behaved devices on one loop. Confined to it.
final class Fleet: DeviceConnectionDelegate, DeviceCrowd {
  /// The state of a device besides its connection.
  fileprivate struct Member {
    let device: DeviceConnection
    var isConnected = false
  }

  private(set) var failure: CommandFailure?
  var onRegistration: () -> Void = {}

  private let loop: EventLoop
  private let shared: DeviceLoop
  private let settings: FleetSettings
  private let sources: [SocketAddress]
  private let topic: TopicHash
  private let topics: CourierTopics
  /// What each device subscribes to; nil for nothing.
  private let subscriptions: CourierSubscriptions?
  private var counts = FleetStatus()
  /// The count of received notifications at the last sum of duplicates.
  private var countedAtReceived: UInt64 = 0
  private var members: [Member] = []
  private var tokens: TokenBook
  private var started = 0
  private var stopped = 0
  private var reportedDisconnections = 0
  private var isRegistered = false
  private var isStopping = false

  /// Maximum number of reported connection losses.
  private static let reportLimit = 10
  /// Notifications that a device remembers: more than a service has in flight, but fewer than the library's default, to
  /// save memory.
  private static let duplicateWindow = 64

  init(loop: EventLoop, settings: FleetSettings, sources: [SocketAddress]) {
    self.loop = loop
    self.settings = settings
    self.sources = sources
    let name = Array(settings.topic.utf8)
    topic = TopicHash(of: name.span)
    let activities = Array("\(settings.topic)\(TopicSuffix.liveActivity.text)".utf8)
    topics = CourierTopics(
      enabled: settings.hasActivities ? [topic, TopicHash(of: activities.span)] : [topic])
    subscriptions = settings.subscriptions(topic: activities)
    shared = DeviceLoop(loop: loop)
    tokens = TokenBook(deviceCount: settings.numbers.count)
    counts[.devices] = UInt64(settings.numbers.count)
    members.reserveCapacity(settings.numbers.count)
  }

  /// The id of a device, derived from its number: evenly distributed, and the same in every run.
  static func deviceID(_ index: Int) -> DeviceID {
    var generator = SeededRandom(seed: UInt64(index))
    return DeviceID(generator.next())
  }

  func add(_ configuration: DeviceConnection.Configuration) {
    let index = members.count
    let seed = Self.deviceID(settings.numbers.lowerBound + index).rawValue
    let device = DeviceConnection(
      shared: shared, configuration: adapted(configuration, index, seed), tag: index, seed: seed,
      delegate: self)
    device.setTopics(topics)
    _ = device.requestToken(topic)
    if let subscriptions { _ = device.subscribe(subscriptions) }
    members.append(Member(device: device))
  }

  private func adapted(
    _ configuration: DeviceConnection.Configuration, _ index: Int, _ seed: UInt64
  ) -> DeviceConnection.Configuration {
    var configuration = configuration
    if !sources.isEmpty { configuration.source = sources[index % sources.count] }
    configuration.client.duplicateWindow = Self.duplicateWindow
    // Each device has a different period, so that devices that connected together do not stay in step.
    var generator = SeededRandom(seed: seed)
    let milliseconds = UInt64(settings.keepAliveSeconds) * 1000
    configuration.client.keepAliveMilliseconds = UInt64.random(
      in: milliseconds - milliseconds / 4...milliseconds, using: &generator)
    if let longest = settings.reconnectMilliseconds.map(UInt64.init) {
      configuration.backoff = Backoff.Configuration(
        firstMilliseconds: longest, maximumMilliseconds: longest, hasFullJitter: true)
    }
    return configuration
  }

  // MARK: DeviceCrowd

  func start() {
    while started < members.count, UInt64(started) - counts[.registered] < UInt64(settings.atOnce) {
      members[started].device.start()
      started += 1
    }
  }

  func stop() {
    guard !isStopping else { return }
    isStopping = true
    if counts[.registered] < counts[.devices], failure == nil {
      failure = CommandFailure(
        .failed,
        "stopped after \(counts[.registered]) of \(counts[.devices]) devices were registered")
    }
    if started == 0 { return loop.stop() }
    for member in members[..<started] { member.device.stop() }
  }

  func status() -> FleetStatus {
    // Visiting all devices costs as much as a thousand notifications, so it is done only after changes.
    if countedAtReceived != counts[.received] {
      countedAtReceived = counts[.received]
      counts[.duplicates] = members.reduce(0) { $0 + $1.device.client.duplicateCount }
    }
    var status = counts
    if counts[.connected] < UInt64(started) {
      status[.connecting] = members[..<started].reduce(0) { $0 + ($1.isConnecting ? 1 : 0) }
    }
    // Every notification is acknowledged at the end of the turn in which it arrived.
    status[.acknowledged] = counts[.received]
    return status
  }

  func cut() { counts.latency.removeAll() }

  /// Breaks all connections, like a network failure; the devices reconnect as usual.
  func breakConnections() {
    for member in members where member.isConnected {
      if let descriptor = member.device.descriptor { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }
  }

  /// Makes all connections behave as if the machine had lost power.
  func silence() {
    for member in members where member.isConnected {
      if let descriptor = member.device.descriptor { DeadPeer.silence(descriptor) }
    }
  }

  // MARK: Registration

  func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for topic: TopicHash
  ) {
    guard !isStopping else { return }
    guard let token else {
      failure = CommandFailure(
        .failed, "the service issues no token for the topic", remedy: "Is it an app of the service?"
      )
      return stop()
    }
    guard tokens.add(token, of: connection.tag) else { return }
    counts[.registered] += 1
    start()
    finishRegistrationIfComplete()
  }

  func deviceConnection(
    _ connection: DeviceConnection, confirmed confirmation: CourierChannelConfirmation
  ) {
    guard !isStopping else { return }
    guard confirmation.status == .applied else {
      failure = CommandFailure(
        .failed, "a subscription was refused with status \(confirmation.status.rawValue)",
        remedy: "Is it a channel of the app, in the environment of the listener?")
      return stop()
    }
    counts[.subscribed] += 1
    finishRegistrationIfComplete()
  }

  /// Every device has its token, and its subscriptions.
  private func finishRegistrationIfComplete() {
    guard !isRegistered, tokens.isComplete,
      subscriptions == nil || counts[.subscribed] == counts[.devices]
    else { return }
    isRegistered = true
    finishRegistration()
  }

  private func finishRegistration() {
    if let tokensPath = settings.tokensPath {
      do throws(CommandFailure) {
        try tokens.write(to: tokensPath)
      } catch {
        failure = error
        return stop()
      }
    }
    onRegistration()
    if settings.exitsAfterRegistration { stop() }
  }

  // MARK: Connections

  func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64
  ) {
    members[connection.tag].isConnected = true
    counts[.connected] += 1
    counts[.handshakes] += 1
    if connection.isResumed { counts[.resumed] += 1 }
  }

  func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?
  ) {
    let wasConnected = members[connection.tag].isConnected
    if wasConnected {
      members[connection.tag].isConnected = false
      counts[.connected] -= 1
    }
    if case .stopped = reason {
      stopped += 1
      if stopped == started { loop.stop() }
    }
    if isStopping { return }
    counts[wasConnected ? .disconnections : .failures] += 1
    if reportedDisconnections < Self.reportLimit {
      reportedDisconnections += 1
      report(
        "apus-bench fleet: device \(settings.numbers.lowerBound + connection.tag): \(reason)\n")
    }
    // If the first device fails this way, all others would fail for the same reason.
    guard counts[.registered] == 0 else { return }
    switch reason {
    case .refused, .tls, .otherProtocol:
      failure = CommandFailure(.unavailable, "\(reason)")
      stop()
    default: break
    }
  }

  // MARK: Notifications

  func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>, channelID: Span<UInt8>
  ) -> DeviceVerdict {
    counts.received(payload)
    return .acknowledge
  }
}

extension Fleet.Member {
  /// Whether the device is connecting, and not waiting for a retry.
  fileprivate var isConnecting: Bool {
    switch device.stage {
    case .idle, .waiting, .lingering: false
    case .resolving, .connecting, .handshaking, .open: !isConnected
    }
  }
}
