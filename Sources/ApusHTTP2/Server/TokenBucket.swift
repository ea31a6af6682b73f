/// A bounded allowance that is refilled with time.
struct TokenBucket: Sendable {
  let capacity: Int
  let perSecond: Int
  private(set) var tokens: Int
  private var refilledMilliseconds: UInt64

  /// A full bucket.
  init(capacity: Int, perSecond: Int, nowMilliseconds: UInt64) {
    self.capacity = capacity
    self.perSecond = perSecond
    tokens = capacity
    refilledMilliseconds = nowMilliseconds
  }

  /// Adds the tokens for the time since the last call. A clock that goes backwards adds nothing.
  mutating func refill(nowMilliseconds: UInt64) {
    guard nowMilliseconds > refilledMilliseconds else { return }
    let elapsed = Int(min(nowMilliseconds - refilledMilliseconds, 1 << 32))
    let gain = elapsed * perSecond / 1000
    // Fractions of a token are kept in the time, so that frequent calls do not lose them.
    guard gain > 0 else { return }
    tokens = min(capacity, tokens + gain)
    refilledMilliseconds = nowMilliseconds
  }

  /// Takes `count` tokens; false, taking nothing, if there are fewer.
  mutating func take(_ count: Int = 1) -> Bool {
    guard tokens >= count else { return false }
    tokens -= count
    return true
  }

  /// Returns tokens for progress of the peer.
  mutating func credit(_ count: Int) { tokens = min(capacity, tokens + count) }
}
