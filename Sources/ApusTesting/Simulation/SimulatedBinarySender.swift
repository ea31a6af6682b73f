import ApusRandom
import ApusModel
import ApusTLS
import ApusWire

/// A provider on the binary interface: writes notifications and gets no answer until a packet names the last good one,
/// or, with command 0, until the connection ends.
final class SimulatedBinarySender: LineUser {
  enum Commands {
    /// Command 0 only, without error packets.
    case simple
    /// Commands 1 and 2.
    case enhanced
  }

  private struct Request {
    var identifier: UInt32
    /// Nil for one that must be rejected.
    var serial: Int?
    var isRevoked: Bool
  }

  let environment = Environment.production
  let app: Int
  let commands: Commands
  private unowned let world: Simulation
  private var random: SeededRandom
  let line: SimulatedLine
  private let editions: CertificateEditions
  /// Sent on this connection and not known to be good, in order.
  private var open: [Request] = []
  private var input: [UInt8] = []
  private var openedTime: UInt64 = 0
  private var generation = 0
  /// It has announced the end of its output: a clean end then means that everything was good.
  private var hasFinished = false
  /// A packet arrived that ends the connection.
  private var wasTold = false
  private var isQuiet = false
  private var sentCount: UInt32 = 0
  private let meanWait: UInt64

  init(
    _ index: Int, listener: Int, app: Int, commands: Commands, meanWait: UInt64, world: Simulation,
    random: SeededRandom
  ) {
    self.app = app
    self.commands = commands
    self.meanWait = meanWait
    self.world = world
    var random = random
    let editions = CertificateEditions(world, random: random.split())
    self.editions = editions
    line = SimulatedLine(
      .oldSender, index, listener: listener, world: world, random: random.split()
    ) {
      try world.credentials.clientContext(certificate: editions.next(of: app), protocols: [])
    }
    self.random = random
    line.user = self
  }

  func start() {
    line.connect()
    sendLater()
  }

  func lineOpened() {
    openedTime = world.timeline.now
    generation = world.generation
    guard !isQuiet else { return finish() }
    let lifetime = random.between(5, 600) * Timeline.second
    let channel = line.channel
    world.timeline.after(lifetime) { [weak self, weak channel] in
      guard let self, let channel, channel === line.channel else { return }
      finish()
    }
  }

  private func finish() {
    hasFinished = true
    line.finish()
  }

  // MARK: Input from the service

  func lineReceived(_ bytes: [UInt8]) {
    input += bytes
    while input.count >= BinaryErrorPacket.byteCount, !wasTold {
      let bytes = Array(input.prefix(BinaryErrorPacket.byteCount))
      guard let packet = BinaryErrorPacket(bytes.span) else {
        return world.oracle.violated(
          .protocols, "a binary provider cannot read the service's output")
      }
      input.removeFirst(BinaryErrorPacket.byteCount)
      if world.options.canary == .closesSilently, packet.status != BinaryStatus.noError.rawValue {
        continue
      }
      told(packet)
    }
  }

  private func told(_ packet: BinaryErrorPacket) {
    let status = BinaryStatus(rawValue: packet.status)
    // During shutdown the service sends a packet even before it accepted anything, since it does not know the
    // provider's commands yet.
    if case .simple = commands, status != .shutdown || packet.identifier != 0 {
      return world.oracle.violated(.protocols, "a provider with command 0 got a packet")
    }
    guard let place = open.firstIndex(where: { $0.identifier == packet.identifier }) else {
      // For a shutdown: everything was good and already forgotten, or nothing was.
      guard status == .shutdown else {
        return world.oracle.violated(.reasons, "a packet named a notification that was never sent")
      }
      wasTold = true
      return forgetRest()
    }
    world.trace("old sender is told", line.index, Int(packet.status), open[place].serial ?? -1)
    for good in open[..<place] { accepted(good) }
    let named = open[place]
    switch status {
    case .noError, .shutdown: accepted(named)
    default:
      if let serial = named.serial {
        world.oracle.refused(serial, mayHaveTaken: status == .processingError)
      }
    }
    open.removeSubrange(...place)
    guard status != .noError else { return }
    wasTold = true
    // Notifications sent after it were discarded. After a fault of the service some may have been accepted.
    forgetRest(isDiscarded: status != .shutdown && status != .processingError)
  }

