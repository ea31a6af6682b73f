/// How often an event may happen: a burst, then a steady rate. A token bucket as one number.
///
/// ``RateLimit`` is the rule, shared by many buckets; ``Bucket`` is the state of one, eight bytes. The state is the
/// time at which the bucket would be full again (the generic cell rate algorithm of ATM Forum TM 4.0, which counts
/// nothing and needs no timer). The caller passes the time; a clock that jumps back costs at most one emptied bucket.
package struct RateLimit: Sendable, Hashable {
  /// Events in a burst.
  package let capacity: Int
  /// Microseconds in which one event is restored.
  private let intervalMicroseconds: Int64
  private let fullMicroseconds: Int64

  /// Allows bursts of `capacity` events, restored at `refill` events per `perSeconds` seconds. All at least 1.
  package init(capacity: Int, refill: Int, perSeconds: Int = 1) {
    precondition(capacity > 0 && refill > 0 && perSeconds > 0, "a rate limit must allow an event")
    self.capacity = capacity
    let period = saturatingProduct(Int64(perSeconds), 1_000_000)
    intervalMicroseconds = min(max(1, period / Int64(refill)), Self.farMicroseconds)
    fullMicroseconds = min(
      saturatingProduct(intervalMicroseconds, Int64(capacity)), Self.farMicroseconds)
  }

  /// 36,000 years: times and waits are clamped to it, so that no sum of three overflows Int64.
  private static let farMicroseconds: Int64 = 1 << 60

  private static func microseconds(_ milliseconds: Int64) -> Int64 {
    min(max(saturatingProduct(milliseconds, 1000), -farMicroseconds), farMicroseconds)
  }

  /// The state of one bucket; a new one is full.
  package struct Bucket: Sendable, Hashable {
    fileprivate var fullAtMicroseconds = Int64.min

    package init() {}

    /// Whether the bucket is full: it equals a new one, and a table may drop it.
    package func isFull(atMilliseconds now: Int64) -> Bool {
      fullAtMicroseconds <= RateLimit.microseconds(now)
    }
  }

  /// Takes one event from the bucket; false, taking nothing, if it is empty.
  package func take(from bucket: inout Bucket, atMilliseconds milliseconds: Int64) -> Bool {
    let now = Self.microseconds(milliseconds)
    bucket.fullAtMicroseconds = fullAt(bucket, now)
    let after = bucket.fullAtMicroseconds + intervalMicroseconds
    guard after - now <= fullMicroseconds else { return false }
    bucket.fullAtMicroseconds = after
    return true
  }

  /// Milliseconds, rounded up, until one event may happen; 0 when it may now.
  package func waitMilliseconds(for bucket: Bucket, atMilliseconds milliseconds: Int64) -> Int64 {
    let now = Self.microseconds(milliseconds)
    let wait = fullAt(bucket, now) + intervalMicroseconds - now - fullMicroseconds
    return wait <= 0 ? 0 : (wait + 999) / 1000
  }

  /// A bucket that would be full later than an empty one was used before the clock was set back. It counts as empty.
  private func fullAt(_ bucket: Bucket, _ now: Int64) -> Int64 {
    min(max(bucket.fullAtMicroseconds, now), now + fullMicroseconds)
  }
}

/// `left * right`, saturated to Int64.
func saturatingProduct(_ left: Int64, _ right: Int64) -> Int64 {
  let (product, overflow) = left.multipliedReportingOverflow(by: right)
  guard overflow else { return product }
  return (left < 0) == (right < 0) ? .max : .min
}
