import Glibc

/// A lock with a condition variable, which `Synchronization.Mutex` does not offer.
///
/// The owner keeps the protected state beside it and accesses that state only between `lock` and `unlock`.
@safe
final class Monitor: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>

  init() {
    unsafe mutex = .allocate(capacity: 1)
    unsafe condition = .allocate(capacity: 1)
    unsafe check(pthread_mutex_init(mutex, nil))
    var attributes = pthread_condattr_t()
    unsafe check(pthread_condattr_init(&attributes))
    // Deadlines must not change when the clock is set.
    unsafe check(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC))
    unsafe check(pthread_cond_init(condition, &attributes))
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe pthread_mutex_destroy(mutex)
    unsafe condition.deallocate()
    unsafe mutex.deallocate()
  }

  func lock() { unsafe check(pthread_mutex_lock(mutex)) }

  func unlock() { unsafe check(pthread_mutex_unlock(mutex)) }

  /// Releases the lock until a broadcast, or spuriously: check the state again afterwards.
  func wait() { unsafe check(pthread_cond_wait(condition, mutex)) }

  /// The same, at most until `deadline`.
  func wait(until deadline: Deadline) {
    var time = timespec(
      tv_sec: Int(deadline.nanoseconds / 1_000_000_000),
      tv_nsec: Int(deadline.nanoseconds % 1_000_000_000))
    let result = unsafe pthread_cond_timedwait(condition, mutex, &time)
    if result != ETIMEDOUT { check(result) }
  }

  func broadcast() { unsafe check(pthread_cond_broadcast(condition)) }
}

/// A time on the monotonic clock.
struct Deadline: Comparable {
  /// Since the machine started.
  var nanoseconds: Int64

  static func after(milliseconds: Int64) -> Deadline {
    var now = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &now)
    return Deadline(
      nanoseconds: Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
        + milliseconds * 1_000_000)
  }

  var isPast: Bool { self <= .after(milliseconds: 0) }

  static func < (left: Deadline, right: Deadline) -> Bool { left.nanoseconds < right.nanoseconds }
}

/// Many readers or one writer. Readers never wait: while the writer has the lock, they are refused.
@safe
final class ReadersLock: @unchecked Sendable {
  private let lock: UnsafeMutablePointer<pthread_rwlock_t>

  init() {
    unsafe lock = .allocate(capacity: 1)
    unsafe check(pthread_rwlock_init(lock, nil))
  }

  deinit {
    unsafe pthread_rwlock_destroy(lock)
    unsafe lock.deallocate()
  }

  func tryRead() -> Bool { unsafe pthread_rwlock_tryrdlock(lock) == 0 }

  /// Waits until the last reader has unlocked.
  func write() { unsafe check(pthread_rwlock_wrlock(lock)) }

  func unlock() { unsafe check(pthread_rwlock_unlock(lock)) }
}

/// Lock calls fail only if used incorrectly.
private func check(_ result: Int32) {
  precondition(result == 0, "a lock call failed with error \(result)")
}
