import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import Glibc

// The worker's table of connections.

extension Worker {
  func accept(_ descriptor: Int32, _ peer: SocketAddress, _ listener: ServiceListener) {
    guard makeRoom(for: peer, listener) else {
      Glibc.close(descriptor)
      return
    }
    let (slot, generation) = takeSlot()
    do {
      // Its own statement: a descriptor that no socket has taken up yet must be closed here.
      let tls: TLSConnection
      do { tls = try TLSConnection(context: listener.context) } catch {
        Glibc.close(descriptor)
        throw error
      }
      let connection = Connection(
        worker: self, listener: listener, slot: slot, generation: generation,
        socket: try Socket(adopting: descriptor, loop: loop), peer: peer, tls: tls,
        acceptedMilliseconds: loop.nowMilliseconds)
      connections[Int(slot)] = connection
      connectionCounts[listener.kind, listener.environment] += 1
      untrusted.append(connection, self)
      watch(connection)
    } catch {
      gate.close(peer, at: listener, holder: nil)
      refuse(slot, peer, error)
    }
  }

  /// Counts a connection that comes. Where its address holds too many that have proved nothing, the oldest of them
  /// makes room: a good peer behind that address needs only to be faster than all who come after it.
  private func makeRoom(for peer: SocketAddress, _ listener: ServiceListener) -> Bool {
    if gate.accept(from: peer, at: listener) { return true }
    listeningSockets.noteCrowded()
    if let oldest = untrusted.oldest(of: peer.site, self) {
      gate.noteEvicted()
      oldest.abort()
      if gate.accept(from: peer, at: listener) { return true }
    }
    gate.noteRefused()
    return false
  }

  /// One line for all connections that were refused or ended since the last one.
  func reportRefusedConnections() {
    guard let count = gate.takeReport(nowSeconds: nowSeconds) else { return }
    let figures = gate.figures
    log(
      .warning, "untrusted connections refused", .number("count", count),
      .number("untrusted", figures.untrusted), .number("capacity", figures.capacity))
  }

  /// The same for those that found no descriptor: the process's limit is lower than the budget takes it for, or
  /// something else uses its descriptors up.
  func reportDescriptors() {
    guard let count = listeningSockets.takeDescriptorReport(nowSeconds: nowSeconds) else { return }
    log.limited(.warning, .descriptorsUsedUp, atMilliseconds: loop.nowMilliseconds) {
      [.number("count", count), .number("capacity", gate.figures.capacity)]
    }
  }

  func refuse(_ slot: Int32, _ peer: SocketAddress, _ error: any Error) {
    log.limited(.error, .connectionRefused, atMilliseconds: loop.nowMilliseconds) {
      [.text("peer", peer.description), .text("reason", "\(error)")]
    }
    freeSlots.append(slot)
  }

  func takeSlot() -> (Int32, UInt32) {
    if let slot = freeSlots.popLast() { return (slot, generations[Int(slot)]) }
    connections.append(nil)
    generations.append(0)
    return (Int32(connections.count - 1), 0)
  }

  /// The connection that has the slot; one that is dormant is awake then.
  func connection(at slot: Int32) -> Connection? {
    connections[Int(slot)] ?? (dormant.has(slot) ? wake(slot) : nil)
  }

  /// The same, if it is the one that an entry of a list was made for.
  func connection(slot: Int32, generation: UInt32) -> Connection? {
    generations[Int(slot)] == generation ? connection(at: slot) : nil
  }

  /// The same without waking it: nil also where it is dormant, which no untrusted one is.
  func awake(_ entry: DeadlineWheel.Entry) -> Connection? {
    generations[Int(entry.slot)] == entry.generation ? connections[Int(entry.slot)] : nil
  }

  /// - Parameter goesOn: Whether another worker goes on with it; then it remains counted.
  func forget(_ connection: Connection, goesOn: Bool = false) {
    let index = Int(connection.slot)
    if !connection.isTrusted { untrusted.remove(connection) }
    connection.endHandshake()
    connections[index] = nil
    generations[index] &+= 1
    freeSlots.append(connection.slot)
    connectionCounts[connection.listener.kind, connection.listener.environment] -= 1
    if !goesOn { gate.close(connection.peer, at: connection.listener, holder: connection.holder) }
  }

  /// Looks at the connection when its deadline has come, or when it has been quiet for long enough to fall dormant.
  ///
  /// The next look and a later one are remembered: a deadline that moves back and forth with every message adds nothing
  /// to the wheel, nor does one that comes and goes in front of a far one.
  func watch(_ connection: Connection) {
    let look = min(connection.dueSeconds, connection.quietSeconds)
    guard look < connection.watchedSeconds else { return }
    if connection.plannedSeconds == .max { connection.plannedSeconds = connection.watchedSeconds }
    connection.watchedSeconds = wheel.add(connection.entry, deadlineSeconds: look)
  }

  /// Calls `pauseEnded` of the connection when the pause behind its last words is over.
  func pause(_ connection: Connection) { pauses?.append(connection) }
}
