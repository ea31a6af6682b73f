import Glibc

/// A deadline on the monotonic clock.
///
/// Tests wait for events, not for time to pass: a deadline only ends a test that would otherwise hang.
package struct Deadline: Sendable {
  private let nanoseconds: UInt64

  /// The default number of seconds to wait for a peer: far more than needed even on a busy machine.
  package static let seconds = 20

  package init(seconds: Int = Self.seconds) {
    nanoseconds = Self.now() + UInt64(seconds) * 1_000_000_000
  }

  /// Milliseconds left, rounded up; 0 after the deadline.
  package var remainingMilliseconds: Int32 {
    let now = Self.now()
    return now >= nanoseconds ? 0 : Int32(clamping: (nanoseconds - now + 999_999) / 1_000_000)
  }

  private static func now() -> UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }
}
