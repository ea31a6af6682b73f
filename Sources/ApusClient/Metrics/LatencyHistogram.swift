/// Answer times in milliseconds, in buckets that double.
public struct LatencyHistogram: Sendable, Hashable {
  /// Counts of answers below 1 ms, 2 ms, 4 ms, and so on; the last bucket has all longer ones.
  public private(set) var counts: [UInt64]
  public private(set) var count: UInt64 = 0
  public private(set) var sumMilliseconds: UInt64 = 0

  private static let stepCount = 18

  init() { counts = [UInt64](repeating: 0, count: Self.stepCount) }

  mutating func add(milliseconds: UInt64) {
    let step = UInt64.bitWidth - milliseconds.leadingZeroBitCount
    counts[min(step, Self.stepCount - 1)] += 1
    count += 1
    sumMilliseconds += milliseconds
  }

  /// The upper bound in milliseconds of the bucket within which this share (0 to 1) of the answers arrived. Nil without
  /// answers.
  public func milliseconds(atShare share: Double) -> UInt64? {
    guard count > 0 else { return nil }
    let wanted = UInt64((Double(count) * min(max(share, 0), 1)).rounded(.up))
    var sum: UInt64 = 0
    for (step, number) in counts.enumerated() {
      sum += number
      if sum >= wanted { return 1 << UInt64(step) }
    }
    return 1 << UInt64(Self.stepCount)
  }
}

extension LatencyHistogram: CustomStringConvertible {
  public var description: String {
    guard let half = milliseconds(atShare: 0.5), let most = milliseconds(atShare: 0.99) else {
      return "none"
    }
    return "\(count), half below \(half) ms, 99 % below \(most) ms"
  }
}
