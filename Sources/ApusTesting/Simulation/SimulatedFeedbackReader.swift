import ApusModel
import ApusTLS
import ApusWire

/// A provider that looks now and then which of its tokens are dead; not always to the end.
final class SimulatedFeedbackReader: LineUser {
  let index: Int
  let app: Int
  private unowned let world: Simulation
  private var random: SeededRandom
  private(set) var line: SimulatedLine
  private var reader = FeedbackTupleReader()
  /// What came on this connection.
  private(set) var rows: [FeedbackOracle.Row] = []
  /// Of which process of the service they came.
  private(set) var generation = 0
  /// How it goes about this connection.
  private var manner = Manner.patient
  private let meanWait: UInt64
  /// When the connection, or the attempt at it, was begun.
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
      .feedbackReader, index, door: SimulationDoor.index(.feedback, .production), world: world,
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
      // Now and then somebody has set several of them to the same minute.
      let isCrowd = random.chance(1, in: 3)
      for reader in world.readers where reader === self || isCrowd && reader.app == app {
        reader.connect()
      }
      readLater()
    }
  }

  /// A reader says nothing, and so would never learn that the service's machine is gone: it has a limit of its own.
  private func connect() {
    if line.channel != nil, world.timeline.now > begunTime + Self.patience {
      line.leave(resets: true)
    }
    guard line.channel == nil else { return }
    begunTime = world.timeline.now
    line.connect()
  }

  /// Whether the connection stands, as far as the reader and the service know.
  var isReading: Bool {
    guard let channel = line.channel, generation == world.server.generation else { return false }
    return channel.link?.isServiceOpen ?? false
  }

  /// Whether it has shut its side, and reads on.
  private(set) var hasFinished = false

  func lineOpened() {
    reader = FeedbackTupleReader()
    rows = []
    generation = world.server.generation
    manner = pickManner()
    hasFinished = false
    switch manner {
    case .patient: break
    case .finishesFirst:
      // At once, or when it crosses the service's last words.
      let channel = line.channel
      let words = UInt64(Limits.lastWordsMilliseconds) * Timeline.second / 1000
      let wait = random.between(0, words + 4 * world.network.latency)
      world.timeline.after(wait) { [weak self, weak channel] in
        guard let self, let channel, line.channel === channel else { return }
        hasFinished = true
        line.finish()
      }
    case .stopsReading:
      let link = line.channel?.link
      link?.isPeerReading = false
      // Less than the service waits: after that it takes what the reader's system has acknowledged for read.
      let seconds = random.between(1, UInt64(Limits.feedbackTakenSeconds) - 2)
      world.timeline.after(seconds * Timeline.second) { link?.isPeerReading = true }
    case .resets, .vanishes:
      let channel = line.channel
      // While rows are on their way.
      world.timeline.after(random.between(1, 4 * world.network.latency)) {
        [weak self, weak channel] in
        guard let self, let channel, line.channel === channel else { return }
        line.suffer(resets: manner == .resets)
      }
    }
  }

  /// Trouble comes where it hurts: where there is something to be read.
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
          return world.oracle.violated("feedback: no token")
        }
        let row = FeedbackOracle.Row(app: app, token: token, seconds: Int64(tuple.timeSeconds))
        world.feedback.received(row, by: self)
        rows.append(row)
      }
    } catch {
      world.oracle.violated("a feedback reader cannot read the service: \(error)")
    }
  }

  func lineLost(_ end: ClientChannel.End?) {
    if case .closed? = end {
      do { try reader.finish() } catch { world.oracle.violated("feedback: \(error)") }
      world.trace("feedback read", index, rows.count)
      world.feedback.readToEnd(rows)
    } else if manner == .vanishes, world.options.canary == nil {
      // Its system has acknowledged them, which is all that the service can know of a reader that is silent then. A
      // canary's world is held to the stricter law, as that is what it breaks.
      world.feedback.acknowledged(rows)
    }
    rows = []
  }
}
