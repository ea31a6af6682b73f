public import ApusModel
import Synchronization

/// What became of one push of many.
public struct BinarySendResult: Sendable {
  /// The push's place among those that were given, from 0.
  public var index: Int
  /// The push's own id, or the one that it was given.
  public var id: NotificationID
  /// The outcome, or what is wrong with the push: then nothing was sent.
  public var outcome: Result<SendOutcome, PushRequestError>
}

/// The outcomes of many pushes, in the order in which they come.
///
/// While nobody asks for them, no more pushes are taken from their source than the client has room for. It ends when
/// each push that was taken has its outcome; a source that fails throws its error then. To be iterated once. Who stops
/// before its end stops the sending: pushes that are under way go on, and nobody hears of them.
public struct BinarySendResults: AsyncSequence, Sendable {
  public typealias Element = BinarySendResult
  public typealias Failure = any Error

  let bulk: BulkSend

  public func makeAsyncIterator() -> Iterator { Iterator(bulk) }

  public final class Iterator: AsyncIteratorProtocol {
    private let bulk: BulkSend
    private var ready: [BinarySendResult] = []
    private var head = 0

    init(_ bulk: BulkSend) { self.bulk = bulk }

    deinit { bulk.abandon() }

    public func next() async throws -> BinarySendResult? {
      if head == ready.count {
        head = 0
        try await bulk.take(into: &ready)
        if ready.isEmpty { return nil }
      }
      defer { head += 1 }
      return ready[head]
    }

    public func next(
      isolation actor: isolated (any Actor)?
    ) async throws -> BinarySendResult? {
      if head == ready.count {
        head = 0
        try await bulk.take(into: &ready)
        if ready.isEmpty { return nil }
      }
      defer { head += 1 }
      return ready[head]
    }
  }
}

/// The two ends of a bulk: who gives pushes, and who takes outcomes.
final class BulkSend: Sendable {
  private struct State {
    var results: [BinarySendResult] = []
    /// Pushes that were taken from the source and have no outcome.
    var openCount = 0
    /// Those and the outcomes that nobody has taken.
    var unclaimed: Int { openCount + results.count }
    var lastID = UInt64.random(in: 0...UInt64.max)
    var isSourceDone = false
    var isAbandoned = false
    var failure: (any Error)?
    var reader: CheckedContinuation<Void, Never>?
    var writer: CheckedContinuation<Void, Never>?
    /// Called once every push that was taken has its outcome, and no more will be.
    var onSettled: (@Sendable () -> Void)?

    var isSettled: Bool { isSourceDone && openCount == 0 }

    /// Who is to be told of a change that brings results or the end.
    mutating func wake() -> Woken {
      Woken(reader: reader.take(), onSettled: isSettled ? onSettled.take() : nil)
    }
  }

  private struct Woken {
    var reader: CheckedContinuation<Void, Never>?
    var onSettled: (@Sendable () -> Void)?

    func callAsFunction() {
      onSettled?()
      reader?.resume()
    }
  }

  private let state = Mutex(State())
  /// Pushes that may be on their way from the source to who takes the outcomes.
  private let limit: Int
  private let idBase = UInt64.random(in: 0...UInt64.max)

  init(limit: Int) { self.limit = limit }

  // MARK: The source's side

  func start(onSettled: @escaping @Sendable () -> Void) {
    state.withLock { $0.onSettled = onSettled }
  }

  /// Waits until one more may be taken from the source; false when nobody wants the outcomes any more.
  func waitForRoom() async -> Bool {
    let (isFull, isWanted) = state.withLock { ($0.unclaimed >= limit, !$0.isAbandoned) }
    guard isFull, isWanted else { return isWanted }
    await withCheckedContinuation { continuation in
      let mustWait = state.withLock { state in
        guard state.unclaimed >= limit, !state.isAbandoned else { return false }
        state.writer = continuation
        return true
      }
      if !mustWait { continuation.resume() }
    }
    return state.withLock { !$0.isAbandoned }
  }

  /// An id for a push that has none. It is not sent, so that it need not be unguessable: it only has to differ.
  func nextID() -> NotificationID {
    state.withLock { state in
      state.lastID &+= 1
      return NotificationID(high: idBase, low: state.lastID)
    }
  }

  /// A push was taken from the source.
  func began() { state.withLock { $0.openCount += 1 } }

  /// The source has no more.
  func finish(_ failure: (any Error)?) {
    let woken = state.withLock { state in
      state.isSourceDone = true
      state.failure = failure
      return state.wake()
    }
    woken()
  }

  // MARK: Outcomes

  func deliver(
    _ settled: ArraySlice<SentQueue.Settled>, outcome: (SentQueue.Settled) -> SendOutcome
  ) {
    let woken = state.withLock { state in
      state.openCount -= settled.count
      if !state.isAbandoned {
        for one in settled {
          let number = Int(one.ticket & OutcomeDesk.numberMask)
          state.results.append(
            BinarySendResult(index: number, id: one.id, outcome: .success(outcome(one))))
        }
      }
      return state.wake()
    }
    woken()
  }

  /// A push that cannot be sent.
  func refuse(_ result: BinarySendResult) {
    let woken = state.withLock { state in
      state.openCount -= 1
      if !state.isAbandoned { state.results.append(result) }
      return state.wake()
    }
    woken()
  }

  /// Waits for outcomes and puts them in place of what `ready` has: nothing, when there will be no more.
  func take(into ready: inout [BinarySendResult]) async throws {
    ready.removeAll(keepingCapacity: true)
    while true {
      var taken: [BinarySendResult] = []
      swap(&taken, &ready)
      let (full, writer) = state.withLock { state in
        swap(&taken, &state.results)
        return (taken, state.unclaimed < limit ? state.writer.take() : nil)
      }
      writer?.resume()
      ready = full
      if !ready.isEmpty { return }
      let (isOver, failure) = state.withLock { state -> (Bool, (any Error)?) in
        guard state.isSettled, state.results.isEmpty else { return (false, nil) }
        return (true, state.failure.take())
      }
      if let failure { throw failure }
      if isOver { return }
      await waitForResults()
    }
  }

  private func waitForResults() async {
    await withCheckedContinuation { continuation in
      let mustWait = state.withLock { state in
        guard state.results.isEmpty, !state.isSettled else { return false }
        state.reader = continuation
        return true
      }
      if !mustWait { continuation.resume() }
    }
  }

  /// Nobody takes outcomes any more.
  func abandon() {
    let writer = state.withLock { state in
      state.isAbandoned = true
      state.results = []
      return state.writer.take()
    }
    writer?.resume()
  }
}
