import ApusRandom
import ApusModel
import ApusTesting
import ApusWire
import Testing

@testable import ApusClient

/// Random walks of a queue and a gateway that follows Apple's rules, over an unreliable network.
@Suite("Random walks of a queue and a gateway", .timeLimit(.minutes(30)))
struct BinaryQueueWalkTests {
  @Test(
    "Every notification has one correct outcome, and is accepted at most once",
    arguments: 0..<300)
  func walk(seed: Int) {
    var walk = Walk(seed: UInt64(seed), isPrompt: true)
    walk.run()
    #expect(walk.broken(mayBeLate: false) == [], "seed \(seed)")
  }

  @Test(
    "With a gateway that answers after the silence, wrong acceptances are reported",
    arguments: 1000..<1200)
  func late(seed: Int) {
    var walk = Walk(seed: UInt64(seed), isPrompt: false)
    walk.run()
    #expect(walk.broken(mayBeLate: true) == [], "seed \(seed)")
  }

  @Test("The walks reach every kind of outcome and of end")
  func coverage() {
    var settlements: Set<String> = []
    var ends: Set<Walk.Event> = []
    for seed in 0..<100 {
      var walk = Walk(seed: UInt64(seed), isPrompt: seed.isMultiple(of: 2))
      walk.run()
      settlements.formUnion(walk.outcomes.values.map { $0.kind })
      settlements.formUnion(walk.late.values.map { $0.kind })
      ends.formUnion(walk.events)
    }
    #expect(
      settlements == ["accepted", "rejected", "may be taken", "not taken", "rejected late", "lost"])
    #expect(ends == Set(Walk.Event.allCases))
  }
}

extension SentQueue.Settlement {
  fileprivate var kind: String {
    switch self {
    case .accepted: "accepted"
    case .rejected: "rejected"
    case .unknown(_, let mayBeTaken): mayBeTaken ? "may be taken" : "not taken"
    case .rejectedLate: "rejected late"
    case .lost: "lost"
    }
  }
}

/// One walk: a queue, at most one connection, and a gateway that records what it accepted.
private struct Walk {
  enum Event: Hashable, CaseIterable {
    case refused, shutdown, shutdownOfNothing, confirmed, nonsense, cut, cutWithPacket, closed
  }

  /// A frame as the gateway reads it.
  struct Frame {
    var ticket: UInt64
    var identifier: UInt32
  }

  /// A packet on its way to the client.
  struct Said {
    var dueMilliseconds: UInt64
    var packet: BinaryErrorPacket
  }

  struct Connection {
    /// Records in flight: the place in the queue after each, and its frames.
    var records: [(through: Int, frames: [Frame])] = []
    var handed = 0
    var reached = 0
    var said: [Said] = []
    /// The gateway has stopped reading.
    var isDeaf = false
    var accepted = 0
    var lastAccepted: UInt32 = 0
  }

  static let silence: UInt64 = 1000

  let isPrompt: Bool
  let confirms: Bool
  var random: SeededRandom
  let bench: SentQueueBench
  var now: UInt64 = 0
  var nextTicket: UInt64 = 0
  var connection: Connection?
  var isFaulty = true
  var bad: Set<UInt64> = []
  var taken: [UInt64: Int] = [:]
  var outcomes: [UInt64: SentQueue.Settlement] = [:]
  var late: [UInt64: SentQueue.Settlement] = [:]
  var doubled: [UInt64] = []
  var events: Set<Event> = []

  init(seed: UInt64, isPrompt: Bool) {
    var random = SeededRandom(seed: seed)
    let confirms = isPrompt && random.chance(1, in: 4)
    (self.isPrompt, self.confirms) = (isPrompt, confirms)
    bench = SentQueueBench(
      SentQueue(
        format: FrameFormat(command: random.chance(1, in: 2) ? .framed : .enhanced),
        window: .init(
          frames: 1 << random.below(8), bytes: 2048 << random.below(4),
          silenceMilliseconds: confirms ? nil : Self.silence)))
    self.random = random
  }

