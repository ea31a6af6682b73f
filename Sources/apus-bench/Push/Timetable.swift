/// The due times of a run's pushes, independent of earlier outcomes.
///
/// Up to a thousand pushes per second, each has a separate due time; above that, all pushes of a millisecond are due
/// together, because a wake-up for each would cost more than sending it.
struct Timetable: Sendable {
  /// Nanoseconds of the monotonic clock.
  let startNanoseconds: UInt64
  /// Pushes per second; 0 for as fast as possible.
  let rate: UInt64
  let seconds: UInt64

  private static let tickNanoseconds: UInt64 = 1_000_000
  private static let ticksPerSecond: UInt64 = 1000

  /// The number of pushes; nil if only the duration is limited.
  var count: Int? { rate == 0 ? nil : Int(rate * seconds) }

  var endNanoseconds: UInt64 { startNanoseconds + seconds * 1_000_000_000 }

  /// - Parameter index: Counted from 0.
  func dueNanoseconds(_ index: Int) -> UInt64 {
    guard rate > 0 else { return startNanoseconds }
    // Split into two terms, because the product would overflow in long runs.
    let (second, rest) = UInt64(index).quotientAndRemainder(dividingBy: rate)
    let within =
      rate > Self.ticksPerSecond
      ? rest * Self.ticksPerSecond / rate * Self.tickNanoseconds : rest * 1_000_000_000 / rate
    return startNanoseconds + second * 1_000_000_000 + within
  }
}
