import ApusRandom
import ApusTLS

/// Receives the events of a provider's connection to the service.
protocol LineUser: AnyObject {
  func lineOpened()
  func lineReceived(_ bytes: [UInt8])
  /// The connection has ended; `end` is nil if this side abandoned it.
  func lineLost(_ end: ClientChannel.End?)
}

/// A provider's connection, reconnected after a while whenever it is lost.
final class SimulatedLine: ChannelOwner {
  enum Role {
    case sender, oldSender, feedbackReader, broadcaster, legacySender

    fileprivate var connects: StaticString {
      switch self {
      case .sender: "sender connects"
      case .oldSender: "old sender connects"
      case .feedbackReader: "feedback reader connects"
      case .broadcaster: "broadcaster connects"
      case .legacySender: "legacy sender connects"
      }
    }

    fileprivate var loses: StaticString {
      switch self {
      case .sender: "sender loses connection"
      case .oldSender: "old sender loses connection"
      case .feedbackReader: "feedback reader loses connection"
      case .broadcaster: "broadcaster loses connection"
      case .legacySender: "legacy sender loses connection"
      }
    }

    fileprivate var suffers: StaticString {
      switch self {
      case .sender: "sender trouble"
      case .oldSender: "old sender trouble"
      case .feedbackReader: "feedback reader trouble"
      case .broadcaster: "broadcaster trouble"
      case .legacySender: "legacy sender trouble"
      }
    }
  }

  let role: Role
  let index: Int
  private let listener: Int
  private unowned let world: Simulation
  private var random: SeededRandom
  weak var user: (any LineUser)?
  /// Creates the TLS context of each connection.
  private let makeContext: () throws -> TLSContext
  private(set) var channel: ClientChannel?
  /// Whether a lost connection is reopened.
  var reconnects = true

  init(
    _ role: Role, _ index: Int, listener: Int, world: Simulation, random: SeededRandom,
    makeContext: @escaping () throws -> TLSContext
  ) {
    self.role = role
    self.index = index
    self.listener = listener
    self.world = world
    self.random = random
    self.makeContext = makeContext
  }

  func connect() {
    guard channel == nil else { return }
    do {
      let channel = try ClientChannel(
        self, listener: listener, context: makeContext(), network: world.network)
      self.channel = channel
      world.trace(role.connects, index, channel.number)
    } catch {
      world.oracle.violated(.protocols, "no TLS connection: \(error)")
    }
  }

  func send(_ bytes: [UInt8]) { channel?.send(bytes) }

  /// Announces the end of output.
  func finish() { channel?.finish() }

  /// Abandons the connection, cleanly or with a reset.
  func leave(resets: Bool = false) {
    guard let channel else { return }
    channel.drop(resets: resets)
    lost(nil)
  }

  /// The connection breaks: with a reset, or because the machine on this side disappears and returns.
  func suffer(resets: Bool) {
    guard let channel else { return }
    world.trace(role.suffers, index, resets ? 1 : 0)
    if resets { channel.drop(resets: true) } else { channel.vanish(probed: true) }
    lost(nil)
  }

  private func lost(_ end: ClientChannel.End?) {
    channel = nil
    user?.lineLost(end)
    guard reconnects else { return }
    world.timeline.after(random.between(200, 5_000) * 1000) { [weak self] in self?.connect() }
  }

  // MARK: From the channel

  func channelOpened(_ channel: ClientChannel) {
    guard channel === self.channel else { return }
    user?.lineOpened()
  }

  func channelReceived(_ channel: ClientChannel, _ bytes: [UInt8], wallMilliseconds: Int64) {
    guard channel === self.channel else { return }
    user?.lineReceived(bytes)
  }

  func channelEnded(_ channel: ClientChannel, _ end: ClientChannel.End) {
    guard channel === self.channel else { return }
    world.trace(role.loses, index, channel.number)
    lost(end)
  }
}
