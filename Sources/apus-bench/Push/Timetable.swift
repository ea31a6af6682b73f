/// When each push of a run is due, whatever becomes of those before it.
///
/// Up to a thousand a second each has a moment of its own; beyond, those of a millisecond go together, as waking up for
/// each would cost more than sending it.
struct Timetable: Sendable {
  /// By the monotonic clock.
  let startNanoseconds: UInt64
  /// Pushes a second. 0: as fast as they are taken.
  let rate: UInt64
  let seconds: UInt64

  private static let tickNanoseconds: UInt64 = 1_000_000
  private static let ticksPerSecond: UInt64 = 1000

  /// How many there are; nil where only the time counts.
  var count: Int? { rate == 0 ? nil : Int(rate * seconds) }

  var endNanoseconds: UInt64 { startNanoseconds + seconds * 1_000_000_000 }

  /// - Parameter index: from 0.
  func dueNanoseconds(_ index: Int) -> UInt64 {
    guard rate > 0 else { return startNanoseconds }
    // In parts, as the product would not fit for long runs.
    let (second, rest) = UInt64(index).quotientAndRemainder(dividingBy: rate)
    let within =
      rate > Self.ticksPerSecond
      ? rest * Self.ticksPerSecond / rate * Self.tickNanoseconds : rest * 1_000_000_000 / rate
    return startNanoseconds + second * 1_000_000_000 + within
  }
}
