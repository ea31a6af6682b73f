/// How often something may happen: a burst, and a steady rate behind it. The token bucket as one number.
///
/// ``RateLimit`` is the rule, shared by many; ``Bucket`` is the state of one thing, eight bytes. The state is the time
/// at which the bucket would be full again (the "generic cell rate algorithm" of ATM Forum TM 4.0, which counts
/// nothing and needs no timer). Time is given; a clock that jumps back costs at most one emptied bucket.
package struct RateLimit: Sendable, Hashable {
  /// Events that may happen at once.
  package let capacity: Int
  /// Microseconds in which one event's worth flows back.
  private let intervalMicroseconds: Int64
  private let fullMicroseconds: Int64

  /// Allows `capacity` events at once, and `refill` more in every `perSeconds` seconds. All at least 1.
  package init(capacity: Int, refill: Int, perSeconds: Int = 1) {
    precondition(capacity > 0 && refill > 0 && perSeconds > 0, "a rate limit must let something by")
    self.capacity = capacity
    let period = saturatingProduct(Int64(perSeconds), 1_000_000)
    intervalMicroseconds = min(max(1, period / Int64(refill)), Self.farMicroseconds)
    fullMicroseconds = min(
      saturatingProduct(intervalMicroseconds, Int64(capacity)), Self.farMicroseconds)
  }

  /// 36,000 years: times and waits are held within it, so that no sum of three leaves Int64.
  private static let farMicroseconds: Int64 = 1 << 60

  private static func microseconds(_ milliseconds: Int64) -> Int64 {
    min(max(saturatingProduct(milliseconds, 1000), -farMicroseconds), farMicroseconds)
  }

  /// The state of one thing; new, it is full.
  package struct Bucket: Sendable, Hashable {
    fileprivate var fullAtMicroseconds = Int64.min

    package init() {}

    /// Whether nothing was taken lately: such a bucket is as good as a new one, and a table may forget it.
    package func isFull(atMilliseconds now: Int64) -> Bool {
      fullAtMicroseconds <= RateLimit.microseconds(now)
    }
  }

  /// Takes one event out of the bucket; false, and nothing taken, when it is empty.
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

  /// A bucket that would be full again later than an empty one saw the clock set back. It counts as empty.
  private func fullAt(_ bucket: Bucket, _ now: Int64) -> Int64 {
    min(max(bucket.fullAtMicroseconds, now), now + fullMicroseconds)
  }
}

/// `left * right`, held within Int64.
func saturatingProduct(_ left: Int64, _ right: Int64) -> Int64 {
  let (product, overflow) = left.multipliedReportingOverflow(by: right)
  guard overflow else { return product }
  return (left < 0) == (right < 0) ? .max : .min
}
