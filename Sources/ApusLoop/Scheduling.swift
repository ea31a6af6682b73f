internal import CUV
import Glibc

/// How the system shares processors between the calling thread and others.
package enum Scheduling {
  /// Lets a thread go first that waits for this one's processor. Between ticks of its clock, 4 milliseconds apart, the
  /// system looks for one only here and where this thread sleeps.
  package static func yield() { sched_yield() }

  /// Nanoseconds of a thread that asked for short slices: the shortest that Linux grants.
  static let shortSliceNanoseconds: UInt64 = 100_000

  /// Asks for slices of 0.1 ms in place of some 3 ms. A thread with short slices runs sooner after it has waited, and
  /// gets no larger share of the processor.
  ///
  /// Linux 6.12 and newer do that (EEVDF). Older ones ignore it.
  package static func preferShortSlices() {
    guard var attributes = current(), attributes.policy == UInt32(SCHED_OTHER) else { return }
    attributes.runtime = shortSliceNanoseconds
    // What was asked for is only a wish: the thread works without it, too.
    _ = unsafe cuv_set_scheduling(&attributes)
  }

  /// Makes the thread give way to others: `steps` of `nice(2)`, which on Linux is of the calling thread alone.
  package static func giveWay(steps: Int32) { _ = nice(steps) }

  /// Nil where a sandbox allows no look.
  static func current() -> cuv_scheduling? {
    var attributes = cuv_scheduling()
    return unsafe cuv_get_scheduling(&attributes) == 0 ? attributes : nil
  }
}