  var queue: SentQueue {
    get { bench.value }
    nonmutating _modify { yield &bench.value }
  }

  // MARK: Running

  mutating func run() {
    for _ in 0..<1500 { step() }
    isFaulty = false
    var rest = 0
    while queue.pendingCount > 0 || connection?.said.isEmpty == false, rest < 5000 {
      step()
      rest += 1
    }
  }

  private mutating func step() {
    switch random.below(12) {
    case 0, 1: if isFaulty { append() }
    case 2, 3: write()
    case 4: handOver()
    case 5, 6: reach()
    case 7: pass(random.between(0, 400))
    case 8: if isFaulty, random.chance(1, in: 8) { cancel() }
    case 9: if isFaulty, random.chance(1, in: 6) { disturb() }
    default: if connection == nil, random.chance(1, in: 3) { connect() }
    }
    settle()
  }

  private mutating func append() {
    for _ in 0..<1 + random.below(12) {
      let isBad = random.chance(1, in: 25)
      let token: [UInt8] = isBad ? [0xbd] : [0x0d]
      let payload = (0..<8).map { UInt8(truncatingIfNeeded: nextTicket >> (56 - 8 * $0)) }
      let padding = [UInt8](repeating: 0, count: random.below(80))
      var frame: [UInt8] = []
      switch queue.format.command {
      case .framed:
        frame.append(
          framed: token.span, payload: (payload + padding).span, identifier: 0, expiration: 0,
          priority: 10)
      default:
        frame.append(
          enhanced: token.span, payload: (payload + padding).span, identifier: 0, expiration: 0)
      }
      guard
        bench.append(
          frame, ticket: nextTicket, deadlineMilliseconds: now + random.between(20_000, 20_000))
      else { return }
      if isBad { bad.insert(nextTicket) }
      nextTicket += 1
    }
  }

  private mutating func cancel() {
    guard nextTicket > 0 else { return }
    queue.cancel(UInt64(random.below(Int(nextTicket))))
  }

  // MARK: The connection

  private mutating func connect() {
    connection = Connection()
    queue.connectionBegan()
  }

  private mutating func write() {
    guard connection != nil, let bytes = bench.takeRecord(limit: 200 + random.below(2000)) else {
      return
    }
    let (through, frames) = (queue.next, frames(in: bytes))
    connection?.records.append((through, frames))
  }

  private func frames(in bytes: [UInt8]) -> [Frame] {
    let limits = BinaryFrameLimits(tokenBytes: 1...100)
    var (frames, offset): ([Frame], Int) = ([], 0)
    while offset < bytes.count {
      let rest = bytes.span.extracting(offset...)
      guard case .frame(let frame) = BinaryFrame.scan(rest, limits: limits) else {
        preconditionFailure("a record is no run of frames")
      }
      let payload = rest.extracting(frame.payload)
      frames.append(
        Frame(ticket: payload.eightBytes(at: 0), identifier: frame.identifier ?? 0))
      offset += frame.byteCount
    }
    return frames
  }

  private mutating func handOver() {
    guard let live = connection, live.handed < live.records.count else { return }
    queue.handedOver(through: live.records[live.handed].through)
    connection?.handed += 1
  }

  /// The peer's system receives the next record, and the gateway reads it.
  private mutating func reach() {
    guard let live = connection, live.reached < live.handed else { return }
    let record = live.records[live.reached]
    queue.reached(through: record.through, nowMilliseconds: now)
    connection?.reached += 1
    read(record.frames)
  }

  private mutating func read(_ frames: [Frame]) {
    for frame in frames {
      guard connection?.isDeaf == false else { return }
      if bad.contains(frame.ticket) {
        events.insert(.refused)
        return say(.invalidToken, frame.identifier, isLast: true)
      }
      taken[frame.ticket, default: 0] += 1
      connection?.accepted += 1
      connection?.lastAccepted = frame.identifier
      if confirms {
        events.insert(.confirmed)
        say(.noError, frame.identifier, isLast: false)
      }
    }
  }

