import Synchronization

/// What libuv keeps for a real loop: the timers and the watched sockets of a simulated one.
@safe
final class LoopSimulation {
  let system: any SimulatedSystem
  /// The monotonic clock as of the start of this turn.
  private(set) var nowMilliseconds: UInt64
  private var sockets = unsafe [Int32: UnsafeMutablePointer<PollCell>]()
  /// Descriptors that may have become ready, each once, in the order in which that was told.
  private var attention: [Int32] = []
  private var timers = unsafe [Entry]()
  private var startedTimers: UInt64 = 0

  @unsafe private struct Entry {
    let cell: UnsafeMutablePointer<TimerCell>
    var dueMilliseconds: UInt64
    var repeatMilliseconds: UInt64
    /// Of timers that are due at the same time the one that was started first fires first, as in libuv.
    var number: UInt64
  }

  init(_ system: any SimulatedSystem) {
    self.system = system
    nowMilliseconds = system.monotonicMilliseconds
  }

  func updateNow() { nowMilliseconds = max(nowMilliseconds, system.monotonicMilliseconds) }

  // MARK: Sockets

  func adopt(_ descriptor: Int32, _ cell: UnsafeMutablePointer<PollCell>, _ loop: EventLoop) {
    unsafe sockets[descriptor] = cell
    system.adopted(descriptor, by: loop)
  }

  /// Lets go of a descriptor without closing it.
  func release(_ cell: UnsafeMutablePointer<PollCell>) {
    let descriptor = unsafe cell.pointee.descriptor
    guard descriptor >= 0 else { return }
    unsafe sockets[descriptor] = nil
    unsafe cell.pointee.descriptor = -1
    unsafe cell.pointee.interest = 0
    unsafe Handles.take(&cell.pointee.handler)
  }

  func close(_ cell: UnsafeMutablePointer<PollCell>, resets: Bool) {
    let descriptor = unsafe cell.pointee.descriptor
    guard descriptor >= 0 else { return }
    unsafe release(cell)
    system.close(descriptor, resets: resets)
  }

  /// Has the descriptor looked at in the next turn.
  func look(at descriptor: Int32) {
    guard unsafe sockets[descriptor] != nil, !attention.contains(descriptor) else { return }
    attention.append(descriptor)
  }

  var hasAttention: Bool { !attention.isEmpty }

  /// Calls the handlers of what is ready. Level-triggered: what is ready still afterwards is looked at again.
  func serveSockets() {
    var looked: [Int32] = []
    swap(&looked, &attention)
    for descriptor in looked {
      if isReady(descriptor, Readiness.readable, system.isReadable(descriptor)) {
        handler(of: descriptor)?.socketReadable()
      }
      if isReady(descriptor, Readiness.writable, system.isWritable(descriptor)) {
        handler(of: descriptor)?.socketWritable()
      }
      // Interest that the handlers turned on is looked at by `look`, which they cause.
      if isReady(descriptor, Readiness.readable, system.isReadable(descriptor))
        || isReady(descriptor, Readiness.writable, system.isWritable(descriptor))
      {
        look(at: descriptor)
      }
    }
  }

  private func isReady(_ descriptor: Int32, _ kind: Int32, _ isReady: Bool) -> Bool {
    guard isReady, let cell = unsafe sockets[descriptor] else { return false }
    return unsafe cell.pointee.handler != nil && cell.pointee.interest & kind != 0
  }

  /// Looked up anew for each call: the one before may have closed the socket and freed its cell.
  private func handler(of descriptor: Int32) -> (any SocketHandler)? {
    guard let cell = unsafe sockets[descriptor] else { return nil }
    return unsafe cell.pointee.handler
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
  /// - Returns: Whether the loop would not sleep now: there is more to do.
  package func takeTurn() -> Bool {
    guard let simulation else { preconditionFailure("loop \(name) has a thread to run it") }
    becomeLoopThread()
    defer { leaveLoopThread() }
    simulation.updateNow()
    simulation.serveSockets()
    simulation.fireTimers()
    let sawEmpty = drain(limit: Self.workPerTurn)
    onTurnEnd?()
    return !sawEmpty || hasLocalWork || simulation.hasAttention
  }

  /// When the first timer of a simulated loop is due, on the monotonic clock; nil: none runs.
  package var nextTimerMilliseconds: UInt64? { simulation?.nextTimerMilliseconds }

  /// A descriptor of a simulated loop may have become ready.
  package func look(at descriptor: Int32) {
    guard let simulation else { return }
    simulation.look(at: descriptor)
    if simulation.hasAttention { simulation.system.wake(self) }
  }

  /// Forgets the queued work of a simulated loop whose process was killed.
  package func abandonWork() {
    queue.withLock { $0.items = [] }
    batch = []
    batchCursor = 0
    onTurnEnd = nil
  }
}
