import ApusModel

/// The notifications of one app in one environment that wait to be sent upstream or for upstream's answer.
///
/// Each is known by its order of acceptance. A window of the oldest is in memory, and beyond it what is new while there
/// is room for it; the others are in the store and are read when there is room in the window. Those in memory are sent
/// in their order, at most a window's at a time. What upstream could not take is sent again later; if that concerns all
/// of them, the lane is held, and afterwards a single notification is tried before the others follow.
///
/// The driver calls ``next(nowMilliseconds:)`` until it returns `wait`. Times are of the loop's clock, in milliseconds.
package struct RelayLane: Sendable {
  package enum Action: Sendable, Hashable {
    case send(UInt64)
    /// Read from the store: at most so many, of a higher order than this.
    case read(after: UInt64, count: Int)
    /// Nothing before that time; nil: before something happens.
    case wait(untilMilliseconds: UInt64?)
  }

  /// Why nothing is sent.
  package enum Hold: Sendable, Hashable {
    /// Upstream cannot take anything now, or cannot be reached.
    case busy
    /// Upstream rejects what this service is configured to show it.
    case misconfigured
    /// The operator has paused it.
    case paused
  }

  private struct Retry: Sendable {
    var order: UInt64
    var dueMilliseconds: UInt64

    func precedes(_ other: Retry) -> Bool {
      (dueMilliseconds, order) < (other.dueMilliseconds, other.order)
    }
  }

  /// In their order.
  private var fresh: [UInt64] = []
  private var freshHead = 0
  /// The earliest last; of several at the same time, the oldest.
  private var retries: [Retry] = []
  private var openCount = 0
  /// How often each was tried that was not answered for good.
  private var attempts: [UInt64: UInt8] = [:]
  /// Those of a higher order are in the store only.
  private var readOrder: UInt64 = 0
  private var unreadCount: Int
  private var isReading = false
  private var readAgainMilliseconds: UInt64 = 0
  private var heldUntilMilliseconds: UInt64 = 0
  /// Holds in a row.
  private var holdCount: UInt8 = 0
  /// Nil while notifications are sent.
  package private(set) var hold: Hold?
  private let window: Int

  /// - Parameter storedCount: How many are in the store already.
  package init(storedCount: Int, window: Int = Limits.relayWindow) {
    unreadCount = storedCount
    self.window = window
  }

  /// All that wait or are being sent.
  package var count: Int { knownCount + unreadCount }

  /// Those in memory.
  package var knownCount: Int { fresh.count - freshHead + retries.count + openCount }

  // MARK: Notifications

  /// A notification is in the store. True if the lane keeps it in memory; otherwise it is read later, or was read
  /// already.
  ///
  /// - Parameter hasRoom: Whether there is memory for one beyond the window.
  package mutating func add(_ order: UInt64, hasRoom: Bool = false) -> Bool {
    guard order > readOrder, unreadCount == 0, !isReading, knownCount < window || hasRoom else {
      unreadCount += 1
      return false
    }
    fresh.append(order)
    readOrder = order
    return true
  }

  /// The answer to `read`: the notifications in the store, in its order, and whether these are all.
  package mutating func read(_ orders: [UInt64], isEnd: Bool) {
    isReading = false
    fresh.append(contentsOf: orders)
    if let last = orders.last { readOrder = last }
    unreadCount = isEnd ? 0 : max(0, unreadCount - orders.count)
  }

  /// The store could not be read.
  package mutating func readFailed(nowMilliseconds now: UInt64) {
    isReading = false
    readAgainMilliseconds = now + 1000
  }

  /// Sends a notification again that was finished, before the others.
  package mutating func putBack(_ order: UInt64) {
    insert(Retry(order: order, dueMilliseconds: 0))
  }

  /// Gives notifications up whose time is over, unless upstream is being asked.
  ///
  /// - Returns: Those that were given up.
  package mutating func drop(_ orders: Set<UInt64>) -> [UInt64] {
    guard !orders.isEmpty else { return [] }
    let waiting = fresh[freshHead...] + retries.map(\.order)
    let dropped = waiting.filter(orders.contains)
    fresh.removeFirst(freshHead)
    freshHead = 0
    fresh.removeAll(where: orders.contains)
    retries.removeAll { orders.contains($0.order) }
    for order in dropped { attempts[order] = nil }
    return Array(dropped)
  }

  /// What to do next.
  package mutating func next(nowMilliseconds now: UInt64) -> Action {
    if unreadCount > 0, !isReading, knownCount <= window / 2, now >= readAgainMilliseconds {
      isReading = true
      return .read(after: readOrder, count: window - knownCount)
    }
    if hold == .paused { return .wait(untilMilliseconds: nil) }
    if hold != nil {
      guard now >= heldUntilMilliseconds else {
        return .wait(untilMilliseconds: heldUntilMilliseconds)
      }
      // One is tried first.
      if openCount > 0 { return .wait(untilMilliseconds: nil) }
    }
    guard openCount < window else { return .wait(untilMilliseconds: nil) }
    if let retry = retries.last, retry.dueMilliseconds <= now {
      retries.removeLast()
      openCount += 1
      return .send(retry.order)
    }
    guard freshHead < fresh.count else { return .wait(untilMilliseconds: nextDueMilliseconds) }
    let order = fresh[freshHead]
    freshHead += 1
    if freshHead == fresh.count || freshHead >= 1024 {
      fresh.removeFirst(freshHead)
      freshHead = 0
    }
    openCount += 1
    return .send(order)
  }

  /// When a notification is tried again, or the store is read after a failure.
  private var nextDueMilliseconds: UInt64? {
    let retry = retries.last?.dueMilliseconds
    guard unreadCount > 0, !isReading, knownCount <= window / 2 else { return retry }
    return min(retry ?? .max, readAgainMilliseconds)
  }

  // MARK: Answers

  /// Whether a notification that was sent is over.
  package enum Ending: Sendable, Hashable {
    /// It is over; the driver removes it from the store.
    case finished
    /// It will be sent again.
    case again
  }

  /// Upstream has answered, or the notification was given up before it was sent (`verdict` nil).
  ///
  /// - Parameter entropy: Spreads attempts that would otherwise come at once.
  package mutating func answered(
    _ order: UInt64, _ verdict: UpstreamVerdict?, nowMilliseconds now: UInt64,
    entropy: @autoclosure () -> UInt64
  ) -> Ending {
    openCount -= 1
    switch verdict {
    case .accepted, .badToken, .dead, .refused:
      release()
      attempts[order] = nil
      return .finished
    case nil:
      attempts[order] = nil
      return .finished
    case .misconfigured:
      hold(.misconfigured, now, afterSeconds: nil, entropy())
    case .later(let seconds, isForAll: true):
      hold(.busy, now, afterSeconds: seconds, entropy())
    case .again(mayDuplicate: false):
      hold(.busy, now, afterSeconds: nil, entropy())
    case .later(let seconds, isForAll: false):
      retry(order, now, afterSeconds: seconds, entropy())
      return .again
    case .again(mayDuplicate: true):
      retry(order, now, afterSeconds: nil, entropy())
      return .again
    }
    // Held with all others, and first among them afterwards.
    insert(Retry(order: order, dueMilliseconds: 0))
    return .again
  }

  private mutating func retry(
    _ order: UInt64, _ now: UInt64, afterSeconds seconds: Int?, _ entropy: UInt64
  ) {
    let count = attempts[order, default: 0]
    attempts[order] = min(count, .max - 1) + 1
    let pause = Self.pauseMilliseconds(after: seconds, attempts: count, entropy)
    insert(Retry(order: order, dueMilliseconds: now + pause))
  }

  private mutating func insert(_ retry: Retry) {
    var (low, high) = (0, retries.count)
    while low < high {
      let middle = (low + high) / 2
      if retry.precedes(retries[middle]) { low = middle + 1 } else { high = middle }
    }
    retries.insert(retry, at: low)
  }

  /// Answers to notifications that were sent before the lane was held come in one after the other: they extend the
  /// hold only if upstream asks for more time.
  private mutating func hold(
    _ reason: Hold, _ now: UInt64, afterSeconds seconds: Int?, _ entropy: UInt64
  ) {
    guard hold != .paused else { return }
    let isNew = hold == nil || now >= heldUntilMilliseconds
    if isNew {
      holdCount = hold == nil ? 1 : min(holdCount, .max - 1) + 1
    } else if seconds == nil {
      return
    }
    hold = reason
    heldUntilMilliseconds = max(
      heldUntilMilliseconds,
      now + Self.pauseMilliseconds(after: seconds, attempts: holdCount - 1, entropy))
  }

  /// Upstream has decided about one: the others may follow.
  private mutating func release() {
    guard hold != .paused else { return }
    (hold, holdCount, heldUntilMilliseconds) = (nil, 0, 0)
  }

  /// What upstream asks for, or 1, 2, 4 … 60 seconds; a tenth of it is spread.
  private static func pauseMilliseconds(
    after seconds: Int?, attempts: UInt8, _ entropy: UInt64
  ) -> UInt64 {
    let backOff = min(1 << Int(min(attempts, 16)), Limits.relayLongestPauseSeconds)
    let pause = UInt64(seconds ?? backOff) * 1000
    return pause + entropy % (pause / 10 + 1)
  }

  // MARK: The operator

  /// Sends nothing more; what is being sent is still answered.
  package mutating func pause() { hold = .paused }

  /// Tries at once what was to be tried later, unless the operator has paused it.
  package mutating func flush() {
    if hold != .paused { resume() }
  }

  /// Goes on, and tries at once what was to be tried later: after a pause, or when the configuration has changed.
  package mutating func resume() {
    (hold, holdCount, heldUntilMilliseconds) = (nil, 0, 0)
    for index in retries.indices { retries[index].dueMilliseconds = 0 }
    retries.sort { $1.precedes($0) }
  }
}
