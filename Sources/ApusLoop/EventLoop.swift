import CUV
import Glibc
import Synchronization

/// One libuv loop on one thread: sockets, timers, signals, and the executor of its actors.
///
/// Everything that belongs to a loop (`Socket`, `LoopTimer`, `Listener`, `SignalWatcher`) is *confined*: it may be
/// used on the loop's thread, or, until `start()` or `run()`, on the thread that sets the loop up. Any other thread
/// may only use `enqueue`, `perform`, `stop`, `join`, `isOnLoop`, and send to an `Inbox`.
///
/// One turn: timers, queued work (jobs, `perform`, inboxes), `onTurnEnd`, then epoll, `onWake` and the sockets'
/// callbacks.
///
/// A loop that was started must be stopped: its thread keeps it alive until then.
@safe
package final class EventLoop: SerialExecutor, @unchecked Sendable {
  /// Items of queued work per turn, so that timers and sockets get their turn.
  static let workPerTurn = 512

  package let name: String

  /// Runs once per turn, after every callback and all queued work of the turn and before the loop sleeps: batches are
  /// flushed here. Confined.
  package var onTurnEnd: (() -> Void)?
  /// Runs before the callbacks of sockets: time has passed since the turn's end, because the loop may have slept. Not
  /// before timers. Confined.
  package var onWake: (() -> Void)?

  let uv: UnsafeMutablePointer<uv_loop_t>
  private let turn: UnsafeMutablePointer<uv_prepare_t>
  private let again: UnsafeMutablePointer<uv_idle_t>
  private let watch: UnsafeMutablePointer<uv_poll_t>
  private let watchFirst: UnsafeMutablePointer<uv_poll_t>
  private var isGoingAgain = false

  /// Replaces libuv on a simulated loop; nil otherwise.
  let simulation: LoopSimulation?
  /// Whether it has no thread: see `init(name:simulated:)`.
  package var isSimulated: Bool { simulation != nil }

  /// Confined, like everything below.
  let sockets = SocketTable()
  /// Watches the sockets; libuv watches only this descriptor and the next, because a watcher of its own per socket
  /// would take 200 bytes.
  private(set) var epoll: Epoll
  /// Watches the sockets that go first. The kernel reports what is ready in the order in which it became so: in one
  /// epoll they would wait behind thousands of others.
  private(set) var firstEpoll: Epoll
  /// The most sockets that are told of their readiness in a turn, besides those that go first; what is above 128 has no
  /// effect. The others have their turn next. Confined.
  package var socketsPerTurn = Int.max
  /// Whether the sockets had their turn since the last turn's end.
  var hasServedSockets = false
  /// Handles events of dormant sockets. Weakly referenced.
  package weak var dormantSocketHandler: (any DormantSocketHandler)?

  /// False once the loop is stopping: handles created after that are closed from the start. Confined.
  private(set) var takesHandles = true

  let queue = Mutex(WorkQueue())
  /// The current batch of work, and the progress in it. Confined.
  var batch: [Work] = []
  var batchCursor = 0
  /// Whether work was queued on the loop's own thread since the queue was last empty. Confined.
  var hasLocalWork = false

  private let stage = Atomic<Stage>(.created)
  private let threadID = Atomic<UInt>(0)
  private let thread = Mutex<pthread_t?>(nil)
  /// Threads between their decision to wake the loop and the end of that call: the loop must not be closed meanwhile.
  private let wakesInFlight = Atomic<Int>(0)

  private enum Stage: UInt8, AtomicRepresentable {
    case created, running, closed
  }

  /// - Parameter name: The thread's name; Linux keeps 15 bytes of it.
  ///
  /// Stops the program if the process has no descriptors left for the loop (it takes seven).
  package init(name: String) {
    self.name = name
    simulation = nil
    epoll = Epoll(wakes: true)
    firstEpoll = Epoll(wakes: false)
    unsafe uv = .allocate(capacity: 1)
    unsafe turn = .allocate(capacity: 1)
    unsafe again = .allocate(capacity: 1)
    unsafe watch = .allocate(capacity: 1)
    unsafe watchFirst = .allocate(capacity: 1)
    check(unsafe uv_loop_init(uv), "uv_loop_init")
    unsafe uv.pointee.data = Unmanaged.passUnretained(self).toOpaque()
    unsafe uv_prepare_init(uv, turn)
    unsafe uv_idle_init(uv, again)
    check(unsafe uv_prepare_start(turn, endTurn), "uv_prepare_start")
    check(unsafe uv_poll_init(uv, watch, epoll.descriptor), "uv_poll_init")
    check(unsafe uv_poll_init(uv, watchFirst, firstEpoll.descriptor), "uv_poll_init")
    let readable = Int32(UV_READABLE.rawValue)
    check(unsafe uv_poll_start(watch, readable, socketsReady), "uv_poll_start")
    check(unsafe uv_poll_start(watchFirst, readable, socketsReady), "uv_poll_start")
  }

  /// A loop without a thread: the owner of `system` calls `takeTurn()`. It is never started, so what belongs to it may
  /// be used on any thread, but on one at a time.
  package init(name: String, simulated system: any SimulatedSystem) {
    self.name = name
    simulation = LoopSimulation(system)
    epoll = .none()
    firstEpoll = .none()
    unsafe uv = .allocate(capacity: 1)
    unsafe turn = .allocate(capacity: 1)
    unsafe again = .allocate(capacity: 1)
    unsafe watch = .allocate(capacity: 1)
    unsafe watchFirst = .allocate(capacity: 1)
  }

  deinit {
    switch stage.load(ordering: .acquiring) {
    case .created:
      closeSockets()
      if simulation == nil { closeLoop() }
    case .running: preconditionFailure("a running loop is kept alive by its thread")
    case .closed: break
    }
    // `join` was not called: the thread has finished or is about to, and may clean up after itself.
    if let unjoined = thread.withLock({ $0.take() }) { pthread_detach(unjoined) }
    unsafe turn.deallocate()
    unsafe again.deallocate()
    unsafe watch.deallocate()
    unsafe watchFirst.deallocate()
    unsafe uv.deallocate()
  }

  // MARK: Life cycle

  /// Starts the loop on a thread of its own. Once only.
  package func start() {
    begin()
    thread.withLock { thread in
      var created = pthread_t()
      let loop = unsafe Unmanaged.passRetained(self).toOpaque()
      let code = unsafe pthread_create(&created, nil, runLoopThread, loop)
      precondition(code == 0, "pthread_create for loop \(name): error \(code)")
      thread = created
    }
  }

  /// Runs the loop on the calling thread until `stop()`. Once only, instead of `start()`.
  ///
  /// Do not call it inside a Swift task: the loop runs jobs itself, and jobs do not nest.
  @available(*, noasync)
  package func run() {
    begin()
    runToEnd()
  }

  /// Ends the loop after the work queued so far, from any thread. What is still open on it is then closed.
  ///
  /// It waits for host names being resolved on the loop, and for work that keeps queueing work: cancel a task that
  /// never suspends elsewhere first.
  package func stop() {
    enqueue(.stop)
  }

  /// Waits until the thread of `start()` has ended. Not from the loop's own thread.
  @available(*, noasync)
  package func join() {
    precondition(!isOnLoop, "a loop cannot wait for itself")
    thread.withLock { thread in
      guard let running = thread else { return }
      pthread_join(running, nil)
      thread = nil
    }
  }

  private func begin() {
    precondition(simulation == nil, "a simulation takes the turns of loop \(name)")
    let (begun, _) = stage.compareExchange(
      expected: .created, desired: .running, ordering: .acquiringAndReleasing)
    precondition(begun, "a loop runs once")
  }

  fileprivate func runToEnd() {
    threadID.store(pthread_self(), ordering: .releasing)
    unsafe uv_run(uv, UV_RUN_DEFAULT)
    takesHandles = false
    drain(limit: .max)
    onTurnEnd?()
    onTurnEnd = nil
    onWake = nil
    closeSockets()
    unsafe Handles.closeAll(of: uv)
    // Now only closing handles and pending resolutions keep the loop running.
    unsafe uv_unref(Handles.base(turn))
    unsafe uv_unref(Handles.base(again))
    unsafe uv_unref(Handles.base(watch))
    unsafe uv_unref(Handles.base(watchFirst))
    unsafe uv_run(uv, UV_RUN_DEFAULT)

    queue.withLock { $0.phase = .closing }
    while wakesInFlight.load(ordering: .acquiring) > 0 { sched_yield() }
    closeLoop()
    stage.store(.closed, ordering: .releasing)
    drainAfterEnd()
  }

  /// Closes the loop's own handles, then the loop itself, which proves that no handle was left open.
  private func closeLoop() {
    unsafe uv_close(Handles.base(turn), nil)
    unsafe uv_close(Handles.base(again), nil)
    unsafe uv_close(Handles.base(watch), nil)
    unsafe uv_close(Handles.base(watchFirst), nil)
    unsafe uv_run(uv, UV_RUN_DEFAULT)
    check(unsafe uv_loop_close(uv), "uv_loop_close")
    epoll.close()
    firstEpoll.close()
  }

  // MARK: Time

  /// Milliseconds of the monotonic clock, as of the start of this turn. Confined.
  package var nowMilliseconds: UInt64 {
    if let simulation { return simulation.nowMilliseconds }
    return unsafe uv_now(uv)
  }

  /// Reads the monotonic clock again: call it after long work in one turn, before starting timers. Confined.
  package func updateNow() {
    if let simulation { return simulation.updateNow() }
    unsafe uv_update_time(uv)
  }

  /// Milliseconds since 1970, by the clock of the machine; a simulated loop has its own clock.
  package var wallMilliseconds: Int64 {
    simulation?.system.wallClockMilliseconds ?? Self.wallClockMilliseconds()
  }

  /// The monotonic clock of all real loops, for threads without a loop.
  package static func monotonicMilliseconds() -> UInt64 { uv_hrtime() / 1_000_000 }

  /// Milliseconds since 1970; the operator or NTP may set this clock forwards and backwards.
  package static func wallClockMilliseconds() -> Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  // MARK: Confinement

  /// Whether the caller runs on the loop.
  package var isOnLoop: Bool { threadID.load(ordering: .relaxed) == pthread_self() }

  /// Whether the caller may use what belongs to the loop.
  var isConfined: Bool { isOnLoop || stage.load(ordering: .acquiring) == .created }

  /// Whether the loop has ended and all handles are closed.
  var isClosed: Bool { stage.load(ordering: .acquiring) == .closed }

  func preconditionConfined() {
    precondition(isConfined, "used off the thread of loop \(name): use perform(_:)")
  }

  // MARK: Turns

  /// Called between the callbacks of a turn and the loop's sleep.
  fileprivate func turnEnds() {
    hasServedSockets = false
    let sawEmpty = drain(limit: Self.workPerTurn)
    onTurnEnd?()
    let mustGoAgain = !sawEmpty || hasLocalWork
    guard mustGoAgain != isGoingAgain else { return }
    isGoingAgain = mustGoAgain
    // An active idle handle makes libuv poll without sleeping, without a system call.
    if mustGoAgain {
      unsafe uv_idle_start(again) { _ in }
    } else {
      unsafe uv_idle_stop(again)
    }
  }

  /// Called under the queue's lock by a thread that will call `sendWake()`.
  func announceWake() { wakesInFlight.add(1, ordering: .relaxed) }

  func sendWake() {
    if let simulation { simulation.system.wake(self) } else { epoll.wake() }
    wakesInFlight.subtract(1, ordering: .releasing)
  }

  /// Once only: the loop runs for a moment longer to close itself.
  func stopAfterThisTurn() { if takesHandles { unsafe uv_stop(uv) } }

  /// Makes the calling thread the loop's, for work that arrived after its end.
  func becomeLoopThread() { threadID.store(pthread_self(), ordering: .releasing) }
  func leaveLoopThread() { threadID.store(0, ordering: .releasing) }
}

/// Traps with libuv's message: for calls that fail only if the process cannot continue, or because of a bug here.
func check(_ code: Int32, _ operation: StaticString) {
  precondition(code == 0, "\(operation): \(errorText(-code))")
}

private func endTurn(_ handle: UnsafeMutablePointer<uv_prepare_t>?) {
  guard let data = unsafe handle?.pointee.loop.pointee.data else { return }
  unsafe Unmanaged<EventLoop>.fromOpaque(data).takeUnretainedValue().turnEnds()
}

private func socketsReady(_ watch: UnsafeMutablePointer<uv_poll_t>?, _: Int32, _: Int32) {
  guard let data = unsafe watch?.pointee.loop.pointee.data else { return }
  unsafe Unmanaged<EventLoop>.fromOpaque(data).takeUnretainedValue().serveSockets()
}

private func runLoopThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let argument = unsafe argument else { return nil }
  let loop = unsafe Unmanaged<EventLoop>.fromOpaque(argument).takeRetainedValue()
  let name = String(loop.name.utf8.prefix(15)) ?? "loop"
  _ = unsafe cuv_pthread_setname(pthread_self(), name)
  loop.runToEnd()
  return nil
}
