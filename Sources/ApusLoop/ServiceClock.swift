import Synchronization

/// The service's time of day: the system's, shifted by an offset that a test sets.
///
/// Any thread may use it.
package final class ServiceClock: Sendable {
  private let offset = Atomic<Int64>(0)

  package init() {}

  /// Milliseconds by which it is ahead of the system's clock.
  package var offsetMilliseconds: Int64 { offset.load(ordering: .relaxed) }

  /// Unix milliseconds.
  package var nowMilliseconds: Int64 { EventLoop.wallClockMilliseconds() &+ offsetMilliseconds }

  /// Sets the current time; the clock runs on from there.
  package func set(toMilliseconds milliseconds: Int64) {
    offset.store(milliseconds &- EventLoop.wallClockMilliseconds(), ordering: .relaxed)
  }

  /// Moves the clock; backwards if the number is negative.
  package func advance(byMilliseconds milliseconds: Int64) {
    offset.wrappingAdd(milliseconds, ordering: .relaxed)
  }

  /// Resets it to the system's clock.
  package func reset() { offset.store(0, ordering: .relaxed) }
}
