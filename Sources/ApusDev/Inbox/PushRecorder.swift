import ApusThread
import ApusCore
import ApusModel
import ApusServer
import ApusWeb
import Synchronization

/// Collects everything about pushes. Reports of workers and devices go into a queue. The loop, or a query, moves them
/// in order into the inbox, so that a query sees every push that was answered before it.
final class PushRecorder: Sendable {
  /// A report.
  enum Note: Sendable {
    case answered(ProviderExchange)
    case ledger([LedgerEvent], milliseconds: Int64)
    case closed(InterceptedConnection, milliseconds: Int64)
    case arrived(Arrival)
    case event(DevEvent)
  }

  private struct Queue {
    var notes: [Note] = []
    /// Number of reports dropped because the queue was full.
    var dropped: UInt64 = 0
    var isAnnounced = false
  }

  private let queue = Mutex(Queue())
  let state: Monitor<RecorderState>
  private let book: DeviceBook
  /// Called on any thread when there are new reports or events.
  private let announce: @Sendable () -> Void

  /// Maximum queued reports, enough for some seconds.
  private static let queueCapacity = 100_000

  init(
    keep: Int, keepBytes: Int, allowedRules: Set<String> = [], firstEvent: UInt64,
    book: DeviceBook,
    announce: @escaping @Sendable () -> Void
  ) {
    state = Monitor(
      RecorderState(
        keep: keep, keepBytes: keepBytes, allowedRules: allowedRules, firstEvent: firstEvent))
    self.book = book
    self.announce = announce
  }

  /// May be called from any thread; never waits for readers.
  func enqueue(_ note: Note) {
    let mustAnnounce = queue.withLock { queue in
      guard queue.notes.count < Self.queueCapacity else {
        queue.dropped += 1
        return false
      }
      queue.notes.append(note)
      defer { queue.isAnnounced = true }
      return !queue.isAnnounced
    }
    if mustAnnounce { announce() }
  }

  /// Records the queued reports.
  func drain() {
    state.notify { state in
      let (notes, dropped) = queue.withLock { queue in
        defer {
          queue.notes = []
          queue.isAnnounced = false
        }
        return (queue.notes, queue.dropped)
      }
      state.dropped = dropped
      for note in notes { record(note, &state) }
      state.endBatch()
    }
  }

  /// The same, and wakes the event feed.
  private func catchUp() {
    drain()
    announce()
  }

  private func record(_ note: Note, _ state: inout RecorderState) {
    switch note {
    case .answered(let exchange):
      var push = CapturedPush(number: state.inbox.nextNumber, exchange: exchange)
      let owner = book.owner(of: exchange.request.token)
      push.device = owner?.device
      let language = owner?.language ?? DeviceBook.defaultLanguage
      push.preview = Rendering(
        payload: exchange.request.payload, language: language,
        strings: book.strings(of: exchange.request.topic ?? "", language))
      state.add(push)
    case .ledger(let events, let milliseconds):
      for event in events { state.add(event, milliseconds) }
    case .closed(let connection, let milliseconds): state.closed(connection, milliseconds)
    case .arrived(let arrival): state.add(arrival)
    case .event(let event): state.events.append(event)
    }
  }

  // MARK: Queries

  func read<Answer>(_ body: (RecorderState) -> Answer) -> Answer {
    catchUp()
    return state.withLock { body($0) }
  }

  func clear() {
    catchUp()
    state.notify { $0.clear() }
    announce()
  }

  func clearReport() { state.notify { $0.report = ViolationReport() } }

  struct Found: Sendable {
    var pushes: [CapturedPush]
    /// Number of examined pushes, matching or not.
    var seen: Int
    var isComplete: Bool
  }

  /// Waits until the given number of pushes match, or until the timeout.
  ///
  /// - Parameter after: Only pushes with a larger number count.
  func wait(
    _ matcher: Matcher, count: Int, timeoutMilliseconds: Int64, after: UInt64?
  ) -> Found {
    catchUp()
    let deadline = monotonicMilliseconds() + timeoutMilliseconds
    var next = after.map { $0 + 1 } ?? 0
    var found = Found(pushes: [], seen: 0, isComplete: false)
    return state.wait { state in
      for push in state.inbox.from(next) {
        found.seen += 1
        if found.pushes.count < count, matcher.matches(push.facts) { found.pushes.append(push) }
      }
      next = max(next, state.inbox.nextNumber)
      found.isComplete = found.pushes.count >= count
      if found.isComplete || state.isStopping || monotonicMilliseconds() >= deadline {
        return .found(found)
      }
      return .wait(untilMilliseconds: deadline)
    }
  }

  func count(_ matcher: Matcher, after: UInt64? = nil) -> (matching: [CapturedPush], seen: Int) {
    read { state in
      var seen = 0
      var matching: [CapturedPush] = []
      for push in state.inbox.from(after.map { $0 + 1 } ?? 0) {
        seen += 1
        if matcher.matches(push.facts) { matching.append(push) }
      }
      return (matching, seen)
    }
  }

  /// Ends all waits.
  func stop() { state.notify { $0.isStopping = true } }
}
