import Synchronization

/// One bulk send, shared by the feeding task, the client's loop and the reading task.
///
/// A bounded number of `PendingSend`s circulates: the feeder fills them, the loop sends them, the reader reads them and
/// returns them. A million pushes therefore need no more memory than the bound, and a fast party waits for the slow
/// ones. Each hand-over takes one lock for a whole batch. The loop is woken only after it ran out of pushes, and a task
/// only while it waits.
final class BulkJob: @unchecked Sendable {
  private struct State {
    /// Filled, for the loop.
    var waiting: [BulkPush] = []
    /// With an outcome, for the reader.
    var finished: [BulkPush] = []
    /// Free, for the feeder.
    var vacant: [BulkPush] = []
    /// All pushes that were created.
    var made: [PendingSend] = []
    /// Pushes that the feeder submitted and the reader has not returned.
    var openCount = 0
    /// Whether the loop must be told of the next push.
    var isLoopWaiting = true
    var feeder: CheckedContinuation<Void, Never>?
    var reader: Reader?
    var hasInputEnded = false
    var failure: (any Error)?
    /// Set when nobody reads the outcomes any more, or the client is closed: no more pushes are taken.
    var ending: UnknownCause?
    var task: Task<Void, Never>?

    var isOver: Bool { hasInputEnded && openCount == 0 }
  }

  /// Who waits for outcomes.
  private enum Reader {
    case task(CheckedContinuation<Void, Never>)
    case thread(@Sendable () -> Void)

    func wake() {
      switch self {
      case .task(let continuation): continuation.resume()
      case .thread(let wake): wake()
      }
    }
  }

  /// Most pushes between the sequence and the reader.
  let capacity: Int
  private let timeoutMilliseconds: UInt64
  /// Whether there is no end of input: the loop forgets the bulk send while it has no pushes.
  private let isEndless: Bool
  private let state = Mutex(State())
  /// Tells the loop that there are pushes. False if the loop has ended.
  private let wake: @Sendable (BulkJob) -> Bool

  // Used by the loop only.
  private var taken: [BulkPush] = []
  private var takenHead = 0
  private var collected: [BulkPush] = []
  /// Pushes on the loop without an outcome.
  private var openOnLoop = 0
  private var mayHaveMore = false
  private(set) var isOver = false

  init(
    capacity: Int, timeoutMilliseconds: UInt64, isEndless: Bool = false,
    wake: @escaping @Sendable (BulkJob) -> Bool
  ) {
    self.isEndless = isEndless
    self.capacity = capacity
    self.timeoutMilliseconds = timeoutMilliseconds
    self.wake = wake
  }
}

// MARK: The feeder

extension BulkJob {
  enum Vacancy {
    /// The array has some; take them from its end.
    case some
    /// Wait with ``waitForVacancy()``.
    case none
    /// No more pushes are taken.
    case over
  }

  /// How many pushes the feeder takes at once.
  private static let portion = 32

  /// Fills `pushes`, which must be empty.
  func vacancies(_ pushes: inout [BulkPush]) -> Vacancy {
    state.withLock { state in
      if state.ending != nil { return .over }
      while pushes.count < Self.portion, let vacant = state.vacant.popLast() {
        pushes.append(vacant)
      }
      if !pushes.isEmpty { return .some }
      guard state.made.count < capacity else { return .none }
      let send = PendingSend(bulk: self, timeoutMilliseconds: timeoutMilliseconds)
      state.made.append(send)
      pushes.append(BulkPush(send))
      return .some
    }
  }

  /// Waits until half of the pushes are free, so that the two tasks do not wake each other for every push.
  func waitForVacancy() async {
    await withCheckedContinuation { continuation in
      let isNeeded = state.withLock { state in
        guard state.ending == nil, state.vacant.count < max(1, capacity / 2) else { return false }
        state.feeder = continuation
        return true
      }
      if !isNeeded { continuation.resume() }
    }
  }

  /// Passes a filled push to the loop.
  func submit(_ send: PendingSend) {
    let (mustWake, cause) = state.withLock { state -> (Bool, UnknownCause?) in
      state.openCount += 1
      if let ending = state.ending { return (false, ending) }
      state.waiting.append(BulkPush(send))
      defer { state.isLoopWaiting = false }
      return (state.isLoopWaiting, nil)
    }
    if let cause {
      send.result = .success(.unknown(cause, retryMayDuplicate: false))
      giveToReader(send)
    } else if mustWake, !wake(self) {
      end(UnknownCause(.clientClosed))
    }
  }

  /// Passes filled pushes to the loop, and empties the array.
  func submit(_ pushes: inout [BulkPush]) {
    var moved: [BulkPush] = []
    swap(&moved, &pushes)
    let (mustWake, cause) = state.withLock { state -> (Bool, UnknownCause?) in
      state.openCount += moved.count
      if let ending = state.ending { return (false, ending) }
      state.waiting.append(contentsOf: moved)
      defer { state.isLoopWaiting = false }
      return (state.isLoopWaiting, nil)
    }
    if let cause {
      for push in moved {
        push.send.result = .success(.unknown(cause, retryMayDuplicate: false))
        giveToReader(push.send)
      }
    } else if mustWake, !wake(self) {
      end(UnknownCause(.clientClosed))
    }
    moved.removeAll(keepingCapacity: true)
    swap(&moved, &pushes)
  }

