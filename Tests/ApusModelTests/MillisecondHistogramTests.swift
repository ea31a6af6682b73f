import Testing

@testable import ApusModel

@Suite("Times in fixed buckets")
struct MillisecondHistogramTests {
  @Test(
    "A bucket ends at most an eighth above its values, and starts after the previous one")
  func buckets() {
    var last = -1
    // Beyond that, every bucket is wider than the steps.
    let times = Array(0..<(1 << 14)) + Array(stride(from: 1 << 14, to: 1 << 20, by: 61))
    for milliseconds in times.map(UInt64.init) {
      let bucket = MillisecondHistogram.bucket(of: milliseconds)
      let end = MillisecondHistogram.end(of: bucket)
      guard end >= milliseconds, (end - milliseconds) * 8 <= milliseconds,
        bucket == last || bucket == last + 1
      else {
        Issue.record("\(milliseconds) is in bucket \(bucket), which ends at \(end)")
        return
      }
      last = bucket
    }
    #expect(last == MillisecondHistogram.bucketCount - 1)
    #expect(MillisecondHistogram.bucket(of: .max) == last)
  }

  @Test("Percentiles match those of the sorted times within an eighth")
  func percentiles() throws {
    var seed = UInt64.random(in: 0 ... .max)
    let first = seed
    var histogram = MillisecondHistogram()
    var times: [UInt64] = []
    for _ in 0..<5000 {
      seed = seed &* 6_364_136_223_846_793_005 &+ 1
      let time = (seed >> 44) >> (seed >> 32 & 15)
      times.append(time)
      histogram.add(milliseconds: Int64(time))
    }
    times.sort()
    for perMille: UInt64 in [1, 500, 900, 990, 1000] {
      let exact = times[Int((5000 * perMille + 999) / 1000) - 1]
      let found = try #require(histogram.milliseconds(perMille: perMille))
      #expect(found >= exact && (found - exact) * 8 <= exact, "seed \(first), \(perMille)")
    }
    for bit in 0..<20 {
      let below = times.filter { $0 < 1 << UInt64(bit) }.count
      #expect(histogram.count(belowBit: bit) == UInt64(below), "seed \(first), bit \(bit)")
    }
    #expect(histogram.count == 5000 && histogram.sumMilliseconds == times.reduce(0, +))
  }

  @Test("Counts since an earlier state are the difference, and two workers are summed")
  func differences() {
    var one = MillisecondHistogram()
    #expect(one.milliseconds(perMille: 500) == nil)
    one.add(milliseconds: 3)
    let earlier = one
    one.add(milliseconds: 900)
    // A clock that was set back.
    one.add(milliseconds: -5)
    let since = one.since(earlier)
    #expect(since.count == 2 && since.milliseconds(perMille: 500) == 0)
    #expect((one + earlier).count == 4 && (one + earlier).sumMilliseconds == 906)
  }
}