  private mutating func say(_ status: BinaryStatus, _ identifier: UInt32, isLast: Bool) {
    let delay = isPrompt ? random.between(0, Self.silence - 1) : random.between(0, 6000)
    let packet = BinaryErrorPacket(status: status, identifier: identifier)
    let due = max(now + delay, connection?.said.last?.dueMilliseconds ?? 0)
    // Packets keep their order, and a prompt gateway keeps its time, since the previous packet was as prompt.
    connection?.said.append(Said(dueMilliseconds: due, packet: packet))
    if isLast { connection?.isDeaf = true }
  }

  /// Lets time pass. Input that is due is read before silence counts, as in the driver.
  private mutating func pass(_ milliseconds: UInt64) {
    now += milliseconds
    while let said = connection?.said.first, said.dueMilliseconds <= now {
      connection?.said.removeFirst()
      hear(said.packet)
    }
    if connection != nil { queue.confirmSilent(nowMilliseconds: now) }
    queue.expire(nowMilliseconds: now)
  }

  private mutating func hear(_ packet: BinaryErrorPacket) {
    switch queue.received(packet) {
    case .goOn: break
    case .ended, .proven, .notUnderstood: connection = nil
    }
  }

  /// Injects a fault.
  private mutating func disturb() {
    guard let live = connection else { return }
    // A packet lost with its connection cannot be known; if the silence is long enough, it does not matter.
    guard isPrompt || live.said.isEmpty else { return }
    switch random.below(5) {
    case 0:
      // A packet in flight is lost with the connection.
      events.insert(live.said.isEmpty ? .cut : .cutWithPacket)
      queue.connectionLost()
      connection = nil
    case 1:
      guard !live.isDeaf else { return }
      events.insert(live.accepted > 0 ? .shutdown : .shutdownOfNothing)
      say(.shutdown, live.lastAccepted, isLast: true)
    case 2:
      events.insert(.nonsense)
      hear(BinaryErrorPacket(status: .unknown, identifier: 0xffff_0000))
    case 3:
      events.insert(.closed)
      connection?.isDeaf = true
      queue.connectionLost()
      connection = nil
    default: break
    }
  }

  // MARK: Outcomes

  private mutating func settle() {
    for one in bench.takeSettled() {
      if one.settlement.isLate {
        late[one.ticket] = one.settlement
      } else if outcomes.updateValue(one.settlement, forKey: one.ticket) != nil {
        doubled.append(one.ticket)
      }
    }
  }

  /// Violations, in words.
  ///
  /// - Parameter mayBeLate: Whether packets came after the silence: an acceptance may then be wrong, and must have been
  ///   retracted or counted.
  func broken(mayBeLate: Bool) -> [String] {
    var faults = doubled.map { "\($0) has two outcomes" }
    var untold = 0
    for ticket in 0..<nextTicket {
      let times = taken[ticket, default: 0]
      if times > 1 { faults.append("\(ticket) was taken \(times) times") }
      guard let outcome = outcomes[ticket] else {
        faults.append("\(ticket) has no outcome")
        continue
      }
      switch outcome {
      case .accepted: if times == 0, late[ticket] == nil { untold += 1 }
      case .rejected:
        if times > 0 || !bad.contains(ticket) { faults.append("\(ticket) is good, and rejected") }
      case .unknown(_, mayBeTaken: false):
        if times > 0 { faults.append("\(ticket) was taken, and is said not to be") }
      case .unknown, .rejectedLate, .lost: break
      }
      if case .rejectedLate = late[ticket], !bad.contains(ticket) {
        faults.append("\(ticket) is good, and rejected late")
      }
    }
    if !mayBeLate, untold + late.count + queue.forgottenCount > 0 {
      faults.append("\(untold) acceptances are wrong, \(late.count) were taken back")
    }
    if mayBeLate, untold > queue.forgottenCount {
      faults.append("\(untold) acceptances are wrong, and \(queue.forgottenCount) are counted")
    }
    return faults
  }
}
