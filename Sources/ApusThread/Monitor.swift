import Glibc

/// A value shared by threads, with a condition variable to wait for changes.
@safe package final class Monitor<Value>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private var value: Value

  package init(_ value: sending Value) {
    self.value = value
    unsafe mutex = .allocate(capacity: 1)
    unsafe condition = .allocate(capacity: 1)
    unsafe pthread_mutex_init(mutex, nil)
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(condition, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe pthread_cond_destroy(condition)
    unsafe mutex.deallocate()
    unsafe condition.deallocate()
  }

  package func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    return try body(&value)
  }

  /// Changes the value and wakes all waiting threads.
  @discardableResult
  package func notify<Result>(_ body: (inout Value) -> Result) -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer {
      unsafe pthread_cond_broadcast(condition)
      unsafe pthread_mutex_unlock(mutex)
    }
    return body(&value)
  }

  package enum Look<Result> {
    case found(Result)
    /// Wait until this time of `monotonicMilliseconds` or until the value changes; nil for no time limit.
    case wait(untilMilliseconds: Int64?)
  }

  /// Waits until `look` returns a result.
  package func wait<Result>(_ look: (inout Value) -> Look<Result>) -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    while true {
      switch look(&value) {
      case .found(let result): return result
      case .wait(nil): unsafe pthread_cond_wait(condition, mutex)
      case .wait(let milliseconds?):
        var until = timespec(
          tv_sec: Int(milliseconds / 1000), tv_nsec: Int(milliseconds % 1000) * 1_000_000)
        unsafe pthread_cond_timedwait(condition, mutex, &until)
      }
    }
  }
}

extension Monitor {
  /// Waits for a value that another thread sets.
  package func take<Wrapped>() -> Wrapped where Value == Wrapped? {
    wait { value in value.map { .found($0) } ?? .wait(untilMilliseconds: nil) }
  }

  /// The same, for so long at most; nil if none was set.
  package func take<Wrapped>(withinMilliseconds limit: Int64) -> Wrapped?
  where Value == Wrapped? {
    let deadline = monotonicMilliseconds() + limit
    return wait { value in
      value != nil || monotonicMilliseconds() >= deadline
        ? .found(value) : .wait(untilMilliseconds: deadline)
    }
  }
}

/// Milliseconds of the monotonic clock.
package func monotonicMilliseconds() -> Int64 {
  var now = timespec()
  unsafe clock_gettime(CLOCK_MONOTONIC, &now)
  return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
}

/// Milliseconds of a clock like that, which goes on while the machine is suspended.
package func bootMilliseconds() -> UInt64 {
  var now = timespec()
  unsafe clock_gettime(CLOCK_BOOTTIME, &now)
  return UInt64(now.tv_sec) * 1000 + UInt64(now.tv_nsec) / 1_000_000
}

/// Blocks the calling thread.
package func pause(milliseconds: Int64) {
  let end = monotonicMilliseconds() + milliseconds
  var until = timespec(tv_sec: Int(end / 1000), tv_nsec: Int(end % 1000) * 1_000_000)
  while unsafe clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nil) == EINTR {}
}
