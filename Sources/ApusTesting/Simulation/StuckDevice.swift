import ApusDevice
import ApusModel
import ApusServer
import ApusStore
import ApusWire

/// Two devices of one binary provider connection, with their clock, in a world without other events. The first one
/// stays connected and acknowledges nothing for a while; the second one acknowledges at once.
package final class StuckDevice {
  package struct Report: Sendable {
    /// Serial numbers that arrived at the first device, in order, with repetitions.
    package var arrived: [Int] = []
    /// Seconds from sending to the arrival at the second device; nil if nothing arrived there.
    package var secondsToNeighbour: Double?
    /// What the provider was told.
    package var packets: [UInt8] = []
    package var isProviderConnected = true
  }

  private let world: QuietWorld
  private var stuck: QuietDevice?
  private var neighbour: QuietDevice?
  private var provider: ClientChannel?
  private var sentAt: UInt64 = 0
  private var report = Report()

  package init() throws {
    // So little memory that a few hundred notifications fill the first device's queue.
    world = try QuietWorld { configuration in
      configuration.requestsPerTokenPerSecond = 0
      configuration.memoryMegabytes = 1
    }
    // A simulated service would run out of numbers for a burst, and reject what follows.
    world.server.orderBlockSize = AcceptanceOrder.defaultBlockSize
  }

  /// Sends `count` notifications to the first device and then one to the second, as one write. After `silentSeconds`
  /// the first one acknowledges everything; the world runs for `seconds` in all.
  ///
  /// - Parameter expiration: Unix seconds; 0 for notifications that must not be stored.
  package func run(
    count: Int, expiration: UInt32, silentSeconds: Int, seconds: Int
  ) throws -> Report {
    world.start()
    defer { world.end() }
    let stuck = try QuietDevice(0, world) { [weak self] in self?.report.arrived.append($0) }
    let neighbour = try QuietDevice(1, world) { [weak self] _ in self?.reachedNeighbour() }
    (self.stuck, self.neighbour) = (stuck, neighbour)
    neighbour.acknowledgeAll()
    provider = try world.connect(
      self, listener: SimulationListener.gateway(confirms: false),
      certificate: SimulationCredentials.providerCertificate(0, edition: 0), protocols: [])
    world.advance(5)
    send(count, to: stuck, andOneTo: neighbour, expiration: expiration)
    world.advance(silentSeconds)
    stuck.acknowledgeAll()
    world.advance(seconds - silentSeconds)
    return report
  }

  private func send(
    _ count: Int, to stuck: QuietDevice, andOneTo neighbour: QuietDevice, expiration: UInt32
  ) {
    guard let token = stuck.token, let last = neighbour.token else { return }
    var frames: [UInt8] = []
    for serial in 1...count + 1 {
      frames.append(
        framed: (serial > count ? last : token).bytes.span,
        payload: SimulationPayload.bytes(serial, padding: 0).span, identifier: UInt32(serial),
        expiration: expiration, priority: 10)
    }
    sentAt = world.timeline.now
    provider?.send(frames)
  }

  private func reachedNeighbour() {
    report.secondsToNeighbour =
      Double(world.timeline.now - sentAt) / Double(Timeline.second)
  }
}

extension StuckDevice: ChannelOwner {
  func channelOpened(_ channel: ClientChannel) {}

  func channelReceived(_ channel: ClientChannel, _ bytes: [UInt8], wallMilliseconds: Int64) {
    report.packets += bytes
  }

  func channelEnded(_ channel: ClientChannel, _ end: ClientChannel.End) {
    report.isProviderConnected = false
  }
}

/// A device with one app that sends keep-alives, and acknowledges what it gets from some moment on.
private final class QuietDevice: ChannelOwner {
  private let world: QuietWorld
  private let arrived: (Int) -> Void
  private var client: CourierClient
  private var channel: ClientChannel?
  private(set) var token: DeviceToken?
  /// Message ids to acknowledge later; nil if each is acknowledged at once.
  private var neglected: [UInt32]? = []

  private static let dialect = CourierALPN.apus
  private static let keepAliveSeconds: UInt64 = 20

  /// - Parameter arrived: Gets the serial number of each notification.
  init(_ index: Int, _ world: QuietWorld, arrived: @escaping (Int) -> Void) throws {
    self.world = world
    self.arrived = arrived
    client = CourierClient(
      configuration: CourierClient.Configuration(
        dialect: Self.dialect, responseMilliseconds: 20_000,
        keepAliveMilliseconds: 1000 * Self.keepAliveSeconds, answerMilliseconds: 20_000))
    let topic = SimulationCredentials.topicHash(0)
    var nothing: [UInt8] = []
    _ = client.requestToken(topic, to: &nothing)
    client.setTopics(CourierTopics(enabled: [topic]), to: &nothing)
    channel = try world.connect(
      self, listener: SimulationListener.index(.courier, .production), certificate: index,
      protocols: ["\(Self.dialect.name)"])
    keepAlive()
  }

  private var nowMilliseconds: UInt64 { world.timeline.now / 1000 }

  /// Acknowledges what has arrived, and whatever arrives from now on.
  func acknowledgeAll() {
    var output: [UInt8] = []
    for messageID in neglected ?? [] { client.acknowledge(messageID, to: &output) }
    neglected = nil
    channel?.send(output)
  }

  private func keepAlive() {
    world.timeline.after(Self.keepAliveSeconds * Timeline.second) { [weak self] in
      guard let self, let channel else { return }
      var output: [UInt8] = []
      CourierKeepAlive(intervalMinutes: 1).encode(to: &output)
      channel.send(output)
      keepAlive()
    }
  }

  func channelOpened(_ channel: ClientChannel) {
    var output: [UInt8] = []
    client.begin(nowMilliseconds: nowMilliseconds, to: &output)
    channel.send(output)
  }

  func channelReceived(_ channel: ClientChannel, _ bytes: [UInt8], wallMilliseconds: Int64) {
    var offset = 0
    var output: [UInt8] = []
    while let event = client.next(
      bytes.span, at: &offset, nowMilliseconds: nowMilliseconds, to: &output)
    {
      switch event {
      case .appToken(_, let token): self.token = token
      case .notification(let arrival):
        arrived(SimulationPayload.serial(of: arrival.payload(in: bytes.span)) ?? -1)
        if neglected == nil {
          client.acknowledge(arrival.notification.messageID, to: &output)
        } else {
          neglected?.append(arrival.notification.messageID)
        }
      default: break
      }
    }
    channel.send(output)
  }

  func channelEnded(_ channel: ClientChannel, _ end: ClientChannel.End) { self.channel = nil }
}
