import ApusModel

/// Decides when a counter is worth a log line: when it has grown, and at most every `Limits.reportSeconds`.
///
/// Each line says how much the counter has grown since the last one, so the lines add up to the counter.
package struct CountReport: Sendable {
  private var reportedCount: UInt64 = 0
  private var reportedSeconds: UInt64?

  package init() {}

  /// By how much `count` has grown since the last report; nil if it has not, or if the last report was just now.
  ///
  /// - Parameter nowSeconds: Of a clock that nobody sets.
  package mutating func take(_ count: UInt64, nowSeconds: UInt64) -> UInt64? {
    guard count != reportedCount else { return nil }
    if let reportedSeconds, nowSeconds < reportedSeconds + UInt64(Limits.reportSeconds) {
      return nil
    }
    defer { (reportedCount, reportedSeconds) = (count, nowSeconds) }
    return count &- reportedCount
  }
}
