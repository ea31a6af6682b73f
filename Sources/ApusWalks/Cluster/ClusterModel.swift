import ApusCore
import ApusModel
import ApusRandom

/// Nodes, their database and what is on the way between them, in steps of five milliseconds.
final class ClusterModel {
  /// A statement on its way to the database, and its answer on the way back.
  struct Request {
    enum Phase {
      case sent, locked
      case executed(ClusterAnswer)
    }

    let number: Int
    let sender: NodeIncarnation
    let machine: Int
    let statement: ClusterStatement
    let purpose: ClusterNode.Purpose
    let sentMilliseconds: UInt64
    var phase = Phase.sent
    /// When it takes effect, or its lock; when it commits; when its answer arrives.
    var dueMilliseconds: UInt64
    var holdMilliseconds: UInt64
    var answerMilliseconds: UInt64
    /// When the node learns that the connection is lost; nil if it is not.
    var lostMilliseconds: UInt64?
    var isForgotten = false
  }

  /// Where a node runs, one incarnation after the other.
  struct Machine {
    let name: NodeName
    /// Its clock: an offset, and thousandths.
    let clockMilliseconds: UInt64
    let clockRate: UInt64
    var node: ClusterNode?
    var incarnation: UInt64 = 0
    var startMilliseconds: UInt64 = 0
    var pausedUntilMilliseconds: UInt64 = 0
    var cutUntilMilliseconds: UInt64 = 0
    var slowUntilMilliseconds: UInt64 = 0
    /// When renewals are lost, and nothing else.
    var muteMilliseconds: Range<UInt64> = 0..<0
    var pausedMilliseconds: UInt64 = 0
  }

  static let stepMilliseconds: UInt64 = 5
  /// Indices of partitions that are spread over nodes in any number.
  static let partitions = stride(from: 0, to: 1024, by: 93).compactMap(Partition.init(index:))

  let canary: ClusterCanary?
  var random: SeededRandom
  var nowMilliseconds: UInt64 = 0
  var database: ClusterDatabase
  var machines: [Machine] = []
  private var requests: [Request] = []
  private var lastRequest = 0
  var databaseAwayUntilMilliseconds: UInt64 = 0
  var isCalm = false
  /// When the last renewal was sent that has taken effect.
  private var renewed: [NodeIncarnation: UInt64] = [:]

  init(seed: UInt64, canary: ClusterCanary?) {
    random = SeededRandom(seed: seed)
    self.canary = canary
    database = ClusterDatabase(partitions: Self.partitions, canary: canary)
    let count = 2 + random.below(3)
    let spread: UInt64 = random.chance(1, in: 2) ? 1000 : 4000
    machines = ["a", "b", "c", "d"].prefix(count).compactMap(NodeName.init).map {
      Machine(
        name: $0, clockMilliseconds: random.between(0, 1 << 40),
        clockRate: random.between(990, 1010), startMilliseconds: random.between(0, spread))
    }
  }

  // MARK: Time

  func step() {
    nowMilliseconds += Self.stepMilliseconds
    for index in machines.indices { advance(index) }
    serveRequests()
    for index in machines.indices { takeOutput(of: index) }
  }

  func isPaused(_ index: Int) -> Bool { nowMilliseconds < machines[index].pausedUntilMilliseconds }
  func isCut(_ index: Int) -> Bool { nowMilliseconds < machines[index].cutUntilMilliseconds }

  /// The machine's own clock.
  func clock(_ index: Int) -> UInt64 {
    let machine = machines[index]
    let isStill = canary == .stopsClockWhilePaused
    let passed = nowMilliseconds - (isStill ? machine.pausedMilliseconds : 0)
    return machine.clockMilliseconds + passed * machine.clockRate / 1000
  }

  private func advance(_ index: Int) {
    guard !isPaused(index) else {
      machines[index].pausedMilliseconds += Self.stepMilliseconds
      return
    }
    let isTurn = (nowMilliseconds / Self.stepMilliseconds + UInt64(index)).isMultiple(of: 5)
    guard let node = machines[index].node, !node.hasEnded else { return restart(index) }
    guard isTurn else { return }
    node.decide(atMilliseconds: clock(index))
    node.drive(atMilliseconds: clock(index))
  }

