import ApusModel
import ApusThread
import Glibc

/// A submitted group, with its completion.
struct Submission: Sendable {
  /// `WriteGroup.bytes`. Empty if the group was refused.
  var bytes: [UInt8]
  var count: Int
  /// Why the group was refused on submission.
  var refusal: StoreError?
  var submittedMilliseconds = monotonicMilliseconds()
  var completion: @Sendable (StoreError?) -> Void
}

/// The queue of groups between the workers, which submit, and the commit thread, which takes.
final class CommitQueue: Sendable {
  /// The commit thread's next step.
  enum Turn {
    /// Write these, in this order.
    case write([Submission])
    /// The deadline passed and nothing is waiting.
    case timeout
    /// Closed, and everything submitted before was taken.
    case finish
  }

  private struct State {
    /// The first `taken` were taken: nil, so that nothing else references the buffers of a batch.
    var pending: [Submission?] = []
    var taken = 0
    var pendingBytes = 0
    var isHeld = false
    var isClosing = false
    var isFinished = false
    var spare: [[UInt8]] = []
    var consumer: pthread_t?
    var figures = CommitFigures()

    var isAllTaken: Bool { taken == pending.count }
  }

  private let state = Monitor(State())
  private let maximumPendingBytes: Int
  private let mergeBytes: Int

  /// Empty buffers kept for new groups.
  private static let spareBuffers = 64
  /// Larger buffers are freed instead of kept.
  private static let spareBufferBytes = 1024 * 1024

  /// - Parameters:
  ///   - maximumPendingBytes: Bytes of groups that may wait before new ones are refused.
  ///   - mergeBytes: Bytes of groups taken in one turn; one group is always taken, whatever its size.
  init(maximumPendingBytes: Int, mergeBytes: Int) {
    self.maximumPendingBytes = maximumPendingBytes
    self.mergeBytes = mergeBytes
  }

  // MARK: Workers

  func makeGroup() -> WriteGroup {
    WriteGroup(recycling: state.withLock { $0.spare.popLast() } ?? [])
  }

  func submit(
    _ group: consuming WriteGroup, completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    WriteRecord.setCount(group.count, in: &group.bytes)
    let submission = Submission(bytes: group.bytes, count: group.count, completion: completion)
    let isTaken = state.notify { state in
      guard !state.isClosing else { return false }
      enqueue(submission, &state)
      return true
    }
    if !isTaken { completion(.closed) }
  }

  private func enqueue(_ submission: Submission, _ state: inout State) {
    var submission = submission
    let size = submission.bytes.count
    // A group alone is always accepted; otherwise one larger than the bound could never be written.
    if state.pendingBytes > 0, state.pendingBytes + size > maximumPendingBytes {
      submission.refusal = .overloaded(
        pendingBytes: state.pendingBytes, maximumPendingBytes: maximumPendingBytes)
      submission.bytes = []
      submission.count = 0
    } else {
      state.pendingBytes += size
    }
    state.pending.append(submission)
  }

  /// Refuses further groups, and waits until the consumer has called `finish`.
  func close() {
    state.notify { state in
      state.isClosing = true
      state.isHeld = false
    }
    state.wait { state -> Monitor<State>.Look<Void> in
      let isOwnThread = state.consumer.map { pthread_equal($0, pthread_self()) != 0 } ?? false
      return state.isFinished || isOwnThread ? .found(()) : .wait(untilMilliseconds: nil)
    }
  }

  // MARK: Tests

  /// Holds submitted groups until `release` or `close`.
  func hold() { state.withLock { $0.isHeld = true } }

  func release() { state.notify { $0.isHeld = false } }

  /// Groups that wait.
  var pendingCount: Int { state.withLock { $0.pending.count - $0.taken } }

  // MARK: The commit thread

  /// Marks the calling thread as the consumer.
  func adopt() { state.withLock { $0.consumer = pthread_self() } }

  /// Waits for something to do, at most until `deadline` if given.
  func next(until deadline: Deadline? = nil) -> Turn {
    state.wait { state in
      guard state.isHeld || state.isAllTaken else { return .found(.write(take(from: &state))) }
      if state.isClosing, state.isAllTaken { return .found(.finish) }
      if let deadline, deadline.isPast { return .found(.timeout) }
      return .wait(untilMilliseconds: deadline?.milliseconds)
    }
  }

  /// Takes the waiting groups, up to `mergeBytes`, and at least one.
  private func take(from state: inout State) -> [Submission] {
    var batch: [Submission] = []
    var size = 0
    while !state.isAllTaken {
      let next = state.pending[state.taken]?.bytes.count ?? 0
      if !batch.isEmpty && size + next > mergeBytes { break }
      size += next
      if let submission = state.pending[state.taken].take() { batch.append(submission) }
      state.taken += 1
    }
    // Under load the queue is never empty, and its front must not grow for ever.
    if 2 * state.taken >= state.pending.count {
      state.pending.removeSubrange(..<state.taken)
      state.taken = 0
    }
    return batch
  }

  var figures: CommitFigures { state.withLock { $0.figures } }

  /// Calls the completions of `batch` in order, and keeps the buffers for new groups.
  func complete(_ batch: [Submission], with error: StoreError?) {
    let now = monotonicMilliseconds()
    var size = 0
    for submission in batch {
      size += submission.bytes.count
      submission.completion(submission.refusal ?? error)
    }
    state.withLock { state in
      count(batch, error, nowMilliseconds: now, in: &state.figures)
      state.pendingBytes -= size
      for submission in batch where state.spare.count < Self.spareBuffers {
        let capacity = submission.bytes.capacity
        if capacity > 0 && capacity <= Self.spareBufferBytes {
          state.spare.append(submission.bytes)
        }
      }
    }
  }

  private func count(
    _ batch: [Submission], _ error: StoreError?, nowMilliseconds: Int64,
    in figures: inout CommitFigures
  ) {
    for submission in batch where submission.count > 0 || submission.refusal != nil {
      if (submission.refusal ?? error) == nil {
        figures.durations.add(milliseconds: nowMilliseconds - submission.submittedMilliseconds)
      } else {
        figures.failedCount += 1
      }
    }
  }

  /// Refuses everything submitted within `milliseconds`. False once the store is being closed and nothing is left.
  func refuse(for milliseconds: Int64) -> Bool {
    let deadline = Deadline.after(milliseconds: milliseconds)
    while true {
      switch next(until: deadline) {
      case .write(let batch): complete(batch, with: .unavailable)
      case .timeout: return true
      case .finish: return false
      }
    }
  }

  /// Wakes the callers that wait in `close`.
  func finish() { state.notify { $0.isFinished = true } }
}
