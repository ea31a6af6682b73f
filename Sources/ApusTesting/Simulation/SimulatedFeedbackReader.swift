import ApusRandom
import ApusModel
import ApusTLS
import ApusWire

/// A provider that sometimes reads the feedback list, and not always to the end.
final class SimulatedFeedbackReader: LineUser {
  let index: Int
  let app: Int
  private unowned let world: Simulation
  private var random: SeededRandom
  private(set) var line: SimulatedLine
  private var reader = FeedbackTupleReader()
  /// Rows received on this connection.
  private(set) var rows: [FeedbackOracle.Row] = []
  /// The generation of the service process that sent them.
  private(set) var generation = 0
  /// Its behaviour on this connection.
  private var manner = Manner.patient
  private let meanWait: UInt64
  /// When the connection or the attempt began.
  private var begunTime: UInt64 = 0
  private static let patience = 60 * Timeline.second

  private enum Manner: CaseIterable {
    case patient, finishesFirst, resets, vanishes, stopsReading
  }

  init(
    _ index: Int, app: Int, meanWait: UInt64, world: Simulation, random: SeededRandom
  ) {
    self.index = index
    self.app = app
    self.meanWait = meanWait
    self.world = world
    var random = random
    let editions = CertificateEditions(world, random: random.split())
    line = SimulatedLine(
      .feedbackReader, index, listener: SimulationListener.index(.feedback, .production),
      world: world,
      random: random.split()
    ) {
      try world.credentials.clientContext(certificate: editions.next(of: app), protocols: [])
    }
    self.random = random
    line.reconnects = false
    line.user = self
  }

  func start() {
    readLater()
  }

  private func readLater() {
    let wait = world.isCalm ? 15 * Timeline.second : random.wait(mean: meanWait)
    world.timeline.after(wait) { [weak self] in
      guard let self else { return }
      // Sometimes several readers run in the same minute.
      let isCrowd = random.chance(1, in: 3)
      for reader in world.readers where reader === self || isCrowd && reader.app == app {
        reader.connect()
      }
      readLater()
    }
  }

  /// A reader sends nothing, so it would never notice that the service's machine is gone: it has its own timeout.
  private func connect() {
    if line.channel != nil, world.timeline.now > begunTime + Self.patience {
      line.leave(resets: true)
    }
    guard line.channel == nil else { return }
    begunTime = world.timeline.now
    line.connect()
  }

  /// Whether the connection is open as far as the reader and the service know.
  var isReading: Bool {
    guard let channel = line.channel, generation == world.generation else { return false }
    return channel.link?.isServiceOpen ?? false
  }

  /// Whether it has closed its side and still reads.
  private(set) var hasFinished = false

  /// Whether the list's end has arrived: close_notify, while the end of the TCP stream may still be under way.
  var hasSeenEnd: Bool { line.channel?.isClosedByService ?? false }

  func lineOpened() {
    reader = FeedbackTupleReader()
    rows = []
    generation = world.generation
    manner = pickManner()
    hasFinished = false
    switch manner {
    case .patient: break
    case .finishesFirst:
      // Immediately, or so that it crosses the service's last data.
      let channel = line.channel
      let words = UInt64(Limits.pauseBeforeCloseMilliseconds) * Timeline.second / 1000
      let wait = random.between(0, words + 4 * world.network.latency)
      world.timeline.after(wait) { [weak self, weak channel] in
        guard let self, let channel, line.channel === channel else { return }
        hasFinished = true
        line.finish()
      }
    case .stopsReading:
      let link = line.channel?.link
      link?.isPeerReading = false
      // Less than the service's limit, after which it treats what the reader's system has acknowledged as read.
      let seconds = random.between(1, UInt64(Limits.feedbackTakenSeconds) - 2)
      world.timeline.after(seconds * Timeline.second) { link?.isPeerReading = true }
    case .resets, .vanishes:
      let channel = line.channel
      // While rows are in flight.
      world.timeline.after(random.between(1, 4 * world.network.latency)) {
        [weak self, weak channel] in
        guard let self, let channel, line.channel === channel else { return }
        line.suffer(resets: manner == .resets)
      }
    }
  }

  /// Faults are chosen where they matter: while there is something to read.
  private func pickManner() -> Manner {
    guard !world.isCalm else { return .patient }
    if world.feedback.lists(app), random.chance(1, in: 2) {
      return random.pick([.resets, .vanishes, .finishesFirst])
    }
    return random.chance(2, in: 3) ? random.pick(Manner.allCases) : .patient
  }

  func lineReceived(_ bytes: [UInt8]) {
    var offset = 0
    do {
      while let tuple = try reader.next(bytes.span, at: &offset) {
        guard let token = DeviceToken(bytes: tuple.token.span) else {
          return world.oracle.violated(.protocols, "not a token")
        }
        let row = FeedbackOracle.Row(app: app, token: token, seconds: Int64(tuple.timeSeconds))
        world.feedback.received(row, by: self)
        rows.append(row)
      }
    } catch {
      world.oracle.violated(
        .protocols, "a feedback reader cannot read the service's output: \(error)")
    }
  }

  func lineLost(_ end: ClientChannel.End?) {
    if case .closed? = end {
      do { try reader.finish() } catch {
        world.oracle.violated(.protocols, "a feedback list ends within a row: \(error)")
      }
      world.trace("feedback read", index, rows.count)
      world.feedback.readToEnd(rows)
    } else if manner == .vanishes, world.options.canary == nil {
      // Its system has acknowledged them, which is all that the service can know about a silent reader. A canary's
      // world uses the stricter law, since the canary breaks that one.
      world.feedback.acknowledged(rows)
    }
    rows = []
  }
}
