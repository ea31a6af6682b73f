/// When a webhook's events are sent, and from which on.
///
/// One request at a time, in the order of the events: those of a device arrive as they happened. A failed request is
/// repeated with the same events until it succeeds, so an event can arrive twice and is never left out, except when the
/// queue dropped it. Pauses double from one second up to five minutes.
struct WebhookDelivery: Equatable {
  enum Action: Equatable {
    /// Send events from this number on.
    case send(from: UInt64)
    /// Look again at this time.
    case wait(untilMilliseconds: Int64)
    /// There is nothing to send until an event comes.
    case idle
  }

  /// The number of the first event that was not delivered.
  private(set) var position: UInt64
  /// Failed attempts in a row.
  private(set) var failures = 0
  private var retryMilliseconds: Int64 = 0

  static let firstPauseMilliseconds: Int64 = 1000
  static let longestPauseMilliseconds: Int64 = 300_000

  init(position: UInt64) { self.position = position }

  /// - Parameter next: The number that the next event will get.
  func action(next: UInt64, nowMilliseconds: Int64) -> Action {
    guard position < next else { return .idle }
    guard nowMilliseconds >= retryMilliseconds else {
      return .wait(untilMilliseconds: retryMilliseconds)
    }
    return .send(from: position)
  }

  /// All events before `number` were delivered, or are none of this webhook's.
  mutating func succeeded(before number: UInt64) {
    position = max(position, number)
    failures = 0
    retryMilliseconds = 0
  }

  /// - Parameter share: From 0 to 1, random: receivers that failed together are not asked together.
  mutating func failed(nowMilliseconds: Int64, share: Double) {
    let doubled = Self.firstPauseMilliseconds << min(Int64(failures), 20)
    let pause = min(doubled, Self.longestPauseMilliseconds)
    retryMilliseconds = nowMilliseconds + pause - Int64(Double(pause) * share * 0.2)
    failures += 1
  }
}
