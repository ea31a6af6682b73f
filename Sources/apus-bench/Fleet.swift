import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// Many devices on one loop. Confined to it.
final class Fleet: DeviceConnectionDelegate {
  /// Why it ended before all devices had their tokens, or could not say which.
  private(set) var failure: CommandFailure?

  private let loop: EventLoop
  private let shared: DeviceLoop
  private let topic: TopicHash
  private let tokensPath: String?
  private let exitsAfterRegistration: Bool
  private var devices: [DeviceConnection] = []
  private var tokens: [DeviceToken?] = []
  private var started = 0
  private var registered = 0
  private var stopped = 0
  private var received: Int64 = 0
  private var reportedDisconnections = 0
  private var isStopping = false

  /// Devices between their start and their token: a listener's queue takes no thousands at once.
  private static let atOnce = 64
  /// Reasons of lost connections that are reported; the rest is noise.
  private static let reportLimit = 10

  init(loop: EventLoop, topic: TopicHash, tokensPath: String?, exitsAfterRegistration: Bool) {
    self.loop = loop
    self.topic = topic
    self.tokensPath = tokensPath
    self.exitsAfterRegistration = exitsAfterRegistration
    shared = DeviceLoop(loop: loop)
  }

  /// The id of a device by its number: spread over all ids, and the same in every run.
  static func deviceID(_ index: Int) -> DeviceID {
    var generator = SeededGenerator(seed: UInt64(index))
    return DeviceID(generator.next())
  }

  func add(_ configuration: DeviceConnection.Configuration) {
    let index = devices.count
    let device = DeviceConnection(
      shared: shared, configuration: configuration, tag: index,
      seed: Self.deviceID(index).rawValue, delegate: self)
    device.setTopics(CourierTopics(enabled: [topic]))
    _ = device.requestToken(topic)
    devices.append(device)
    tokens.append(nil)
  }

  func start() {
    while started < devices.count, started - registered < Self.atOnce {
      devices[started].start()
      started += 1
    }
  }

  /// Ends all connections, behind their acknowledgements, and then the loop.
  func stop() {
    guard !isStopping else { return }
    isStopping = true
    if registered < devices.count, failure == nil {
      failure = CommandFailure(
        .failed, "it ended when \(registered) of \(devices.count) devices were registered")
    }
    if started == 0 { return loop.stop() }
    for device in devices[..<started] { device.stop() }
  }

  var summary: JSONValue {
    let duplicates = devices.reduce(0) { $0 + $1.client.duplicateCount }
    return .members([
      "devices": .integer(Int64(registered)), "received": .integer(received),
      // All of them, at the end of the turn in which they came.
      "acknowledged": .integer(received), "duplicates": .integer(Int64(duplicates)),
    ])
  }

  // MARK: Registration

  func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for topic: TopicHash
  ) {
    guard !isStopping, tokens[connection.tag] == nil else { return }
    guard let token else {
      failure = CommandFailure(
        .failed, "the service gives no token for the topic", remedy: "Is it an app of the service?")
      return stop()
    }
    tokens[connection.tag] = token
    registered += 1
    if registered == devices.count { finishRegistration() } else { start() }
  }

  private func finishRegistration() {
    if let tokensPath {
      do throws(CommandFailure) {
        let lines = tokens.compactMap { $0.map { $0.hex + "\n" } }
        try writeText(lines.joined(), to: tokensPath)
      } catch {
        failure = error
        return stop()
      }
    }
    if exitsAfterRegistration { stop() }
  }

  func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64
  ) {}

  func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?
  ) {
    if case .stopped = reason {
      stopped += 1
      if stopped == started { loop.stop() }
    }
    if isStopping { return }
    if reportedDisconnections < Self.reportLimit {
      reportedDisconnections += 1
      report("apus-bench fleet: device \(connection.tag): \(reason)\n")
    }
    // A first device that fails so fails for a reason that all others share.
    guard registered == 0 else { return }
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
    received += 1
    return .acknowledge
  }
}