  private func restart(_ index: Int) {
    if machines[index].node != nil {
      machines[index].node = nil
      machines[index].startMilliseconds = max(
        machines[index].startMilliseconds, nowMilliseconds + 500)
    }
    guard nowMilliseconds >= machines[index].startMilliseconds else { return }
    machines[index].incarnation += 1
    machines[index].node = ClusterNode(
      NodeIncarnation(
        node: machines[index].name, incarnation: Incarnation(machines[index].incarnation)),
      partitions: Self.partitions, canary: canary, random: random.split())
  }

  /// Notes the verdicts of a node, and sends what it asks.
  private func takeOutput(of index: Int) {
    guard let node = machines[index].node else { return }
    for verdict in node.verdicts {
      let sent = renewed[node.own] ?? 0
      let hasLapsed = nowMilliseconds >= sent + Limits.leaseMilliseconds
      database.laws.noteVerdict(
        verdict.partition, verdict.epoch, by: node.own,
        isOver: hasLapsed || !database.holds(node.own))
    }
    for (statement, purpose) in node.outbox { send(statement, purpose, from: node.own, index) }
    node.verdicts.removeAll()
    node.outbox.removeAll()
  }

  // MARK: Requests

  private func send(
    _ statement: ClusterStatement, _ purpose: ClusterNode.Purpose, from sender: NodeIncarnation,
    _ index: Int
  ) {
    lastRequest += 1
    var request = Request(
      number: lastRequest, sender: sender, machine: index, statement: statement, purpose: purpose,
      sentMilliseconds: nowMilliseconds,
      dueMilliseconds: nowMilliseconds + random.between(1, longestWay(of: statement, index)),
      holdMilliseconds: random.between(1, longestHold(of: statement)),
      answerMilliseconds: random.between(1, isSlow(index) ? 1400 : 10))
    if isCut(index) || isMuted(purpose, index) {
      request.lostMilliseconds = nowMilliseconds + 500
      request.dueMilliseconds = .max
    } else if !isCalm, random.chance(1, in: isOwnership(statement) ? 3 : 60) {
      lose(&request)
    }
    requests.append(request)
  }

  private func isSlow(_ index: Int) -> Bool {
    nowMilliseconds < machines[index].slowUntilMilliseconds
  }

  private func longestWay(of statement: ClusterStatement, _ index: Int) -> UInt64 {
    if !isCalm, case .fence = statement { return random.chance(1, in: 2) ? 3000 : 600 }
    return isSlow(index) && random.chance(1, in: 3) ? 900 : 10
  }

  private func longestHold(of statement: ClusterStatement) -> UInt64 {
    !isCalm && random.chance(1, in: isOwnership(statement) ? 4 : 20) ? 800 : 15
  }

  private func isMuted(_ purpose: ClusterNode.Purpose, _ index: Int) -> Bool {
    guard case .renew = purpose else { return false }
    return machines[index].muteMilliseconds.contains(nowMilliseconds)
  }

  /// Whether the statement changes owners: these are lost more often.
  private func isOwnership(_ statement: ClusterStatement) -> Bool {
    guard case .group(let group) = statement else { return false }
    return group.lane == 0
  }

  /// The connection is lost: the statement takes effect late, in time, or never.
  private func lose(_ request: inout Request) {
    guard request.lostMilliseconds == nil else { return }
    request.lostMilliseconds =
      nowMilliseconds + random.between(1, random.chance(1, in: 2) ? 30 : 1500)
    guard case .sent = request.phase else { return }
    switch random.below(3) {
    case 0: request.dueMilliseconds += random.between(1, 8000)
    case 1: request.dueMilliseconds = .max
    default: break
    }
  }

  /// All connections of a machine are lost.
  func loseConnections(of index: Int) {
    for place in requests.indices where requests[place].machine == index { lose(&requests[place]) }
  }

