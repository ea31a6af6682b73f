/// A histogram of durations in microseconds, with fixed buckets, so that counting allocates nothing.
///
/// Each value up to 127 microseconds has a bucket; above that, each power of two has 64 buckets, so the error is at
/// most 1/64 (1.6 %). The last bucket counts everything above 71 minutes. The histograms of the service and of the
/// client library have a resolution of milliseconds, which is too coarse here.
struct FineHistogram: Sendable, Equatable {
  private(set) var counts = [UInt64](repeating: 0, count: Self.bucketCount)
  private(set) var count: UInt64 = 0
  private(set) var sumMicroseconds: UInt64 = 0
  private(set) var maximumMicroseconds: UInt64 = 0

  private static let largestBit = 31
  private static let resolutionBits = 6
  static let bucketCount = (largestBit - resolutionBits + 2) << resolutionBits

  static func bucket(of microseconds: UInt64) -> Int {
    let bit = max(63 - (microseconds | 1).leadingZeroBitCount, resolutionBits)
    guard bit <= largestBit else { return bucketCount - 1 }
    let shift = bit - resolutionBits
    return shift << resolutionBits + Int(microseconds >> UInt64(shift))
  }

  /// The largest value of a bucket.
  static func end(of bucket: Int) -> UInt64 {
    let shift = max(bucket >> resolutionBits - 1, 0)
    return (UInt64(bucket - shift << resolutionBits) + 1) << UInt64(shift) - 1
  }

  mutating func add(microseconds: UInt64) {
    counts[Self.bucket(of: microseconds)] &+= 1
    count &+= 1
    sumMicroseconds &+= microseconds
    maximumMicroseconds = max(maximumMicroseconds, microseconds)
  }

  mutating func removeAll() { self = FineHistogram() }

  /// The percentile in thousandths; nil if nothing was counted.
  func microseconds(perMille: UInt64) -> UInt64? {
    guard count > 0 else { return nil }
    let wanted = max(1, (count * perMille + 999) / 1000)
    var sum: UInt64 = 0
    for bucket in counts.indices {
      sum += counts[bucket]
      if sum >= wanted { return min(Self.end(of: bucket), maximumMicroseconds) }
    }
    return maximumMicroseconds
  }

  static func += (left: inout FineHistogram, right: FineHistogram) {
    for bucket in left.counts.indices { left.counts[bucket] &+= right.counts[bucket] }
    left.count &+= right.count
    left.sumMicroseconds &+= right.sumMicroseconds
    left.maximumMicroseconds = max(left.maximumMicroseconds, right.maximumMicroseconds)
  }
}

// MARK: - For another process

extension FineHistogram {
  /// The number of words in the serialized form.
  static let wordCount = bucketCount + 3

  var words: [UInt64] { [count, sumMicroseconds, maximumMicroseconds] + counts }

  /// - Parameter words: Exactly `wordCount` words.
  init(words: ArraySlice<UInt64>) {
    let words = Array(words)
    count = words[0]
    sumMicroseconds = words[1]
    maximumMicroseconds = words[2]
    counts = Array(words[3...])
  }
}
