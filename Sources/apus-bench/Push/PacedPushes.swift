import ApusClient
import ApusModel
import Synchronization

/// Pushes to the tokens in turn, or broadcasts to the request's channel; each returned when it is due.
///
/// The id of a push contains its due time, so that the reader of the outcome needs no shared state.
struct PacedPushes: AsyncSequence, Sendable {
  typealias Failure = Never

  let timetable: Timetable
  let request: PushRequest
  /// Empty for broadcasts.
  let tokens: [String]
  let payload: TimedPayload
  let end: PushEnd

  /// - Parameter index: Counted from 0; its low half distinguishes ids of the same time.
  static func id(dueNanoseconds: UInt64, index: Int, run: UInt32) -> NotificationID {
    NotificationID(
      high: UInt64(run) << 32 | UInt64(UInt32(truncatingIfNeeded: index)), low: dueNanoseconds)
  }

  static func dueNanoseconds(of id: NotificationID) -> UInt64 { id.low }

  struct Iterator: AsyncIteratorProtocol {
    private let pushes: PacedPushes
    private var request: PushRequest
    private var index = 0
    private var tokenIndex = 0
    private let run = UInt32.random(in: 0...UInt32.max)

    fileprivate init(_ pushes: PacedPushes) {
      self.pushes = pushes
      request = pushes.request
      request.payload = pushes.payload.bytes
    }

    mutating func next() async -> PushRequest? { await next(isolation: nil) }

    mutating func next(isolation actor: isolated (any Actor)?) async -> PushRequest? {
      let timetable = pushes.timetable
      var now = monotonicNanoseconds()
      if let count = timetable.count {
        guard index < count else { return nil }
        let due = timetable.dueNanoseconds(index)
        while now < due {
          guard !pushes.end.isReached else { return nil }
          // Short, so that the end is noticed.
          let pause = Swift.min(due - now, 100_000_000)
          try? await Task.sleep(for: .nanoseconds(Int64(pause)), tolerance: .zero)
          now = monotonicNanoseconds()
        }
        now = due
      } else if now >= timetable.endNanoseconds {
        return nil
      }
      guard !pushes.end.isReached else { return nil }
      return make(dueNanoseconds: now)
    }

    private mutating func make(dueNanoseconds: UInt64) -> PushRequest {
      pushes.payload.set(dueNanoseconds, in: &request.payload)
      if !pushes.tokens.isEmpty {
        request.token = pushes.tokens[tokenIndex]
        tokenIndex = tokenIndex + 1 == pushes.tokens.count ? 0 : tokenIndex + 1
      }
      request.id = PacedPushes.id(dueNanoseconds: dueNanoseconds, index: index, run: run)
      index += 1
      return request
    }
  }

  func makeAsyncIterator() -> Iterator { Iterator(self) }
}

/// Whether the run should end early.
final class PushEnd: Sendable {
  private let flag = Atomic(false)
  var isReached: Bool { flag.load(ordering: .relaxed) }
  func reach() { flag.store(true, ordering: .relaxed) }
}
