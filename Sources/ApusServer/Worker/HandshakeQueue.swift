import ApusCore
import ApusModel

/// Lets a worker begin a few handshakes in each turn, in the order in which the first bytes came.
///
/// After a network's failure all devices come at once. Without this a turn would have a first half for each of them,
/// and only then the second halves: everybody who is connected would wait for seconds, and the last of those who come
/// for so long that they give up, when half of the work for them is done. Whoever has begun goes on at once.
struct HandshakeQueue: ~Copyable {
  private var begun = 0
  private var waiting: [DeadlineWheel.Entry] = []
  private var head = 0

  /// Whether the connection may read its first bytes; it is told later if not.
  mutating func mayBegin(_ connection: Connection) -> Bool {
    if connection.isHeldBack { return false }
    guard begun >= Limits.handshakesPerTurn || head < waiting.count else {
      begun += 1
      return true
    }
    connection.isHeldBack = true
    waiting.append(
      DeadlineWheel.Entry(slot: connection.slot, generation: connection.generation))
    return false
  }

  /// A turn has ended: the next ones may begin.
  mutating func turnEnded(_ worker: Worker) {
    begun = 0
    while begun < Limits.handshakesPerTurn, head < waiting.count {
      let entry = waiting[head]
      head += 1
      guard let connection = worker.connection(slot: entry.slot, generation: entry.generation),
        connection.stage == .handshaking
      else { continue }
      begun += 1
      connection.goOnToBegin()
    }
    guard head == waiting.count || head > 1024 else { return }
    waiting.removeFirst(head)
    head = 0
  }

  /// Connections that wait.
  var count: Int { waiting.count - head }
}

extension Connection {
  /// Whether the handshake may begin now; if not, nothing is read until it may.
  func beginHandshake() -> Bool {
    hasBegun = worker.handshakes.mayBegin(self)
    if !hasBegun { updateInterest() }
    return hasBegun
  }

  /// It is its turn: what has arrived is read in the next one.
  fileprivate func goOnToBegin() {
    isHeldBack = false
    hasBegun = true
    updateInterest()
  }
}
