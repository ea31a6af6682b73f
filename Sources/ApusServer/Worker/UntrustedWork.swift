import ApusCore
import ApusLoop
import ApusModel

/// Paces the work that peers cause who have not proved who they are: the steps of TLS handshakes, and what they send
/// when they are connected.
///
/// Addresses take turns, so that one with thousands of connections delays another one by a step. Nobody is slowed down
/// while nobody else waits: a fleet behind one address comes as fast as the processor can.
struct UntrustedWork: ~Copyable {
  typealias Entry = DeadlineWheel.Entry

  /// Those with a half-finished handshake go first, so that a crowd is served and not only begun.
  private var finishing = FairQueue<SocketAddress, Entry>()
  private var beginning = FairQueue<SocketAddress, Entry>()
  private var stepsUnderWay = 0
  /// Those that have begun, the oldest first; entries of those that are over stay until they are the first.
  private var begun = FIFO<Entry>()
  private var halfOpenCount = 0
  private var reading = FairQueue<SocketAddress, Entry>()
  private var hasReadThisTurn = false
  private var isTurnPlanned = false
  private var heap = HeapAfterCrowd()

  // MARK: Handshakes

  /// Whether the connection may take a step of its handshake; it is told later if not.
  mutating func mayShakeHands(_ connection: Connection) -> Bool {
    let isFirst = finishing.isEmpty && (connection.hasBegun || beginning.isEmpty)
    if stepsUnderWay < Limits.handshakesAtOnce, isFirst {
      stepsUnderWay += 1
      return true
    }
    if connection.hasBegun {
      finishing.append(connection.entry, of: connection.peer.site)
    } else {
      beginning.append(connection.entry, of: connection.peer.site)
    }
    return false
  }

  /// A step was taken, or came to nothing.
  mutating func stepEnded() {
    stepsUnderWay -= 1
    heap.stepTaken()
  }

  /// Who takes the next step.
  mutating func nextHandshake(_ worker: Worker) -> Connection? {
    while stepsUnderWay < Limits.handshakesAtOnce,
      let entry = finishing.popFirst() ?? beginning.popFirst()
    {
      guard let found = worker.connection(slot: entry.slot, generation: entry.generation),
        found.stage == .handshaking
      else { continue }
      stepsUnderWay += 1
      return found
    }
    return nil
  }

  /// A connection has its first answer, and owes the next step.
  mutating func handshakeBegan(_ connection: Connection) {
    begun.append(connection.entry)
    halfOpenCount += 1
  }

  /// It is completed, or over.
  mutating func handshakeEnded() {
    halfOpenCount -= 1
    if halfOpenCount == 0 { begun = FIFO() }
  }

  /// Who makes room when there are too many: the one that had the most time to answer.
  mutating func takeOldestSurplus(_ worker: Worker) -> Connection? {
    while halfOpenCount > Limits.handshakesHalfOpen, let entry = begun.popFirst() {
      let found = worker.connection(slot: entry.slot, generation: entry.generation)
      if let found, found.isHalfOpen { return found }
    }
    return nil
  }

  // MARK: Reads

  /// Whether the connection may read now: one of them in a turn. It is told later if not.
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

  /// A turn has ended. Those who wait get the next one.
  mutating func turnEnded(_ worker: Worker) {
    if heap.turnEnded(nowSeconds: worker.nowSeconds) { worker.returnMemory() }
    hasReadThisTurn = false
    guard !reading.isEmpty, !isTurnPlanned else { return }
    isTurnPlanned = true
    worker.loop.perform { [unowned worker] in worker.letOneRead() }
  }

  /// Who reads in this turn.
  mutating func nextReader(_ worker: Worker) -> Connection? {
    isTurnPlanned = false
    while let entry = reading.popFirst() {
      guard let found = worker.connection(slot: entry.slot, generation: entry.generation) else {
        continue
      }
      hasReadThisTurn = true
      return found
    }
    return nil
  }
}

/// Tells when the memory of a crowd's handshakes is to be given back, as the crowd has gone by: the heap keeps what was
/// freed, 20 KB for each that was under way at once, and a worker that has its devices again needs none of it.
private struct HeapAfterCrowd {
  private var steps = 0
  /// The most steps in one window since that was last so.
  private var most = 0
  private var windowEndSeconds: UInt64 = 0

  mutating func stepTaken() { steps += 1 }

  mutating func turnEnded(nowSeconds: UInt64) -> Bool {
    guard nowSeconds >= windowEndSeconds else { return false }
    most = max(most, steps)
    // While as many come as before, what they freed is what the next ones take.
    let isGone = most >= Limits.handshakesOfCrowd && steps <= most / 4
    if isGone { most = steps }
    steps = 0
    windowEndSeconds = nowSeconds + UInt64(Limits.crowdSeconds)
    return isGone
  }
}

extension Worker {
  fileprivate func letOneRead() { untrustedWork.nextReader(self)?.goOnReading() }

  /// Has a step taken: by the worker's thread for handshakes, or here where it has none.
  func take(_ step: HandshakeStep) {
    if let handshakeThread { return handshakeThread.begin(step) }
    var step = step
    step.take(tlsBuffers)
    finish(step)
  }

  /// A step was taken.
  func finish(_ step: HandshakeStep) {
    let connection = connection(slot: step.connection.slot, generation: step.connection.generation)
    if let connection, connection.stage == .handshaking { connection.handshakeWent(step) }
    handshakeStepEnded()
  }

  /// A handshake waits for its peer.
  func handshakeBegan(_ connection: Connection) {
    untrustedWork.handshakeBegan(connection)
    while let oldest = untrustedWork.takeOldestSurplus(self) {
      gate.noteEvicted()
      oldest.abort()
    }
  }

  /// A step is over, or came to nothing; the next ones begin.
  func handshakeStepEnded() {
    untrustedWork.stepEnded()
    while let next = untrustedWork.nextHandshake(self) {
      guard !next.goOnShakingHands() else { continue }
      // Of those who have given up there may be thousands, and each costs some calls: the next one in the next turn.
      loop.perform { [unowned self] in handshakeStepEnded() }
    }
  }
}
