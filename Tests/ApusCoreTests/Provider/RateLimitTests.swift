import ApusRandom
import ApusCore
import Testing

struct RateLimitTests {
  /// How many of `attempts` at one time are allowed.
  private func burst(
    _ limit: RateLimit, _ bucket: inout RateLimit.Bucket, at now: Int64, attempts: Int = 100
  ) -> Int {
    var taken = 0
    for _ in 0..<attempts where limit.take(from: &bucket, atMilliseconds: now) { taken += 1 }
    return taken
  }

  @Test("A new bucket is full, and an empty one fills at its rate")
  func refill() {
    let limit = RateLimit(capacity: 5, refill: 2)
    var bucket = RateLimit.Bucket()
    #expect(bucket.isFull(atMilliseconds: 0))
    #expect(burst(limit, &bucket, at: 0) == 5)
    #expect(!bucket.isFull(atMilliseconds: 0))
    #expect(limit.waitMilliseconds(for: bucket, atMilliseconds: 0) == 500)
    #expect(burst(limit, &bucket, at: 499) == 0)
    #expect(limit.waitMilliseconds(for: bucket, atMilliseconds: 499) == 1)
    #expect(burst(limit, &bucket, at: 500) == 1)
    #expect(burst(limit, &bucket, at: 1500) == 2)
    #expect(bucket.isFull(atMilliseconds: 4000))
    #expect(burst(limit, &bucket, at: 1_000_000) == 5)
  }

  @Test("A rate of ten per minute is kept")
  func perMinute() {
    let limit = RateLimit(capacity: 10, refill: 10, perSeconds: 60)
    var bucket = RateLimit.Bucket()
    #expect(burst(limit, &bucket, at: 0) == 10)
    #expect(burst(limit, &bucket, at: 5_999) == 0)
    #expect(burst(limit, &bucket, at: 6_000) == 1)
    #expect(burst(limit, &bucket, at: 36_000) == 5)
  }

  @Test(
    "A clock set back costs one emptied bucket, however far it jumps",
    arguments: [1, 1000, 1_000_000, 9_000_000_000_000] as [Int64])
  func backwards(_ jump: Int64) {
    let limit = RateLimit(capacity: 4, refill: 1)
    var bucket = RateLimit.Bucket()
    let before: Int64 = 1_750_000_000_000
    #expect(burst(limit, &bucket, at: before) == 4)
    let after = before - jump
    #expect(burst(limit, &bucket, at: after) == 0)
    #expect(limit.waitMilliseconds(for: bucket, atMilliseconds: after) <= 1001)
    #expect(burst(limit, &bucket, at: after + 1001) == 1)
    #expect(burst(limit, &bucket, at: after + 5001) == 4)
  }

  @Test("A full bucket is not affected by a clock set back before its first event")
  func backwardsWhenFull() {
    let limit = RateLimit(capacity: 4, refill: 1)
    var bucket = RateLimit.Bucket()
    #expect(burst(limit, &bucket, at: -1_000_000) == 4)
  }

  @Test(
    "Extreme numbers neither trap nor allow everything",
    arguments: [Int64.min, Int64.min / 1000, 0, Int64.max / 1000, Int64.max])
  func extremes(_ now: Int64) {
    let generous = RateLimit(capacity: .max, refill: .max)
    var bucket = RateLimit.Bucket()
    #expect(burst(generous, &bucket, at: now) == 100)
    #expect(generous.waitMilliseconds(for: bucket, atMilliseconds: now) == 0)
    let slow = RateLimit(capacity: 1, refill: 1, perSeconds: .max)
    bucket = RateLimit.Bucket()
    #expect(burst(slow, &bucket, at: now) == 1)
    #expect(slow.waitMilliseconds(for: bucket, atMilliseconds: now) > 1_000_000_000)
  }

  @Test(
    "Never more events than the capacity plus the refill are allowed",
    arguments: [1, 2, 3, 4] as [UInt64])
  func walk(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let capacity = Int.random(in: 1...20, using: &random)
    let refill = Int.random(in: 1...50, using: &random)
    let limit = RateLimit(capacity: capacity, refill: refill)
    var bucket = RateLimit.Bucket()
    var now: Int64 = 1_000
    var taken: Int64 = 0
    for step in 0..<5000 {
      now += Int64.random(in: 0...60, using: &random)
      let wait = limit.waitMilliseconds(for: bucket, atMilliseconds: now)
      let allowed = limit.take(from: &bucket, atMilliseconds: now)
      #expect(allowed == (wait == 0), "seed \(seed), step \(step)")
      if allowed { taken += 1 }
      // A refill of 7 a second is one in 142,857 microseconds: a millionth more than 7.
      let most = Int64(capacity) + (now - 1_000) * Int64(refill) * 1001 / 1_000_000 + 1
      #expect(taken <= most, "seed \(seed), step \(step)")
    }
    #expect(taken > 0)
  }
}