  /// The machine stands still: groups whose bytes it has not sent to the end keep their locks.
  func freeze(_ index: Int) {
    for place in requests.indices where requests[place].machine == index && random.chance(1, in: 2)
    {
      guard case .group = requests[place].statement else { continue }
      if case .executed = requests[place].phase { continue }
      requests[place].holdMilliseconds =
        machines[index].pausedUntilMilliseconds + 5 - nowMilliseconds
      if case .locked = requests[place].phase {
        requests[place].dueMilliseconds = machines[index].pausedUntilMilliseconds + 5
      }
    }
  }

  private func serveRequests() {
    for place in requests.indices where requests[place].dueMilliseconds <= nowMilliseconds {
      progress(place)
    }
    for place in requests.indices { deliver(place) }
    requests.removeAll { request in
      guard request.isForgotten else { return false }
      if case .executed = request.phase { return true }
      return request.dueMilliseconds == .max
    }
  }

  private func progress(_ place: Int) {
    let request = requests[place]
    switch request.phase {
    case .executed: return
    case .locked:
      guard case .group(let group) = request.statement else { return }
      guard nowMilliseconds >= databaseAwayUntilMilliseconds else { return abort(place) }
      finish(place, database.commit(group, by: request.sender))
    case .sent:
      guard nowMilliseconds >= databaseAwayUntilMilliseconds else { return abort(place) }
      execute(place)
    }
  }

  private func execute(_ place: Int) {
    let request = requests[place]
    let held = database.leases
    switch database.execute(request.statement, by: request.sender, request: request.number) {
    case .blocked: requests[place].dueMilliseconds = nowMilliseconds + 1
    case .locked:
      requests[place].phase = .locked
      requests[place].dueMilliseconds = nowMilliseconds + request.holdMilliseconds
    case .answered(let answer):
      note(request, held)
      finish(place, answer)
    }
  }

  /// What the laws need to know of a statement that has taken effect.
  private func note(_ request: Request, _ held: [NodeName: LeaseRow]) {
    switch request.statement {
    case .register, .renew:
      if database.holds(request.sender) {
        renewed[request.sender] = max(renewed[request.sender] ?? 0, request.sentMilliseconds)
      }
    case .fence(let node, _):
      guard let row = held[node.node], row.holder == node, row.state == .held,
        !database.holds(node)
      else { return }
      let index = machines.firstIndex { $0.node?.own == node }
      database.laws.noteFence(
        of: node,
        mayDecide: index.map {
          machines[$0].node?.lease?.mayDecide(atMilliseconds: clock($0)) == true
        }
          ?? false)
    case .terminate(let node):
      for place in requests.indices where requests[place].sender == node { abort(place) }
    default: break
    }
  }

  private func finish(_ place: Int, _ answer: ClusterAnswer) {
    requests[place].phase = .executed(answer)
    requests[place].answerMilliseconds += nowMilliseconds
  }

  /// The connection ends at the database: what has not taken effect never will.
  private func abort(_ place: Int) {
    let request = requests[place]
    switch request.phase {
    case .executed: return
    case .locked:
      if case .group(let group) = request.statement {
        database.abort(group, by: request.sender, request: request.number)
      }
    case .sent: break
    }
    finish(place, .unknown)
  }

  private func deliver(_ place: Int) {
    let request = requests[place]
    guard !request.isForgotten, !isPaused(request.machine) else { return }
    let answer: ClusterAnswer
    if let lost = request.lostMilliseconds {
      guard nowMilliseconds >= lost else { return }
      answer = .unknown
    } else if case .executed(let result) = request.phase,
      nowMilliseconds >= request.answerMilliseconds
    {
      if isCut(request.machine) {
        requests[place].lostMilliseconds = nowMilliseconds + 500
        return
      }
      answer = result
    } else {
      return
    }
    requests[place].isForgotten = true
    guard let node = machines[request.machine].node, node.own == request.sender else { return }
    node.receive(answer, request.purpose, atMilliseconds: clock(request.machine))
  }
}
