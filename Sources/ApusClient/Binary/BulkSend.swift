import ApusModel
import Synchronization

/// The outcomes of many pushes over the binary interface as they become known: one for each, in no particular order.
///
/// The sequence of pushes is read as fast as pushes are sent and outcomes are read, and at most a bounded number ahead.
/// If the sequence throws, the error follows the outcomes of all earlier pushes. Sending starts when the first outcome
/// is requested. If the outcomes are no longer read, no more pushes are taken; those already taken are sent. Each
/// iterator sends all pushes again.
public struct BinarySendOutcomes<Requests: AsyncSequence & Sendable>: AsyncSequence, Sendable
where Requests.Element == PushRequest {
  public typealias Element = BulkOutcome
  public typealias Failure = Requests.Failure

  let client: BinaryClient
  let requests: Requests

  public func makeAsyncIterator() -> Iterator { Iterator(client, requests) }

  public final class Iterator: AsyncIteratorProtocol {
    private let client: BinaryClient
    private let requests: Requests
    private var bulk: BulkSend?
    // Reading is inlined into the calling program: a call would cost as much as encoding a push.
    @usableFromInline var ready: [BulkOutcome] = []
    @usableFromInline var head = 0

    init(_ client: BinaryClient, _ requests: Requests) {
      self.client = client
      self.requests = requests
    }

    deinit { bulk?.abandon() }

    @inlinable
    public func next() async throws(Failure) -> BulkOutcome? {
      if head == ready.count { try await refill(nil) }
      return take()
    }

    @inlinable
    public func next(
      isolation actor: isolated (any Actor)?
    ) async throws(Failure) -> BulkOutcome? {
      if head == ready.count { try await refill(actor) }
      return take()
    }

    @inlinable
    func take() -> BulkOutcome? {
      guard head < ready.count else { return nil }
      defer { head += 1 }
      return ready[head]
    }

    @usableFromInline
    func refill(_ actor: isolated (any Actor)?) async throws(Failure) {
      let bulk = bulk ?? client.begin(requests)
      self.bulk = bulk
      head = 0
      let failure = await withTaskCancellationHandler {
        await bulk.take(into: &ready, isolation: actor)
      } onCancel: {
        bulk.abandon()
      }
      if let failure = failure as? Failure { throw failure }
    }
  }
}

/// The two ends of a bulk send: the source of pushes, and the reader of outcomes.
final class BulkSend: Sendable {
  private struct State {
    var results: [BulkOutcome] = []
    /// Pushes taken from the source, or claimed, without an outcome.
    var openCount = 0
    /// Those plus the outcomes that have not been read.
    var unclaimed: Int { openCount + results.count }
    var lastID = UInt64.random(in: 0...UInt64.max)
    var isSourceDone = false
    var isAbandoned = false
    var failure: (any Error)?
    var reader: CheckedContinuation<Void, Never>?
    var writer: CheckedContinuation<Void, Never>?
    /// Called once every push has its outcome and no more will be taken.
    var onSettled: (@Sendable () -> Void)?

    var isSettled: Bool { isSourceDone && openCount == 0 }
    /// Whether there is nothing more to read.
    var isOver: Bool { isAbandoned || isSettled && results.isEmpty }

    /// Who must be woken after a change that brings results or the end.
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
  /// A copy for reading without the lock.
  private let abandoned = Atomic(false)
  /// Most pushes between the source and the reader.
  private let limit: Int
  private let idBase = UInt64.random(in: 0...UInt64.max)

  init(limit: Int) { self.limit = limit }

  // MARK: The source's side

  func start(onSettled: @escaping @Sendable () -> Void) {
    state.withLock { $0.onSettled = onSettled }
  }

  enum Claim {
    /// Room for `count` more pushes. Those without an id get `firstID` and the ids after it. These ids are not sent, so
    /// they only have to differ, not be unguessable.
    case room(count: Int, firstID: NotificationID)
    /// Wait with ``waitForRoom()``.
    case full
    /// Nobody wants the outcomes any more.
    case over
  }

  /// Claims room for the next pushes before they exist, because each access to the state costs as much as encoding a
  /// push. Unused room is returned at the end.
  func claim() -> Claim {
    state.withLock { state in
      guard !state.isAbandoned else { return .over }
      let count = min(limit - state.unclaimed, Self.claimedAtOnce)
      guard count > 0 else { return .full }
      state.openCount += count
      defer { state.lastID &+= UInt64(count) }
      return .room(count: count, firstID: NotificationID(high: idBase, low: state.lastID &+ 1))
    }
  }

  private static let claimedAtOnce = 64

  /// Whether nobody wants the outcomes any more.
  var isAbandoned: Bool { abandoned.load(ordering: .relaxed) }

  func waitForRoom() async {
    await withCheckedContinuation { continuation in
      let mustWait = state.withLock { state in
        guard state.unclaimed >= limit, !state.isAbandoned else { return false }
        state.writer = continuation
        return true
      }
      if !mustWait { continuation.resume() }
    }
  }

  /// The source has ended; `unused` is the rest of the last claim.
  func finish(_ failure: (any Error)?, unused: Int = 0) {
    let woken = state.withLock { state in
      state.openCount -= unused
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
          let number = Int(one.ticket & PendingOutcomes.numberMask)
          state.results.append(
            BulkOutcome(index: number, apnsID: one.id, result: .success(outcome(one))))
        }
      }
      return state.wake()
    }
    woken()
  }

  /// Reports an invalid push.
  func refuse(_ result: BulkOutcome) {
    let woken = state.withLock { state in
      state.openCount -= 1
      if !state.isAbandoned { state.results.append(result) }
      return state.wake()
    }
    woken()
  }

  /// Waits for outcomes and replaces the contents of `ready` with them; empty at the end. Then the source's error, if
  /// any, is returned once.
  func take(
    into ready: inout [BulkOutcome], isolation actor: isolated (any Actor)?
  ) async -> (any Error)? {
    ready.removeAll(keepingCapacity: true)
    while true {
      var taken: [BulkOutcome] = []
      swap(&taken, &ready)
      let (full, writer) = state.withLock { state in
        swap(&taken, &state.results)
        return (taken, state.unclaimed <= limit / 2 ? state.writer.take() : nil)
      }
      writer?.resume()
      ready = full
      if !ready.isEmpty { return nil }
      let (isOver, failure) = state.withLock { state -> (Bool, (any Error)?) in
        guard state.isOver else { return (false, nil) }
        return (true, state.failure.take())
      }
      if isOver { return failure }
      await waitForResults(isolation: actor)
    }
  }

  private func waitForResults(isolation actor: isolated (any Actor)?) async {
    await withCheckedContinuation { continuation in
      let mustWait = state.withLock { state in
        guard state.results.isEmpty, !state.isOver else { return false }
        state.reader = continuation
        return true
      }
      if !mustWait { continuation.resume() }
    }
  }

  /// Nobody reads outcomes any more.
  func abandon() {
    abandoned.store(true, ordering: .relaxed)
    let (reader, writer) = state.withLock { state in
      state.isAbandoned = true
      state.results = []
      return (state.reader.take(), state.writer.take())
    }
    reader?.resume()
    writer?.resume()
  }
}
