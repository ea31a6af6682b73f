import ApusCore
import ApusLoop
import ApusModel

/// Paces the work that untrusted peers cause: the steps of TLS handshakes, and the input of connections without a
/// credential.
///
/// Addresses take turns, so that one with thousands of connections delays another one by a step. Without competition
/// nothing is delayed: a fleet behind one address connects as fast as the processor allows.
struct UntrustedWork: ~Copyable {
  typealias Entry = DeadlineWheel.Entry

  /// Handshakes that have begun go first, so that under load some are completed and not all only begun.
  private var finishing = FairQueue<SocketAddress, Entry>()
  /// Connections that had their turn, whether or not a step came of it.
  private var seenThisTurn = 0
  /// By the environment's raw value.
  private var lanes = [Lane(), Lane()]
  /// The lane whose handshake may begin next.
  private var nextLane = 0
  private let halfOpenLimit: Int
  private var reading = FairQueue<SocketAddress, Entry>()
  private var hasReadThisTurn = false
  private var isTurnPlanned = false
  private var heap = HeapAfterCrowd()

  /// The handshakes of one environment. Each has its own limit, so that load on one does not delay the other.
  private struct Lane {
    var beginning = FairQueue<SocketAddress, Entry>()
    var halfOpen = HalfOpenHandshakes()
  }

  init(halfOpenLimit: Int) { self.halfOpenLimit = halfOpenLimit }

  /// Handshakes whose peers owe the next step.
  var halfOpenCount: Int { lanes.reduce(0) { $0 + $1.halfOpen.count } }

  // MARK: Handshakes

  /// Whether a handshake of the lane and the address may begin: each may hold a multiple of the number still free.
  private func mayBegin(_ lane: Int, _ site: SocketAddress) -> Bool {
    let free = halfOpenLimit - halfOpenCount
    let halfOpen = lanes[lane].halfOpen
    return halfOpen.count < Limits.untrustedPerFreeOfEnvironment * free
      && halfOpen.count(of: site) < Limits.untrustedPerFree * free
  }

  /// Whether the connection may take a step of its handshake now; otherwise it gets its turn later.
  mutating func mayShakeHands(_ connection: Connection) -> Bool {
    let lane = Self.lane(of: connection)
    let isFirst =
      finishing.isEmpty
      && (connection.isHalfOpen
        || lanes[lane].beginning.isEmpty && mayBegin(lane, connection.peer.site))
    if mayTakeOne, isFirst {
      takeTurn()
      return true
    }
    if connection.isHalfOpen {
      finishing.append(connection.entry, of: connection.peer.site)
    } else {
      lanes[lane].beginning.append(connection.entry, of: connection.peer.site)
    }
    return false
  }

  private static func lane(of connection: Connection) -> Int {
    Int(connection.listener.environment.rawValue)
  }

  private mutating func takeTurn() {
    seenThisTurn += 1
    heap.stepTaken()
  }

  enum Next {
    /// The connection takes a step.
    case step(Connection)
    /// The connection ends, so that another handshake can begin.
    case end(Connection)
  }

  /// The next action for waiting connections; nil if there is none now.
  mutating func next(_ table: ConnectionTable) -> Next? {
    while mayTakeOne {
      if let entry = finishing.popFirst() ?? nextToBegin() {
        guard let found = table.awake(entry), found.stage == .handshaking else { continue }
        takeTurn()
        return .step(found)
      }
      guard let overdue = overdue(table) else { return nil }
      seenThisTurn += 1
      return .end(overdue)
    }
    return nil
  }

  /// The lanes take turns.
  private mutating func nextToBegin() -> Entry? {
    for _ in 0..<lanes.count {
      let lane = nextLane
      nextLane = (lane + 1) % lanes.count
      // Taken out, because the decision looks at the lanes.
      var beginning = FairQueue<SocketAddress, Entry>()
      swap(&beginning, &lanes[lane].beginning)
      let entry = beginning.popFirst { mayBegin(lane, $0) }
      swap(&beginning, &lanes[lane].beginning)
      if let entry { return entry }
    }
    return nil
  }

  private var mayTakeOne: Bool { seenThisTurn < Limits.handshakesPerTurn }

  /// Whether a connection waits only for the next turn.
  private var needsNextTurn: Bool {
    !mayTakeOne && !(finishing.isEmpty && lanes.allSatisfy(\.beginning.isEmpty))
  }

  /// The handshake that ends to make room: of a lane where others wait, and of the address with the most handshakes,
  /// the one whose peer has owed its next step for longest, if that is long enough.
  private mutating func overdue(_ table: ConnectionTable) -> Connection? {
    for lane in lanes.indices where !lanes[lane].beginning.isEmpty {
      guard let oldest = lanes[lane].halfOpen.oldestOfLargest(table) else { continue }
      let end = oldest.untrusted.halfOpenMilliseconds + Limits.handshakePatienceMilliseconds
      if end <= table.context.loop.nowMilliseconds { return oldest }
    }
    return nil
  }

  /// A connection has the first response, and its peer owes the next step.
  mutating func handshakeBegan(_ connection: Connection, _ table: ConnectionTable) {
    lanes[Self.lane(of: connection)].halfOpen.append(connection, table)
  }

  /// It is completed or has failed.
  mutating func handshakeEnded(_ connection: Connection) {
    lanes[Self.lane(of: connection)].halfOpen.remove(connection)
  }

  // MARK: Reads

  /// Whether the connection may read now: one in each turn. Otherwise it gets its turn later.
  mutating func mayRead(_ connection: Connection) -> Bool {
    if !hasReadThisTurn, reading.isEmpty {
      hasReadThisTurn = true
      return true
    }
    wait(connection)
    return false
  }

  /// The connection has more to do in a later turn.
  mutating func wait(_ connection: Connection) {
    reading.append(connection.entry, of: connection.peer.site)
  }

  /// A turn has ended; waiting connections get the next one.
  mutating func turnEnded(_ table: ConnectionTable) {
    if heap.turnEnded(nowSeconds: table.context.nowSeconds) { table.host?.returnMemory() }
    hasReadThisTurn = false
    if needsNextTurn { table.context.loop.perform {} }
    seenThisTurn = 0
    guard !reading.isEmpty, !isTurnPlanned else { return }
    isTurnPlanned = true
    table.context.loop.perform { [unowned table] in table.letOneRead() }
  }

  /// The connection that reads in this turn.
  mutating func nextReader(_ table: ConnectionTable) -> Connection? {
    isTurnPlanned = false
    while let entry = reading.popFirst() {
      guard let found = table.awake(entry) else { continue }
      hasReadThisTurn = true
      return found
    }
    return nil
  }
}

extension ConnectionTable {
  fileprivate func letOneRead() { untrustedWork.nextReader(self)?.goOnReading() }

  /// Continues waiting handshakes; called at the end of each turn.
  func continueHandshakes() {
    while let next = untrustedWork.next(self) {
      switch next {
      case .step(let connection): connection.goOnShakingHands()
      case .end(let connection):
        connection.makeRoomForHandshake()
      }
    }
  }
}