  /// Reports an invalid push.
  func reject(_ send: PendingSend, _ error: PushRequestError) {
    send.result = .failure(error)
    state.withLock { $0.openCount += 1 }
    giveToReader(send)
  }

  private func giveToReader(_ send: PendingSend) {
    let reader = state.withLock { state in
      state.finished.append(BulkPush(send))
      return state.reader.take()
    }
    reader?.wake()
  }

  /// The sequence has ended.
  func inputEnded(failure: (any Error)?) {
    let reader = state.withLock { state in
      state.hasInputEnded = true
      state.failure = failure
      return state.reader.take()
    }
    reader?.wake()
    // The loop forgets a finished bulk send the next time it is woken.
    _ = wake(self)
  }
}

// MARK: The loop

extension BulkJob {
  /// The feeder has submitted pushes.
  func hasMore() { mayHaveMore = true }

  /// The next push for a stream.
  func first() -> PendingSend? {
    while true {
      while takenHead < taken.count {
        let send = taken[takenHead].send
        if !send.isFinished { return send }
        takenHead += 1
      }
      guard mayHaveMore else { return nil }
      taken.removeAll(keepingCapacity: true)
      takenHead = 0
      state.withLock { state in
        swap(&taken, &state.waiting)
        state.isLoopWaiting = taken.isEmpty
      }
      mayHaveMore = !taken.isEmpty
      openOnLoop += taken.count
    }
  }

  func dropFirst() { takenHead += 1 }

  func takeAll() -> [PendingSend] {
    var all: [PendingSend] = []
    while let send = first() {
      all.append(send)
      dropFirst()
    }
    return all
  }

  var waitingCount: Int { taken.count - takenHead + state.withLock { $0.waiting.count } }

  /// A push has its outcome.
  func collect(_ send: PendingSend) {
    collected.append(BulkPush(send))
    openOnLoop -= 1
  }

  /// Hands the collected pushes to the reader.
  func deliver() {
    let reader = state.withLock { state in
      let expectsMore = isEndless ? !state.isLoopWaiting : !state.hasInputEnded
      isOver = !expectsMore && state.waiting.isEmpty && openOnLoop == 0
      guard !collected.isEmpty else { return nil as Reader? }
      if state.finished.isEmpty {
        swap(&state.finished, &collected)
      } else {
        state.finished.append(contentsOf: collected)
      }
      return state.reader.take()
    }
    collected.removeAll(keepingCapacity: true)
    reader?.wake()
  }

  /// The client is closed: waiting pushes get their outcome, and later ones get it immediately.
  func abandon() {
    end(UnknownCause(.clientClosed))
    deliver()
  }

  /// Takes no more pushes; waiting ones end with `cause`, as certainly not sent.
  private func end(_ cause: UnknownCause) {
    let (task, feeder, reader) = state.withLock { state in
      if state.ending == nil { state.ending = cause }
      // After cancellation nobody reads what a sequence still produces if it ignores cancellation.
      if cause.code == .cancelled { state.hasInputEnded = true }
      for push in state.waiting {
        push.send.result = .success(.unknown(cause, retryMayDuplicate: false))
      }
      state.finished.append(contentsOf: state.waiting)
      state.waiting = []
      let reader = state.finished.isEmpty && !state.isOver ? nil : state.reader.take()
      return (state.task.take(), state.feeder.take(), reader)
    }
    task?.cancel()
    feeder?.resume()
    reader?.wake()
  }
}

// MARK: The reader

extension BulkJob {
  enum Reading {
    /// The array has outcomes.
    case some
    case none
    case over((any Error)?)
  }

  /// Returns the pushes that were read, and takes those with outcomes.
  func exchange(_ pushes: inout [BulkPush]) -> Reading {
    for push in pushes { push.send.reuse() }
    let (reading, feeder) = state.withLock {
      state -> (Reading, CheckedContinuation<Void, Never>?) in
      state.openCount -= pushes.count
      state.vacant.append(contentsOf: pushes)
      pushes.removeAll(keepingCapacity: true)
      swap(&pushes, &state.finished)
      let feeder = state.vacant.count >= max(1, capacity / 2) ? state.feeder.take() : nil
      if !pushes.isEmpty { return (.some, feeder) }
      return (state.isOver ? .over(state.failure) : .none, feeder)
    }
    feeder?.resume()
    return reading
  }

  /// Waits until there are outcomes, or no more will come.
  func waitForOutcomes() async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isNeeded = state.withLock { state in
          guard state.finished.isEmpty, !state.isOver else { return false }
          state.reader = .task(continuation)
          return true
        }
        if !isNeeded { continuation.resume() }
      }
    } onCancel: {
      cancel()
    }
  }

  /// Lets `wake` be called once, on any thread, when there are outcomes. False if there are some already.
  func callForOutcomes(_ wake: @escaping @Sendable () -> Void) -> Bool {
    state.withLock { state in
      guard state.finished.isEmpty else { return false }
      state.reader = .thread(wake)
      return true
    }
  }

  /// Sets the feeding task.
  func setTask(_ task: Task<Void, Never>) {
    let isTooLate = state.withLock { state in
      state.task = task
      return state.ending != nil
    }
    if isTooLate { task.cancel() }
  }

  /// Stops the feeder; pushes without an outcome end as cancelled.
  func cancel() {
    end(UnknownCause(.cancelled))
    _ = wake(self)
  }

  /// Whether ``cancel()`` was called. The loop checks it when it is woken.
  var isCancelled: Bool { state.withLock { $0.ending?.code == .cancelled } }
}
