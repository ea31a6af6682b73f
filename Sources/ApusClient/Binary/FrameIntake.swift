import ApusModel
import Glibc
import Synchronization

/// Frames on their way from the sending tasks to the loop that writes them.
///
/// The frames of all tasks gather in one buffer, and the loop takes them all at once: a push costs one lock and no
/// allocation.
final class FrameIntake: Sendable {
  struct Item: Sendable {
    var ticket: UInt64
    var id: NotificationID
    var deadlineMilliseconds: UInt64
    var byteCount: Int

    /// The ticket of a push that already has its outcome.
    static let cancelled = UInt64.max
  }

  /// Frames in order, taken out one by one from the front.
  struct Batch: Sendable {
    var bytes: [UInt8] = []
    var items: [Item] = []
    private(set) var head = 0
    private(set) var offset = 0

    var count: Int { items.count - head }
    var isEmpty: Bool { count == 0 }
    var first: Item { items[head] }

    var firstFrame: Span<UInt8> {
      @_lifetime(borrow self)
      get { bytes.span.extracting(offset..<offset + items[head].byteCount) }
    }

    mutating func removeFirst() {
      offset += items[head].byteCount
      head += 1
    }

    mutating func removeAll() {
      bytes.removeAll(keepingCapacity: true)
      items.removeAll(keepingCapacity: true)
      head = 0
      offset = 0
    }

    /// Removes a push by its ticket; false if it is not here.
    mutating func cancel(_ ticket: UInt64) -> Bool {
      guard let index = items[head...].firstIndex(where: { $0.ticket == ticket }) else {
        return false
      }
      items[index].ticket = Item.cancelled
      return true
    }
  }

  enum Answer: Sendable {
    case taken
    /// The limit of waiting pushes is reached.
    case full
    case closed
  }

  private struct State {
    var encoder: FrameEncoder
    var batch = Batch()
    /// Whether the loop knows that pushes wait.
    var isAnnounced = false
    var isClosed = false
    /// Tasks that wait for room.
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state: Mutex<State>
  private let announce: @Sendable () -> Void

  /// - Parameter announce: Called on any thread when pushes wait, once until they are taken.
  init(encoder: FrameEncoder, announce: @escaping @Sendable () -> Void) {
    state = Mutex(State(encoder: encoder))
    self.announce = announce
  }

  /// Encodes a push and appends its frame, if `limit` allows one more.
  func put(
    _ request: borrowing PushRequest, ticket: UInt64, id: NotificationID,
    deadlineMilliseconds: UInt64, limit: Int
  ) throws(PushRequestError) -> Answer {
    let (answer, isFirst) = try state.withLock {
      (state: inout sending State) throws(PushRequestError) -> (Answer, Bool) in
      guard !state.isClosed else { return (.closed, false) }
      guard state.batch.items.count < limit else { return (.full, false) }
      let start = state.batch.bytes.count
      try state.encoder.append(request, to: &state.batch.bytes)
      state.batch.items.append(
        Item(
          ticket: ticket, id: id, deadlineMilliseconds: deadlineMilliseconds,
          byteCount: state.batch.bytes.count - start))
      defer { state.isAnnounced = true }
      return (.taken, !state.isAnnounced)
    }
    if isFirst { announce() }
    return answer
  }

  /// Returns once there may be room again.
  func waitForRoom(limit: Int) async {
    await withCheckedContinuation { continuation in
      let isRoom = state.withLock { state in
        guard !state.isClosed, state.batch.items.count >= limit else { return true }
        state.waiters.append(continuation)
        return false
      }
      if isRoom { continuation.resume() }
    }
  }

  /// For the loop: moves all waiting pushes into `batch`, which must be empty and whose memory is reused.
  func take(into batch: inout Batch) {
    batch.removeAll()
    var taken = Batch()
    swap(&taken, &batch)
    let (full, waiters) = state.withLock { state in
      swap(&taken, &state.batch)
      state.isAnnounced = false
      defer { state.waiters = [] }
      return (taken, state.waiters)
    }
    batch = full
    for waiter in waiters { waiter.resume() }
  }

  /// Removes a push that the loop has not taken yet; false if it is not here.
  func cancel(_ ticket: UInt64) -> Bool {
    state.withLock { $0.batch.cancel(ticket) }
  }

  /// Accepts nothing from now on. Waiting pushes can still be taken.
  func close() {
    let waiters = state.withLock { state in
      state.isClosed = true
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }
}

/// Milliseconds of the monotonic clock, for deadlines shared between threads.
func monotonicMilliseconds() -> UInt64 {
  var time = timespec()
  unsafe clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000
}

/// The same up to a few milliseconds late, in a tenth of the time; used for each push, whose deadline is seconds away.
func roughMonotonicMilliseconds() -> UInt64 {
  var time = timespec()
  unsafe clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
  return UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000
}
