import ApusCore
import ApusDevice
import ApusModel
import ApusTLS
import ApusWire

/// A device that receives a notification and never acknowledges it, with its clock, in a world without other events.
package final class SilentDevice {
  package struct Report: Sendable {
    /// Seconds from the notification's arrival to the end of the connection; nil while it is open.
    package var secondsToEnd: Double?
    /// Seconds from the start to the end of the connection; nil while it is open.
    package var connectedSeconds: Double?
    /// Notifications that arrived on the connection.
    package var arrivedCount = 0
    /// How often it became dormant, and how often it was woken.
    package var dormant: UInt64 = 0
    package var woken: UInt64 = 0
  }

  private let world: QuietWorld
  private let keepAliveSeconds: UInt64
  private var client: CourierClient
  private var framer = CourierFramer()
  private var device: ClientChannel?
  private var provider: ClientChannel?
  private var token: DeviceToken?
  private var arrivedAt: UInt64?
  private var report = Report()

  private static let dialect = CourierALPN.apus

  /// - Parameter keepAliveSeconds: The interval of the device's keep-alives.
  package init(keepAliveSeconds: Int) throws {
    world = try QuietWorld()
    self.keepAliveSeconds = UInt64(keepAliveSeconds)
    client = CourierClient(
      configuration: CourierClient.Configuration(
        dialect: Self.dialect, responseMilliseconds: 20_000,
        keepAliveMilliseconds: UInt64(keepAliveSeconds) * 1000, answerMilliseconds: 20_000))
  }

  /// The device connects and sends only keep-alives. After `quietSeconds` a notification is sent to it if `pushes`, and
  /// the world runs for `seconds` more.
  package func run(quietSeconds: Int, seconds: Int, pushes: Bool = true) throws -> Report {
    let topic = SimulationCredentials.topicHash(0)
    var nothing: [UInt8] = []
    _ = client.requestToken(topic, to: &nothing)
    client.setTopics(CourierTopics(enabled: [topic]), to: &nothing)
    world.start()
    defer { world.end() }
    device = try world.connect(
      self, listener: SimulationListener.index(.courier, .production), certificate: 0,
      protocols: ["\(Self.dialect.name)"])
    keepAlive()
    provider = try world.connect(
      self, listener: SimulationListener.gateway(confirms: false),
      certificate: SimulationCredentials.providerCertificate(0, edition: 0), protocols: [])
    world.advance(quietSeconds)
    if pushes, let token {
      var frame: [UInt8] = []
      frame.append(
        framed: token.bytes.span, payload: SimulationPayload.bytes(1, padding: 0).span,
        identifier: 1, expiration: .max, priority: 10)
      provider?.send(frame)
    }
    world.advance(seconds)
    let dormancy = world.server.dormancy
    (report.dormant, report.woken) = (dormancy.fallen, dormancy.woken)
    return report
  }

  private var timeline: Timeline { world.timeline }

  private func keepAlive() {
    timeline.after(keepAliveSeconds * Timeline.second) { [weak self] in
      guard let self, let device else { return }
      var output: [UInt8] = []
      CourierKeepAlive(intervalMinutes: UInt32(keepAliveSeconds / 60 + 1)).encode(to: &output)
      device.send(output)
      keepAlive()
    }
  }

  private func handle(_ event: CourierClientEvent) {
    switch event {
    case .appToken(_, let token): self.token = token
    case .notification:
      report.arrivedCount += 1
      arrivedAt = timeline.now
    default: break
    }
  }
}

extension SilentDevice: ChannelOwner {
  func channelOpened(_ channel: ClientChannel) {
    guard channel === device else { return }
    var output: [UInt8] = []
    client.begin(nowMilliseconds: timeline.now / 1000, to: &output)
    channel.send(output)
  }

  func channelReceived(_ channel: ClientChannel, _ bytes: [UInt8], wallMilliseconds: Int64) {
    guard channel === device else { return }
    var offset = 0
    var output: [UInt8] = []
    while let event = client.next(
      bytes.span, at: &offset, nowMilliseconds: timeline.now / 1000, to: &output)
    {
      handle(event)
    }
    channel.send(output)
  }

  func channelEnded(_ channel: ClientChannel, _ end: ClientChannel.End) {
    guard channel === device else { return }
    device = nil
    report.connectedSeconds = Double(timeline.now) / Double(Timeline.second) - 1
    guard let arrivedAt else { return }
    report.secondsToEnd = Double(timeline.now - arrivedAt) / Double(Timeline.second)
  }
}
