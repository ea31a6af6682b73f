import Synchronization

/// The time of day as a service takes it: the system's, moved by an offset that a test sets.
///
/// Any thread may use it.
package final class ServiceClock: Sendable {
  private let offset = Atomic<Int64>(0)

  package init() {}

  /// Milliseconds by which it is ahead of the system's.
  package var offsetMilliseconds: Int64 { offset.load(ordering: .relaxed) }

  /// Unix milliseconds.
  package var nowMilliseconds: Int64 { EventLoop.wallClockMilliseconds() &+ offsetMilliseconds }

  /// Makes it say that time now; from there it goes on.
  package func set(toMilliseconds milliseconds: Int64) {
    offset.store(milliseconds &- EventLoop.wallClockMilliseconds(), ordering: .relaxed)
  }

  /// Moves it; backwards where the number is negative.
  package func advance(byMilliseconds milliseconds: Int64) {
    offset.wrappingAdd(milliseconds, ordering: .relaxed)
  }

  /// Back to the system's.
  package func reset() { offset.store(0, ordering: .relaxed) }
}
