import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusTrust
import ApusWire
import Glibc

/// Devices of one process, as its command sees them: good ones or others.
protocol DeviceCrowd: AnyObject {
  /// Why it ended before it did what it was to do, or could not say which.
  var failure: CommandFailure? { get }
  /// Called once all tokens are known, and written.
  var onRegistration: () -> Void { get set }
  func add(_ configuration: DeviceConnection.Configuration)
  /// What it has done, as of now.
  func status() -> FleetStatus
  /// Begins the latency anew.
  func cut()
  func start()
  /// Breaks all connections, as when the network goes.
  func breakConnections()
  /// Ends all connections, and then the loop.
  func stop()
}

/// Many good devices on one loop. Confined to it.
final class Fleet: DeviceConnectionDelegate, DeviceCrowd {
  /// What is known of a device beside its connection.
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
  private var counts = FleetStatus()
  /// What the duplicates were added up for.
  private var countedAtReceived: UInt64 = 0
  private var members: [Member] = []
  private var tokens: TokenBook
  private var started = 0
  private var stopped = 0
  private var reportedDisconnections = 0
  private var isStopping = false

  /// Reasons of lost connections that are reported; the rest is noise.
  private static let reportLimit = 10
  /// Notifications that a device remembers, more than a service has under way to it: less memory than the library's.
  private static let duplicateWindow = 64

  init(loop: EventLoop, settings: FleetSettings, sources: [SocketAddress]) {
    self.loop = loop
    self.settings = settings
    self.sources = sources
    let name = Array(settings.topic.utf8)
    topic = TopicHash(of: name.span)
    shared = DeviceLoop(loop: loop)
    tokens = TokenBook(deviceCount: settings.numbers.count)
    counts[.devices] = UInt64(settings.numbers.count)
    members.reserveCapacity(settings.numbers.count)
  }

  /// The id of a device by its number: spread over all ids, and the same in every run.
  static func deviceID(_ index: Int) -> DeviceID {
    var generator = SeededGenerator(seed: UInt64(index))
    return DeviceID(generator.next())
  }

  func add(_ configuration: DeviceConnection.Configuration) {
    let index = members.count
    let seed = Self.deviceID(settings.numbers.lowerBound + index).rawValue
    let device = DeviceConnection(
      shared: shared, configuration: adapted(configuration, index, seed), tag: index, seed: seed,
      delegate: self)
    device.setTopics(CourierTopics(enabled: [topic]))
    _ = device.requestToken(topic)
    members.append(Member(device: device))
  }

  private func adapted(
    _ configuration: DeviceConnection.Configuration, _ index: Int, _ seed: UInt64
  ) -> DeviceConnection.Configuration {
    var configuration = configuration
    if !sources.isEmpty { configuration.source = sources[index % sources.count] }
    configuration.client.duplicateWindow = Self.duplicateWindow
    // Each device has a period of its own: those that connected together do not speak together ever after.
    var generator = SeededGenerator(seed: seed)
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
        "it ended when \(counts[.registered]) of \(counts[.devices]) devices were registered")
    }
    if started == 0 { return loop.stop() }
    for member in members[..<started] { member.device.stop() }
  }

  func status() -> FleetStatus {
    // Each look at all devices costs what a thousand notifications do, so it is taken only where there is news.
    if countedAtReceived != counts[.received] {
      countedAtReceived = counts[.received]
      counts[.duplicates] = members.reduce(0) { $0 + $1.device.client.duplicateCount }
    }
    var status = counts
    if counts[.connected] < UInt64(started) {
      status[.connecting] = members[..<started].reduce(0) { $0 + ($1.isConnecting ? 1 : 0) }
    }
    // All of them, at the end of the turn in which they came.
    status[.acknowledged] = counts[.received]
    return status
  }

  func cut() { counts.latency.removeAll() }

  /// Breaks all connections, as when the network goes: the devices come back as they do.
  func breakConnections() {
    for member in members where member.isConnected {
      if let descriptor = member.device.descriptor { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }
  }

  /// Makes all connections those of a machine that has lost its power.
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
        .failed, "the service gives no token for the topic", remedy: "Is it an app of the service?")
      return stop()
    }
    guard tokens.add(token, of: connection.tag) else { return }
    counts[.registered] += 1
    if tokens.isComplete { finishRegistration() } else { start() }
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
    // A first device that fails so fails for a reason that all others share.
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
    payload: Span<UInt8>, collapseID: Span<UInt8>
  ) -> DeviceVerdict {
    counts.received(payload)
    return .acknowledge
  }
}

extension Fleet.Member {
  /// Whether the device is on its way to a connection, and does not wait.
  fileprivate var isConnecting: Bool {
    switch device.stage {
    case .idle, .waiting, .lingering: false
    case .resolving, .connecting, .handshaking, .open: !isConnected
    }
  }
}
