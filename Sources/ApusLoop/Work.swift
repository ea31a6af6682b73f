import Glibc
import Synchronization

/// An item of queued work.
enum Work: Sendable {
  case job(UnownedJob)
  case body(@Sendable () -> Void)
  case inbox(any Deliverable)
  case stop
  case done
}

/// The work queued since the loop last looked, under a lock.
struct WorkQueue {
  var items: [Work] = []
  /// Whether the loop sleeps, or will, without having seen new work: a producer that finds this set wakes it.
  var isAsleep = true
  var phase = Phase.open

  enum Phase {
    /// The loop runs, or will.
    case open
    /// The loop's thread closes the handles and then checks the queue once more.
    case closing
    /// The loop has ended; a thread is processing later work.
    case closedBusy
    /// The loop has ended and nothing waits.
    case closedIdle
  }
}

extension EventLoop {
  package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    unsafe UnownedSerialExecutor(ordinary: self)
  }

  package func enqueue(_ job: UnownedJob) {
    enqueue(.job(job))
  }

  /// Runs `body` on the loop, in order with everything else that is queued; from any thread. For control, not for
  /// messages: those use an `Inbox`.
  package func perform(_ body: @Sendable @escaping () -> Void) {
    enqueue(.body(body))
  }

  package func checkIsolated() {
    precondition(isOnLoop, "not on the thread of loop \(name)")
  }

  package func isIsolatingCurrentContext() -> Bool? {
    isOnLoop
  }

  func enqueue(_ work: Work) {
    enum Then { case nothing, wake, startThread }
    let isLocal = isOnLoop
    let then = queue.withLock { queue -> Then in
      queue.items.append(work)
      switch queue.phase {
      case .open:
        guard !isLocal, queue.isAsleep else { return .nothing }
        queue.isAsleep = false
        announceWake()
        return .wake
      case .closing, .closedBusy:
        return .nothing
      case .closedIdle:
        queue.phase = .closedBusy
        return .startThread
      }
    }
    if isLocal { hasLocalWork = true }
    switch then {
    case .nothing: break
    case .wake: sendWake()
    case .startThread: startThreadAfterEnd()
    }
  }

  /// Processes at most `limit` items of work.
  ///
  /// - Returns: Whether the queue was empty, and so marked for producers to wake the loop. If not, no producer will:
  ///   the loop must not sleep.
  @discardableResult
  func drain(limit: Int) -> Bool {
    var left = limit
    while left > 0 {
      if batchCursor == batch.count {
        batch.removeAll(keepingCapacity: true)
        batchCursor = 0
        hasLocalWork = false
        queue.withLock { queue in
          swap(&queue.items, &batch)
          queue.isAsleep = batch.isEmpty
        }
        if batch.isEmpty { return true }
      }
      doNext()
      left -= 1
    }
    return false
  }

  private func doNext() {
    var work = Work.done
    swap(&work, &batch[batchCursor])
    batchCursor += 1
    switch work {
    case .job(let job): unsafe job.runSynchronously(on: asUnownedSerialExecutor())
    case .body(let body): body()
    case .inbox(let inbox): inbox.deliver()
    case .stop: stopAfterThisTurn()
    case .done: break
    }
  }

  /// A stopped loop still processes queued work, one item at a time, so that no task waits for ever for an actor whose
  /// loop has ended. Everything that the actor had on the loop is closed by then.
  func drainAfterEnd() {
    becomeLoopThread()
    while true {
      drain(limit: .max)
      let isDone = queue.withLock { queue in
        guard queue.items.isEmpty else { return false }
        leaveLoopThread()
        queue.phase = .closedIdle
        return true
      }
      if isDone { return }
    }
  }

  /// Not on the caller's own thread: it may be inside a task, and jobs do not nest.
  private func startThreadAfterEnd() {
    var thread = pthread_t()
    let loop = unsafe Unmanaged.passRetained(self).toOpaque()
    let code = unsafe pthread_create(&thread, nil, runAfterEnd, loop)
    precondition(code == 0, "pthread_create for the remaining work of loop \(name): error \(code)")
    pthread_detach(thread)
  }
}

private func runAfterEnd(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let argument = unsafe argument else { return nil }
  unsafe Unmanaged<EventLoop>.fromOpaque(argument).takeRetainedValue().drainAfterEnd()
  return nil
}
