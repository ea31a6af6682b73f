import ApusModel
import ApusRandom
import ApusTLS
import ApusWire

/// A legacy sender of an app with an upstream. Like the usual libraries, it writes without waiting; if it reads an
/// error packet, it sends everything behind the notification that the packet names again, on a new connection.
final class SimulatedLegacySender: LineUser {
  /// What is sent, and sent again.
  private struct Push {
    /// Nil for one that must be rejected at once.
    var serial: Int?
    var token: [UInt8]
    var payload: [UInt8]
    var expiration: UInt32
  }

  private struct Request {
    var identifier: UInt32
    var push: Push
  }

  let app: Int
  let provider: RelayedPush.Provider
  private unowned let world: Simulation
  private let relay: RelayWorld
  private var random: SeededRandom
  let line: SimulatedLine
  /// Sent on this connection, in order.
  private var open: [Request] = []
  /// To be sent again on the next connection.
  private var queue: [Push] = []
  private var input: [UInt8] = []
  private var openedTime: UInt64 = 0
  private var generation = 0
  private var sentCount: UInt32 = 0
  private var hasFinished = false
  private var wasTold = false
  private var isQuiet = false
  private let meanWait: UInt64

  init(
    _ index: Int, app: Int, _ provider: RelayedPush.Provider, meanWait: UInt64, _ relay: RelayWorld,
    _ world: Simulation, random: SeededRandom
  ) {
    (self.app, self.provider, self.meanWait) = (app, provider, meanWait)
    (self.relay, self.world) = (relay, world)
    var random = random
    let listener = SimulationListener.gateway(confirms: random.chance(1, in: 2))
    line = SimulatedLine(
      .legacySender, index, listener: listener, world: world, random: random.split()
    ) {
      try world.credentials.clientContext(
        certificate: SimulationCredentials.relayedCertificate(app), protocols: [])
    }
    self.random = random
    line.user = self
  }

  func start() {
    line.connect()
    sendLater()
  }

  /// Whether it has sent what it had to send again, and its connection has ended.
  var isDone: Bool { line.channel == nil && queue.isEmpty }

  // MARK: The connection

  func lineOpened() {
    openedTime = world.timeline.now
    generation = world.generation
    resend()
    guard !isQuiet else { return finish() }
    let channel = line.channel
    world.timeline.after(random.between(5, 600) * Timeline.second) { [weak self, weak channel] in
      guard let self, let channel, channel === line.channel else { return }
      finish()
    }
  }

  private func resend() {
    var output: [UInt8] = []
    for push in queue {
      if let serial = push.serial { relay.oracle.resent(serial) }
      write(push, to: &output)
    }
    world.trace("legacy sender resends", line.index, queue.count)
    queue = []
    line.send(output)
  }

  private func finish() {
    hasFinished = true
    line.finish()
  }

  func lineLost(_ end: ClientChannel.End?) {
    let isClean =
      if case .closed? = end {
        // What a link between nodes loses of a connection, an edge does not notice.
        world.areUp && world.generation == generation
          && (world.cluster == nil || world.wasUntroubled(since: openedTime, generation))
      } else {
        false
      }
    let isAccepted =
      isClean && hasFinished && provider == .careful && !wasTold
      && world.wasUntroubled(since: openedTime, generation)
    for request in open {
      guard let serial = request.push.serial else { continue }
      if isAccepted { relay.oracle.accepted(serial) }
      relay.oracle.lost(serial, isWordLost: !isClean && !wasTold)
    }
    (open, input) = ([], [])
    (hasFinished, wasTold) = (false, false)
    line.reconnects = !isQuiet || !queue.isEmpty
  }

  // MARK: Packets

  func lineReceived(_ bytes: [UInt8]) {
    guard provider != .deaf else { return }
    input += bytes
    while input.count >= BinaryErrorPacket.byteCount, !wasTold {
      let bytes = Array(input.prefix(BinaryErrorPacket.byteCount))
      input.removeFirst(BinaryErrorPacket.byteCount)
      guard let packet = BinaryErrorPacket(bytes.span),
        let status = BinaryStatus(rawValue: packet.status)
      else {
        return world.oracle.violated(.protocols, "a legacy sender cannot read a packet")
      }
      told(status, packet.identifier)
    }
  }

  private func told(_ status: BinaryStatus, _ identifier: UInt32) {
    guard let place = open.firstIndex(where: { $0.identifier == identifier }) else {
      wasTold = true
      if status != .shutdown {
        world.oracle.violated(.reasons, "a packet named a notification that was never sent")
      }
      return
    }
    if status == .noError { return accepted(open[place]) }
    wasTold = true
    world.trace("legacy sender is told", line.index, Int(status.rawValue), Int(identifier))
    for request in open[..<place] { accepted(request) }
    let named = open[place]
    if status == .shutdown {
      accepted(named)
    } else if let serial = named.push.serial {
      relay.oracle.told(serial, status)
    }
    queue = open[(place + 1)...].map(\.push)
    open.removeSubrange(place...)
    // Most libraries close it at once.
    if random.chance(3, in: 4) { line.leave() }
  }

  private func accepted(_ request: Request) {
    guard let serial = request.push.serial else {
      return world.oracle.violated(.rights, "an invalid notification was accepted silently")
    }
    relay.oracle.accepted(serial)
  }

  // MARK: Notifications

  private func sendLater() {
    world.timeline.after(random.wait(mean: meanWait)) { [weak self] in
      guard let self, !isQuiet else { return }
      send(random.chance(1, in: 5) ? 1 + random.below(40) : 1)
      sendLater()
    }
  }

  func stopSending() {
    isQuiet = true
    line.reconnects = !queue.isEmpty
    finish()
  }

  private func send(_ count: Int) {
    guard line.channel?.isOpen == true, !hasFinished, !wasTold else { return }
    var output: [UInt8] = []
    for _ in 0..<count { write(makePush(), to: &output) }
    line.send(output)
  }

  private func makePush() -> Push {
    let expiration = expiration()
    // Command 0 has no expiration.
    let seconds = provider == .simple ? nil : Int64(expiration)
    let token = relay.token(app, &random)
    guard !random.chance(1, in: 300) else {
      return Push(
        serial: nil, token: relay.tokens[token].device.bytes, payload: Array("[999999999]".utf8),
        expiration: expiration)
    }
    let fault: BinaryStatus? =
      random.chance(1, in: 40)
      ? random.pick([.processingError, .missingPayload, .invalidPayloadSize]) : nil
    let serial = relay.oracle.send(
      app: app, token: token, by: provider, expirationSeconds: seconds, fault: fault)
    return Push(
      serial: serial, token: relay.tokens[token].device.bytes,
      payload: SimulationPayload.bytes(serial, padding: random.below(100)), expiration: expiration)
  }

  private func expiration() -> UInt32 {
    switch random.below(8) {
    case 0: 0
    case 1: UInt32(world.worldSeconds + Int64(random.between(5, 300)))
    default: UInt32(world.worldSeconds + Int64(random.between(3_600, 400_000)))
    }
  }

  private func write(_ push: Push, to output: inout [UInt8]) {
    sentCount += 1
    let (token, payload) = (push.token.span, push.payload.span)
    if provider == .simple {
      output.append(simple: token, payload: payload)
    } else if random.chance(1, in: 3) {
      output.append(
        enhanced: token, payload: payload, identifier: sentCount, expiration: push.expiration)
    } else {
      output.append(
        framed: token, payload: payload, identifier: sentCount, expiration: push.expiration,
        priority: random.chance(1, in: 3) ? 5 : 10)
    }
    open.append(Request(identifier: sentCount, push: push))
  }
}
