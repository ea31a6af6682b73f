import Synchronization

/// The state that libuv and epoll keep for a real loop: timers, and the sockets to examine.
@safe
final class LoopSimulation {
  let system: any SimulatedSystem
  /// The monotonic clock as of the start of this turn.
  private(set) var nowMilliseconds: UInt64
  /// The slots of the loop's sockets by descriptor, by which the system identifies them.
  var slots: [Int32: Int32] = [:]
  /// Descriptors that may have become ready, each once, in the order of notification.
  private var attention: [Int32] = []
  private var timers = unsafe [Entry]()
  private var startedTimers: UInt64 = 0

  @unsafe private struct Entry {
    let cell: UnsafeMutablePointer<TimerCell>
    var dueMilliseconds: UInt64
    var repeatMilliseconds: UInt64
    /// Timers due at the same time fire in the order in which they were started, as in libuv.
    var number: UInt64
  }

  init(_ system: any SimulatedSystem) {
    self.system = system
    nowMilliseconds = system.monotonicMilliseconds
  }

  func updateNow() { nowMilliseconds = max(nowMilliseconds, system.monotonicMilliseconds) }

  /// Reads the clock as of the start of the turn.
  func beginTurn() {
    let (now, age) = (system.monotonicMilliseconds, system.turnAgeMilliseconds)
    nowMilliseconds = max(nowMilliseconds, now - min(age, now))
  }

  // MARK: Sockets

  /// Schedules a look at the descriptor for the next turn.
  func look(at descriptor: Int32) {
    guard slots[descriptor] != nil, !attention.contains(descriptor) else { return }
    attention.append(descriptor)
  }

  var hasAttention: Bool { !attention.isEmpty }

  /// The descriptors to examine in this turn.
  func takeAttention() -> [Int32] {
    var looked: [Int32] = []
    swap(&looked, &attention)
    return looked
  }

  // MARK: Timers

  func start(
    _ cell: UnsafeMutablePointer<TimerCell>, afterMilliseconds: UInt64, repeatMilliseconds: UInt64
  ) {
    unsafe stop(cell)
    startedTimers += 1
    unsafe timers.append(
      Entry(
        cell: cell, dueMilliseconds: nowMilliseconds + afterMilliseconds,
        repeatMilliseconds: repeatMilliseconds, number: startedTimers))
  }

  func stop(_ cell: UnsafeMutablePointer<TimerCell>) {
    unsafe timers.removeAll { unsafe $0.cell == cell }
  }

  func isActive(_ cell: UnsafeMutablePointer<TimerCell>) -> Bool {
    unsafe timers.contains { unsafe $0.cell == cell }
  }

  func close(_ cell: UnsafeMutablePointer<TimerCell>) {
    unsafe stop(cell)
    unsafe Handles.take(&cell.pointee.handler)
  }

  private var first: Entry? {
    unsafe timers.min {
      unsafe ($0.dueMilliseconds, $0.number) < ($1.dueMilliseconds, $1.number)
    }
  }

  var nextTimerMilliseconds: UInt64? { unsafe first?.dueMilliseconds }

  func fireTimers() {
    while let entry = unsafe first, unsafe entry.dueMilliseconds <= nowMilliseconds {
      unsafe stop(entry.cell)
      if unsafe entry.repeatMilliseconds > 0 {
        unsafe start(
          entry.cell, afterMilliseconds: entry.repeatMilliseconds,
          repeatMilliseconds: entry.repeatMilliseconds)
      }
      // A copy: the handler may close the timer, which releases it.
      let handler = unsafe entry.cell.pointee.handler
      handler?()
    }
  }
}

// MARK: - Turns

extension EventLoop {
  /// Takes one turn of a simulated loop: sockets, timers, queued work, `onTurnEnd`.
  ///
  /// - Returns: Whether there is more to do, so that the loop would not sleep now.
  package func takeTurn() -> Bool {
    guard let simulation else { preconditionFailure("loop \(name) runs on a thread") }
    becomeLoopThread()
    defer { leaveLoopThread() }
    simulation.beginTurn()
    serveSimulatedSockets(simulation)
    simulation.fireTimers()
    let sawEmpty = drain(limit: Self.workPerTurn)
    onTurnEnd?()
    return !sawEmpty || hasLocalWork || simulation.hasAttention
  }

  /// Reports readiness. Level-triggered: what is still ready afterwards is examined again.
  private func serveSimulatedSockets(_ simulation: LoopSimulation) {
    let system = simulation.system
    onWake?()
    for descriptor in simulation.takeAttention() {
      if system.isReadable(descriptor) { tell(descriptor, Readiness.readable, simulation) }
      if system.isWritable(descriptor) { tell(descriptor, Readiness.writable, simulation) }
      // Interest set by a handler causes another call of `look`.
      guard let slot = simulation.slots[descriptor] else { continue }
      let wanted = unsafe sockets[slot].pointee.wanted
      if (wanted & Readiness.readable != 0 && system.isReadable(descriptor))
        || (wanted & Readiness.writable != 0 && system.isWritable(descriptor))
      {
        simulation.look(at: descriptor)
      }
    }
  }

  /// The socket is looked up for each call: the previous one may have closed it, or changed its interest.
  private func tell(_ descriptor: Int32, _ readiness: UInt32, _ simulation: LoopSimulation) {
    guard let slot = simulation.slots[descriptor] else { return }
    tell(slot, of: unsafe sockets[slot].pointee.wanted & readiness)
  }

  /// When the first timer of a simulated loop is due, on the monotonic clock; nil if none is running.
  package var nextTimerMilliseconds: UInt64? { simulation?.nextTimerMilliseconds }

  /// A descriptor of a simulated loop may have become ready.
  package func look(at descriptor: Int32) {
    guard let simulation else { return }
    simulation.look(at: descriptor)
    if simulation.hasAttention { simulation.system.wake(self) }
  }

  /// Drops the queued work of a simulated loop whose process was killed.
  package func abandonWork() {
    queue.withLock { $0.items = [] }
    batch = []
    batchCursor = 0
    onTurnEnd = nil
    onWake = nil
  }
}
