import Glibc

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