  private func accepted(_ request: Request) {
    guard let serial = request.serial else {
      return world.oracle.violated(.rights, "an invalid notification was accepted silently")
    }
    if request.isRevoked {
      world.oracle.violated(
        .rights, "notification \(serial) was accepted from a revoked certificate")
    }
    world.oracle.accepted(serial)
  }

  /// Forgets what followed the notification that ended the connection.
  private func forgetRest(isDiscarded: Bool = false) {
    for request in open {
      guard let serial = request.serial else { continue }
      if isDiscarded {
        world.oracle.refused(serial, mayHaveTaken: false)
      } else {
        world.oracle.lost(serial)
      }
    }
    open = []
  }

  func lineLost(_ end: ClientChannel.End?) {
    if case .closed? = end, !wasTold, !world.mayBeRevoked(certificate: editions.current) {
      switch commands {
      case .simple: closedSilently()
      // A service that shuts down closes connections as cleanly, with undecided notifications.
      case .enhanced:
        if world.wasUntroubled(since: openedTime, generation) { closedWithoutWord() }
      }
    }
    forgetRest()
    input = []
    hasFinished = false
    wasTold = false
  }

  /// A provider that has not finished must get a packet with the reason.
  private func closedWithoutWord() {
    guard !hasFinished else { return takeAllAsGood() }
    world.oracle.violated(.reasons, "a binary provider was disconnected without a packet")
  }

  private func takeAllAsGood() {
    for request in open { accepted(request) }
    open = []
  }

  /// With command 0, only a provider that knows what it sent, and that nothing else went wrong, can infer the outcome:
  /// everything before the bad notification was accepted, and nothing after it.
  private func closedSilently() {
    guard world.wasUntroubled(since: openedTime, generation) else { return }
    guard let bad = open.firstIndex(where: { $0.serial == nil }) else {
      if hasFinished { return takeAllAsGood() }
      return world.oracle.violated(.reasons, "a binary provider was disconnected without a reason")
    }
    for request in open[..<bad] { accepted(request) }
    world.trace("old sender is cut off", line.index, bad, open.count)
    open.removeSubrange(...bad)
    forgetRest(isDiscarded: true)
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
    line.reconnects = false
    finish()
  }

  private func send(_ count: Int) {
    guard line.channel?.isOpen == true, !hasFinished else { return }
    var output: [UInt8] = []
    for _ in 0..<count {
      guard let target = world.target(environment: environment, app: app, &random) else { break }
      add(target, to: &output)
    }
    line.send(output)
  }

  /// What makes a notification invalid under any rules.
  private enum Fault: CaseIterable { case token, payload }

  private func add(_ target: Simulation.Target, to output: inout [UInt8]) {
    let fault = random.chance(1, in: 200) ? random.pick(Fault.allCases) : nil
    let expiration = expiration()
    var serial: Int?
    if fault == nil {
      serial = world.sent(
        target, environment: environment, expiration: expiration.map { Int64($0) })
    }
    sentCount += 1
    var token = target.token.bytes
    if fault == .token { token[31] ^= 1 }
    let payload =
      fault == .payload
      ? Array("[999999999]".utf8)
      : SimulationPayload.bytes(serial ?? 999_999_999, padding: random.below(200))
    if let expiration {
      if random.chance(1, in: 3) {
        output.append(
          enhanced: token.span, payload: payload.span, identifier: sentCount,
          expiration: expiration)
      } else {
        output.append(
          framed: token.span, payload: payload.span, identifier: sentCount,
          expiration: expiration, priority: random.chance(1, in: 3) ? 5 : 10)
      }
    } else {
      output.append(simple: token.span, payload: payload.span)
    }
    open.append(
      Request(
        identifier: sentCount, serial: serial,
        isRevoked: world.isRevoked(certificate: editions.current)))
  }

  /// Nil for command 0, which has no expiration: as long as possible.
  private func expiration() -> UInt32? {
    guard commands == .enhanced else { return nil }
    guard !random.chance(1, in: 5) else { return 0 }
    return UInt32(world.worldSeconds + Int64(random.between(5, 100_000)))
  }
}
