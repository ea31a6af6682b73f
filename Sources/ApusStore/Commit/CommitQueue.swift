import Glibc

/// A submitted group, with its completion.
struct Submission: Sendable {
  /// `WriteGroup.bytes`. Empty if the group was refused.
  var bytes: [UInt8]
  var count: Int
  /// Why the group was refused on submission.
  var refusal: StoreError?
  var completion: @Sendable (StoreError?) -> Void
}

/// The queue of groups between the workers, which submit, and the commit thread, which takes.
final class CommitQueue: @unchecked Sendable {
  /// The commit thread's next step.
  enum Turn {
    /// Write these, in this order.
    case write([Submission])
    /// The deadline passed and nothing is waiting.
    case timeout
    /// Closed, and everything submitted before was taken.
    case finish
  }

  private let monitor = Monitor()
  private let maximumPendingBytes: Int
  private let mergeBytes: Int

  // Protected by the monitor.
  /// The first `taken` were taken: nil, so that nothing else references the buffers of a batch.
  private var pending: [Submission?] = []
  private var taken = 0
  private var pendingBytes = 0
  private var isHeld = false
  private var isClosing = false
  private var isFinished = false
  private var spare: [[UInt8]] = []
  private var consumer: pthread_t?

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
    monitor.lock()
    let buffer = spare.popLast()
    monitor.unlock()
    return WriteGroup(recycling: buffer ?? [])
  }

  func submit(
    _ group: consuming WriteGroup, completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    WriteRecord.setCount(group.count, in: &group.bytes)
    var submission = Submission(bytes: group.bytes, count: group.count, completion: completion)
    let size = submission.bytes.count
    monitor.lock()
    if isClosing {
      monitor.unlock()
      completion(.closed)
      return
    }
    // A group alone is always accepted; otherwise one larger than the bound could never be written.
    if pendingBytes > 0, pendingBytes + size > maximumPendingBytes {
      submission.refusal = .overloaded(
        pendingBytes: pendingBytes, maximumPendingBytes: maximumPendingBytes)
      submission.bytes = []
      submission.count = 0
    } else {
      pendingBytes += size
    }
    pending.append(submission)
    monitor.broadcast()
    monitor.unlock()
  }

  /// Refuses further groups, and waits until the consumer has called `finish`.
  func close() {
    monitor.lock()
    isClosing = true
    isHeld = false
    monitor.broadcast()
    let isOwnThread = consumer.map { pthread_equal($0, pthread_self()) != 0 } ?? false
    while !isFinished && !isOwnThread { monitor.wait() }
    monitor.unlock()
  }

  // MARK: Tests

  /// Holds submitted groups until `release` or `close`.
  func hold() {
    monitor.lock()
    isHeld = true
    monitor.unlock()
  }

  func release() {
    monitor.lock()
    isHeld = false
    monitor.broadcast()
    monitor.unlock()
  }

  /// Groups that wait.
  var pendingCount: Int {
    monitor.lock()
    defer { monitor.unlock() }
    return pending.count - taken
  }

  // MARK: The commit thread

  /// Marks the calling thread as the consumer.
  func adopt() {
    monitor.lock()
    consumer = pthread_self()
    monitor.unlock()
  }

  /// Waits for something to do, at most until `deadline` if given.
  func next(until deadline: Deadline? = nil) -> Turn {
    monitor.lock()
    defer { monitor.unlock() }
    while isHeld || taken == pending.count {
      if isClosing && taken == pending.count { return .finish }
      if let deadline {
        if deadline.isPast { return .timeout }
        monitor.wait(until: deadline)
      } else {
        monitor.wait()
      }
    }
    return .write(take())
  }

  /// Takes the waiting groups, up to `mergeBytes`, and at least one.
  private func take() -> [Submission] {
    var batch: [Submission] = []
    var size = 0
    while taken < pending.count {
      let next = pending[taken]?.bytes.count ?? 0
      if !batch.isEmpty && size + next > mergeBytes { break }
      size += next
      if let submission = pending[taken].take() { batch.append(submission) }
      taken += 1
    }
    // Under load the queue is never empty, and its front must not grow for ever.
    if 2 * taken >= pending.count {
      pending.removeSubrange(..<taken)
      taken = 0
    }
    return batch
  }

  /// Calls the completions of `batch` in order, and keeps the buffers for new groups.
  func complete(_ batch: [Submission], with error: StoreError?) {
    var size = 0
    for submission in batch {
      size += submission.bytes.count
      submission.completion(submission.refusal ?? error)
    }
    monitor.lock()
    pendingBytes -= size
    for submission in batch where spare.count < Self.spareBuffers {
      let capacity = submission.bytes.capacity
      if capacity > 0 && capacity <= Self.spareBufferBytes { spare.append(submission.bytes) }
    }
    monitor.unlock()
  }

  /// Wakes the callers that wait in `close`.
  func finish() {
    monitor.lock()
    isFinished = true
    monitor.broadcast()
    monitor.unlock()
  }
}
