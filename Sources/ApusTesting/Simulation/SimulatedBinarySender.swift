import ApusModel
import ApusTLS
import ApusWire

/// An old sender: writes notifications and hears nothing, until a packet says which of them was the last good one.
final class SimulatedBinarySender: ChannelOwner {
  let index: Int
  let environment: Environment
  let door: Int
  let app: Int
  private unowned let world: Simulation
  private var random: SeededRandom
  private let context: TLSContext
  private var channel: ClientChannel?
  /// What was sent on this connection and is not known to be good, in order.
  private var open: [(identifier: UInt32, serial: Int?)] = []
  private var input: [UInt8] = []
  /// It has said that no more comes: a clean end then means that everything was good.
  private var hasFinished = false
  /// A packet came that ends the connection.
  private var wasTold = false
  private var isQuiet = false
  private var sentCount: UInt32 = 0
  private let meanWait: UInt64

  init(
    _ index: Int, environment: Environment, door: Int, app: Int, context: TLSContext,
    meanWait: UInt64, world: Simulation, random: SeededRandom
  ) {
    self.index = index
    self.environment = environment
    self.door = door
    self.app = app
    self.context = context
    self.meanWait = meanWait
    self.world = world
    self.random = random
  }

  func start() {
    connect()
    sendLater()
  }

  private func connect() {
    guard channel == nil else { return }
    do {
      let channel = try ClientChannel(self, door: door, context: context, network: world.network)
      self.channel = channel
      world.trace("old sender connects", index, channel.number)
    } catch {
      world.oracle.violated("no TLS connection: \(error)")
    }
  }

  func channelOpened(_ channel: ClientChannel) {
    guard !isQuiet else { return finish() }
    let lifetime = random.between(5, 600) * Timeline.second
    world.timeline.after(lifetime) { [weak self, weak channel] in
      guard let self, channel === self.channel else { return }
      finish()
    }
  }

  private func finish() {
    hasFinished = true
    channel?.finish()
  }

  // MARK: What the service says

  func channelReceived(_ channel: ClientChannel, _ bytes: [UInt8], wallMilliseconds: Int64) {
    guard channel === self.channel else { return }
    input += bytes
    while input.count >= BinaryErrorPacket.byteCount, !wasTold {
      let bytes = Array(input.prefix(BinaryErrorPacket.byteCount))
      guard let packet = BinaryErrorPacket(bytes.span) else {
        return world.oracle.violated("an old sender cannot read the service")
      }
      input.removeFirst(BinaryErrorPacket.byteCount)
      told(packet)
    }
  }

  private func told(_ packet: BinaryErrorPacket) {
    let status = BinaryStatus(rawValue: packet.status)
    guard let place = open.firstIndex(where: { $0.identifier == packet.identifier }) else {
      // Of a shutdown: everything was good and is forgotten already, or nothing was.
      guard status == .shutdown else {
        return world.oracle.violated("an old sender was told of a notification it never sent")
      }
      wasTold = true
      return forgetRest()
    }
    world.trace("old sender is told", index, Int(packet.status), open[place].serial ?? -1)
    for good in open[..<place] { accepted(good.serial) }
    let named = open[place].serial
    switch status {
    case .noError:
      accepted(named)
      open.removeSubrange(...place)
      return
    case .shutdown: accepted(named)
    default: if let named { world.oracle.refused(named, mayHaveTaken: status == .processingError) }
    }
    open.removeSubrange(...place)
    wasTold = true
    forgetRest()
  }

  private func accepted(_ serial: Int?) {
    if let serial {
      world.oracle.accepted(serial)
    } else {
      world.oracle.violated("law 2: a bad notification was accepted silently")
    }
  }

  /// What came behind the notification that a packet names was not taken; nobody can be sure of it where the service
  /// failed by itself.
  private func forgetRest() {
    for request in open { if let serial = request.serial { world.oracle.lost(serial) } }
    open = []
  }

  func channelEnded(_ channel: ClientChannel, _ end: ClientChannel.End) {
    guard channel === self.channel else { return }
    world.trace("old sender loses connection", index, channel.number, open.count)
    if case .closed = end, hasFinished, !wasTold {
      for request in open { accepted(request.serial) }
      open = []
    }
    lost()
  }

  private func lost() {
    forgetRest()
    channel = nil
    input = []
    hasFinished = false
    wasTold = false
    guard !isQuiet else { return }
    world.timeline.after(random.between(200, 5_000) * 1000) { [weak self] in self?.connect() }
  }

  // MARK: Notifications

  private func sendLater() {
    world.timeline.after(random.wait(mean: meanWait)) { [weak self] in
      guard let self, !isQuiet else { return }
      send(random.chance(1, in: 10) ? 1 + random.below(40) : 1)
      sendLater()
    }
  }

  func stopSending() {
    isQuiet = true
    finish()
  }

  private func send(_ count: Int) {
    guard let channel, channel.isOpen, !hasFinished else { return }
    var output: [UInt8] = []
    for _ in 0..<count {
      guard let target = world.target(environment: environment, app: app, &random) else { break }
      let isBad = random.chance(1, in: 200)
      let expiration =
        random.chance(1, in: 5)
        ? 0
        : UInt32(
          world.worldSeconds + Int64(random.between(5, 100_000)))
      var serial: Int?
      if !isBad {
        serial = world.sent(target, environment: environment, expiration: Int64(expiration))
      }
      sentCount += 1
      var token = target.token.bytes
      if isBad { token[31] ^= 1 }
      let payload = SimulationPayload.bytes(serial ?? 999_999_999, padding: random.below(200))
      if random.chance(1, in: 3) {
        output.append(
          enhanced: token.span, payload: payload.span, identifier: sentCount,
          expiration: expiration)
      } else {
        output.append(
          framed: token.span, payload: payload.span, identifier: sentCount,
          expiration: expiration, priority: random.chance(1, in: 3) ? 5 : 10)
      }
      open.append((sentCount, serial))
    }
    channel.send(output)
  }

  func suffer(resets: Bool) {
    guard let channel else { return }
    world.trace("old sender trouble", index, resets ? 1 : 0)
    if resets { channel.drop(resets: true) } else { channel.vanish(probed: true) }
    lost()
  }
}
