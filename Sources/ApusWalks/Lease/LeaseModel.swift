import ApusRandom

/// Machines with a process of a node each, their databases, and what is on the way between them, in steps of five
/// milliseconds.
final class LeaseModel {
  /// Where a node runs, one process after the other.
  struct Machine {
    let name: String
    /// Its clock: an offset, and thousandths.
    let clockMilliseconds: UInt64
    let clockRate: UInt64
    var process: LeaseProcess?
    var startMilliseconds: UInt64 = 0
    var pausedUntilMilliseconds: UInt64 = 0
    var cutUntilMilliseconds: UInt64 = 0
    var slowUntilMilliseconds: UInt64 = 0
    var pausedMilliseconds: UInt64 = 0
  }

  /// When a database is away.
  struct Outage {
    var untilMilliseconds: UInt64 = 0
    /// Whether it says so at once, instead of not answering.
    var isRefusing = false
  }

  /// A statement on its way to the database, and its answer on the way back.
  private struct Request {
    enum Phase {
      case sent
      /// A write that holds its lane until then, and as long as its process is paused or cut off.
      case locked(untilMilliseconds: UInt64)
      case answered(LeaseAnswer, atMilliseconds: UInt64)
    }

    let client: LeaseClient
    let machine: Int
    let statement: LeaseStatement
    let purpose: LeaseProcess.Purpose
    let sentMilliseconds: UInt64
    let executionMilliseconds: UInt64
    let wayBackMilliseconds: UInt64
    var phase = Phase.sent

    /// Then its process gives the connection up.
    var lostMilliseconds: UInt64 { sentMilliseconds + 2000 }

    var isRenewal: Bool { if case .renewal = purpose { true } else { false } }
  }

  static let stepMilliseconds: UInt64 = 5
  private static let lanePatienceMilliseconds: UInt64 = 200

  private let canary: LeaseCanary?
  let partCount: Int
  var random: SeededRandom
  var nowMilliseconds: UInt64 = 0
  var database: LeaseDatabase
  var machines: [Machine] = []
  /// That of the leases and part 0 first, and then by part.
  var outages: [Outage]
  var isCalm = false
  private var requests: [Request] = []
  private var processes = 0

  init(seed: UInt64, canary: LeaseCanary?) {
    random = SeededRandom(seed: seed)
    self.canary = canary
    partCount = 1 + random.below(3)
    var apart: Set<Int> = []
    for part in 1..<partCount where random.chance(1, in: 2) { apart.insert(part) }
    database = LeaseDatabase(parts: partCount, apart: apart, canary: canary)
    outages = Array(repeating: Outage(), count: partCount)
    let count = 2 + random.below(3)
    machines = ["a", "b", "c", "d"].prefix(count).map {
      Machine(
        name: $0, clockMilliseconds: random.between(0, 1 << 40),
        clockRate: random.between(990, 1010), startMilliseconds: random.between(0, 2000))
    }
  }

  func isPaused(_ index: Int) -> Bool { nowMilliseconds < machines[index].pausedUntilMilliseconds }
  func isCut(_ index: Int) -> Bool { nowMilliseconds < machines[index].cutUntilMilliseconds }

  /// What is wrong with the database that has a part's rows; nil stands for the leases.
  private func outage(of part: Int?) -> Outage? {
    let outage = outages[part.flatMap { database.apart.contains($0) ? $0 : nil } ?? 0]
    return nowMilliseconds < outage.untilMilliseconds ? outage : nil
  }

  func isDatabaseAway(of part: Int?) -> Bool { outage(of: part) != nil }

  /// The machine's own clock.
  func clock(_ index: Int) -> UInt64 {
    let machine = machines[index]
    let isStill = canary == .stopsClockWhilePaused
    let passed = nowMilliseconds - (isStill ? machine.pausedMilliseconds : 0)
    return machine.clockMilliseconds + passed * machine.clockRate / 1000
  }

  /// The parts about which a process decides now.
  func decided() -> [Int] {
    machines.indices.filter { !isPaused($0) }.compactMap { index in
      guard let process = machines[index].process,
        process.mayDecide(nowMilliseconds: clock(index))
      else { return nil }
      return process.part
    }
  }

  func step() {
    nowMilliseconds += Self.stepMilliseconds
    serveRequests()
    for index in machines.indices { advance(index) }
    let decided = decided()
    database.laws.counts.verdicts += decided.count
    if Set(decided).count < decided.count {
      database.laws.broken(.oneOwner, "parts \(decided) are decided about")
    }
  }

  private func advance(_ index: Int) {
    guard !isPaused(index) else {
      machines[index].pausedMilliseconds += Self.stepMilliseconds
      return
    }
    guard machines[index].process?.hasEnded == false else { return restart(index) }
    let now = clock(index)
    machines[index].process?.drive(nowMilliseconds: now)
    sendOutput(of: index)
  }

  private func sendOutput(of index: Int) {
    guard let process = machines[index].process else { return }
    for (statement, purpose) in process.outbox {
      send(statement, purpose, from: process.client, index)
    }
    machines[index].process?.outbox.removeAll()
  }

