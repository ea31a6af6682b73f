/// A bounded allowance that comes back with time.
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

  /// Puts back what the time since the last call is worth. A clock that goes backwards is worth nothing.
  mutating func refill(nowMilliseconds: UInt64) {
    guard nowMilliseconds > refilledMilliseconds else { return }
    let elapsed = Int(min(nowMilliseconds - refilledMilliseconds, 1 << 32))
    let gain = elapsed * perSecond / 1000
    // Less than a token stays on the clock, so that frequent calls do not lose it.
    guard gain > 0 else { return }
    tokens = min(capacity, tokens + gain)
    refilledMilliseconds = nowMilliseconds
  }

  /// Takes `count` tokens; false, and nothing taken, when there are not so many.
  mutating func take(_ count: Int = 1) -> Bool {
    guard tokens >= count else { return false }
    tokens -= count
    return true
  }

  /// Gives tokens back for progress that the peer made.
  mutating func credit(_ count: Int) { tokens = min(capacity, tokens + count) }
}
