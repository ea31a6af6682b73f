/// How long something took, how often: counted in buckets that are fixed, so that counting allocates nothing.
///
/// Up to 15 milliseconds each has a bucket of its own; from there on each power of two has eight, so that a bucket's
/// end is beyond no more than an eighth of what it counts. The last one takes all that is longer than 17 minutes.
package struct MillisecondHistogram: Sendable {
  private var counts = [UInt64](repeating: 0, count: Self.bucketCount)
  package private(set) var count: UInt64 = 0
  package private(set) var sumMilliseconds: UInt64 = 0

  private static let largestBit = 19
  static let bucketCount = (largestBit - 3) * 8 + 16

  package init() {}

  /// The bucket of a time.
  static func bucket(of milliseconds: UInt64) -> Int {
    guard milliseconds >= 16 else { return Int(milliseconds) }
    let bit = 63 - milliseconds.leadingZeroBitCount
    guard bit <= largestBit else { return bucketCount - 1 }
    return (bit - 3) * 8 + Int(milliseconds >> UInt64(bit - 3))
  }

  /// The longest time of a bucket, in whole milliseconds.
  static func end(of bucket: Int) -> UInt64 {
    guard bucket >= 16 else { return UInt64(bucket) }
    let shift = UInt64(bucket / 8 - 1)
    return (UInt64(bucket % 8 + 8 + 1) << shift) - 1
  }

  package mutating func add(milliseconds: Int64) {
    // A clock that was set back.
    let milliseconds = UInt64(max(0, milliseconds))
    counts[Self.bucket(of: milliseconds)] &+= 1
    count &+= 1
    sumMilliseconds &+= milliseconds
  }

  /// The time within which so many thousandths of all were done; nil where there were none.
  package func milliseconds(perMille: UInt64) -> UInt64? {
    guard count > 0 else { return nil }
    let wanted = max(1, (count * perMille + 999) / 1000)
    var sum: UInt64 = 0
    for bucket in counts.indices {
      sum += counts[bucket]
      if sum >= wanted { return Self.end(of: bucket) }
    }
    return Self.end(of: Self.bucketCount - 1)
  }

  /// How many took less than a power of two of milliseconds.
  package func count(belowBit bit: Int) -> UInt64 {
    let end = Self.bucket(of: 1 << UInt64(bit))
    return counts[..<end].reduce(0, +)
  }

  package static func + (left: MillisecondHistogram, right: MillisecondHistogram)
    -> MillisecondHistogram
  {
    left.combined(with: right, &+)
  }

  /// What was counted since `earlier`, which is an older state of the same.
  package func since(_ earlier: MillisecondHistogram) -> MillisecondHistogram {
    combined(with: earlier, &-)
  }

  private func combined(
    with other: MillisecondHistogram, _ operation: (UInt64, UInt64) -> UInt64
  ) -> MillisecondHistogram {
    var result = self
    for bucket in counts.indices {
      result.counts[bucket] = operation(counts[bucket], other.counts[bucket])
    }
    result.count = operation(count, other.count)
    result.sumMilliseconds = operation(sumMilliseconds, other.sumMilliseconds)
    return result
  }
}
