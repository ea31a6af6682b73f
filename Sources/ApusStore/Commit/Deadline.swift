import ApusThread

/// A time on the monotonic clock.
struct Deadline: Comparable {
  /// Since the machine started.
  var milliseconds: Int64

  static func after(milliseconds: Int64) -> Deadline {
    Deadline(milliseconds: monotonicMilliseconds() + milliseconds)
  }

  var isPast: Bool { self <= .after(milliseconds: 0) }

  static func < (left: Deadline, right: Deadline) -> Bool {
    left.milliseconds < right.milliseconds
  }
}