  private func restart(_ index: Int) {
    if machines[index].process != nil { kill(index, untilMilliseconds: nowMilliseconds + 500) }
    guard nowMilliseconds >= machines[index].startMilliseconds else { return }
    processes += 1
    machines[index].process = LeaseProcess(
      LeaseClient(node: machines[index].name, number: processes), parts: partCount,
      apart: database.apart, canary: canary, random: random.split(), nowMilliseconds: clock(index))
  }

  /// The process of a machine ends, and another one starts at that time.
  func kill(_ index: Int, untilMilliseconds start: UInt64) {
    machines[index].startMilliseconds = max(machines[index].startMilliseconds, start)
    guard let process = machines[index].process else { return }
    machines[index].process = nil
    // What it has sent last may still come, as its order to release does.
    requests.removeAll { request in
      guard request.client == process.client else { return false }
      if case .release = request.statement { return false }
      return !request.isRenewal || random.chance(1, in: 2)
    }
    if !isCut(index) { database.disconnect(process.client) }
  }

  /// The database's connections of a machine end.
  func loseConnections(of index: Int) {
    guard let client = machines[index].process?.client else { return }
    database.disconnect(client)
  }

  // MARK: Requests

  private func send(
    _ statement: LeaseStatement, _ purpose: LeaseProcess.Purpose, from client: LeaseClient,
    _ index: Int
  ) {
    let isSlow = nowMilliseconds < machines[index].slowUntilMilliseconds
    let isLost = isCut(index) || outage(of: statement.part)?.isRefusing == false
    var way = random.between(1, isSlow ? 1500 : 10)
    if case .claim = statement, !isCalm, random.chance(1, in: 3) {
      // Paused processes continue at the same moment.
      way = random.between(50, 300)
      for other in machines.indices where isPaused(other) {
        machines[other].pausedUntilMilliseconds = nowMilliseconds + random.between(0, 50)
      }
    }
    requests.append(
      Request(
        client: client, machine: index, statement: statement, purpose: purpose,
        sentMilliseconds: nowMilliseconds,
        executionMilliseconds: isLost ? .max : nowMilliseconds + way,
        wayBackMilliseconds: random.between(1, isSlow ? 1500 : 10)))
  }

  private func serveRequests() {
    for index in requests.indices { progress(&requests[index]) }
    let (open, over) = split()
    requests = open
    for request in over {
      guard machines[request.machine].process?.client == request.client else { continue }
      var answer = LeaseAnswer.lost
      if case .answered(let given, _) = request.phase, !isCut(request.machine) { answer = given }
      let now = clock(request.machine)
      machines[request.machine].process?.take(answer, request.purpose, nowMilliseconds: now)
      sendOutput(of: request.machine)
    }
  }

  /// Those that go on, and those that are over.
  private func split() -> (open: [Request], over: [Request]) {
    var (open, over): ([Request], [Request]) = ([], [])
    for request in requests {
      let isDead = machines[request.machine].process?.client != request.client
      // A paused process learns of nothing.
      let mayEnd = isDead || !isPaused(request.machine)
      let isLost = nowMilliseconds >= request.lostMilliseconds
      switch request.phase {
      case .answered(_, let time) where nowMilliseconds >= time && mayEnd: over.append(request)
      case .sent where isLost && mayEnd: over.append(request)
      default: open.append(request)
      }
    }
    return (open, over)
  }

  private func progress(_ request: inout Request) {
    switch request.phase {
    case .answered: break
    case .sent:
      guard nowMilliseconds >= request.executionMilliseconds else { return }
      execute(&request)
    case .locked(let until):
      guard case .write(let part, _) = request.statement else { return }
      guard database.isWriting(request.client, part) else { return answer(&request, .lost) }
      guard nowMilliseconds >= until, !isPaused(request.machine), !isCut(request.machine)
      else { return }
      database.commit(part)
      answer(&request, .done)
    }
  }

  private func execute(_ request: inout Request) {
    guard !isDatabaseAway(of: request.statement.part) else { return answer(&request, .lost) }
    if let given = database.execute(request.statement, by: request.client) {
      // The connection of a process that has ended ends with what it was asked last.
      if machines[request.machine].process?.client != request.client {
        database.disconnect(request.client)
      }
      return answer(&request, given)
    }
    switch request.statement {
    case .write: request.phase = .locked(untilMilliseconds: nowMilliseconds + random.between(1, 50))
    default:
      let waited = nowMilliseconds - request.executionMilliseconds
      let isPatient = canary == .neverTerminates || canary == .readsBeforeFence
      if waited >= Self.lanePatienceMilliseconds, !isPatient { answer(&request, .blocked) }
    }
  }

  private func answer(_ request: inout Request, _ answer: LeaseAnswer) {
    let arrival = nowMilliseconds + request.wayBackMilliseconds
    let isLost = isCut(request.machine) || arrival > request.lostMilliseconds
    request.phase = .answered(
      isLost ? .lost : answer, atMilliseconds: isLost ? request.lostMilliseconds : arrival)
  }
}
