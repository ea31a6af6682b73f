internal import CUV
import Glibc

/// How the system shares processors between threads.
package enum Scheduling {
  /// Lets a waiting thread run on this processor. Between ticks of its clock, 4 milliseconds apart, the system checks
  /// for one only here and when this thread sleeps.
  package static func yield() { sched_yield() }

  /// The slice in nanoseconds that short-slice threads request: the shortest that Linux grants.
  static let shortSliceNanoseconds: UInt64 = 100_000

  /// Requests slices of 0.1 ms instead of some 3 ms. A thread with short slices runs sooner after waiting, without a
  /// larger share of the processor.
  ///
  /// Supported by Linux 6.12 and newer (EEVDF). Older versions ignore it.
  package static func preferShortSlices() {
    guard var attributes = current(), attributes.policy == UInt32(SCHED_OTHER) else { return }
    attributes.runtime = shortSliceNanoseconds
    // Best effort: the thread works without it, too.
    _ = unsafe cuv_set_scheduling(&attributes)
  }

  /// Lowers the thread's priority by `steps` of `nice(2)`, which on Linux affects only the calling thread.
  package static func giveWay(steps: Int32) { _ = nice(steps) }

  /// Nil if a sandbox forbids the call.
  static func current() -> cuv_scheduling? {
    var attributes = cuv_scheduling()
    return unsafe cuv_get_scheduling(&attributes) == 0 ? attributes : nil
  }
}
