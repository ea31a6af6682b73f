/// How many notifications may go upstream: so many a second on average, and as many at once.
package struct RelayQuota: Sendable {
  package let perSecond: Int
  /// In thousandths of a notification; negative if more went than is allowed.
  private var available: Int64
  private var updatedMilliseconds: UInt64

  /// Nothing has been sent yet.
  package init(perSecond: Int, nowMilliseconds now: UInt64) {
    self.perSecond = perSecond
    available = Int64(perSecond) * 1000
    updatedMilliseconds = now
  }

  /// Seconds until the next one may go, 1 or more; 0 if it may go now.
  package mutating func waitSeconds(nowMilliseconds now: UInt64) -> Int {
    refill(now)
    guard available < 1000 else { return 0 }
    let milliseconds = (1000 - available + Int64(perSecond) - 1) / Int64(perSecond)
    return Int((milliseconds + 999) / 1000)
  }

  /// Counts one, whether or not it may go.
  package mutating func take() { available -= 1000 }

  private mutating func refill(_ now: UInt64) {
    guard now > updatedMilliseconds else { return }
    let elapsed = Int64(min(now - updatedMilliseconds, 1_000_000))
    available = min(Int64(perSecond) * 1000, available + elapsed * Int64(perSecond))
    updatedMilliseconds = now
  }
}
