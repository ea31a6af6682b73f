import ApusCore
import ApusLoop
import ApusModel

/// Lets a worker take a few steps of handshakes in each turn: those of connections that have begun first, and else in
/// the order in which their bytes came.
///
/// After a network's failure all devices come at once, and what they send, first flights and second ones, arrives in
/// hundreds. Without this a turn would have a step for each of them: everybody who is connected would wait for seconds,
/// and the last of those who come for so long that they give up, when half of the work for them is done.
struct HandshakeQueue: ~Copyable {
  private var steps = 0
  private var finishing = Line()
  private var beginning = Line()
  private var heap = HeapAfterCrowd()

  /// Whether the connection may read; it is told later if not.
  mutating func mayGoOn(_ connection: Connection) -> Bool {
    if connection.isHeldBack { return false }
    if steps < Limits.handshakesPerTurn, finishing.isEmpty,
      connection.hasBegun || beginning.isEmpty
    {
      steps += 1
      return true
    }
    connection.isHeldBack = true
    if connection.hasBegun { finishing.append(connection) } else { beginning.append(connection) }
    return false
  }

  /// A turn has ended: the next ones may go on.
  mutating func turnEnded(_ worker: Worker) {
    let isCrowdGone = heap.turnEnded(steps: steps, nowSeconds: worker.nowSeconds)
    if isCrowdGone { worker.returnMemory() }
    steps = 0
    while steps < Limits.handshakesPerTurn,
      let connection = finishing.next(worker) ?? beginning.next(worker)
    {
      steps += 1
      connection.mayShakeHandsNow()
    }
  }

  private struct Line {
    private var entries: [DeadlineWheel.Entry] = []
    private var head = 0

    private static let entriesKept = 256
    private static let entriesMoved = 1024

    var isEmpty: Bool { head == entries.count }

    mutating func append(_ connection: Connection) {
      entries.append(
        DeadlineWheel.Entry(slot: connection.slot, generation: connection.generation))
    }

    /// The first one that is still there.
    mutating func next(_ worker: Worker) -> Connection? {
      while head < entries.count {
        let entry = entries[head]
        head += 1
        if isEmpty {
          // What a crowd took is given back with it: 16 bytes for each who waited.
          entries.removeAll(keepingCapacity: entries.capacity <= Self.entriesKept)
          head = 0
        } else if head == Self.entriesMoved {
          entries.removeFirst(head)
          head = 0
        }
        let found = worker.connection(slot: entry.slot, generation: entry.generation)
        if let found, found.stage == .handshaking { return found }
      }
      return nil
    }
  }
}

/// Tells when the memory of a crowd's handshakes is to be given back, as the crowd has gone by: the heap keeps what was
/// freed, 20 KB for each that was under way at once, and a worker that has its devices again needs none of it.
private struct HeapAfterCrowd {
  private var steps = 0
  /// The most steps in one window since that was last so.
  private var most = 0
  private var windowEndSeconds: UInt64 = 0

  mutating func turnEnded(steps count: Int, nowSeconds: UInt64) -> Bool {
    steps += count
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

extension Connection {
  /// Whether the handshake may go on now; if not, nothing is read until it may.
  func mayShakeHands() -> Bool {
    if isAdmitted {
      isAdmitted = false
      // Half a handshake for somebody who has given up keeps all who wait behind him. With the second flight something
      // may have come that is to be taken, and the dear part is done.
      guard hasBegun || !socket.hasPeerFinished else {
        abort()
        return false
      }
    } else if !worker.handshakes.mayGoOn(self) {
      updateInterest()
      return false
    }
    hasBegun = true
    return true
  }

  /// It is its turn: what has arrived is read in the next one.
  fileprivate func mayShakeHandsNow() {
    isHeldBack = false
    isAdmitted = true
    updateInterest()
  }
}
