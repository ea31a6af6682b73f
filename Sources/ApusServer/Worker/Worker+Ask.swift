import ApusLoop
import Glibc

extension Worker {
  /// Runs `body` on the worker's thread and waits for its answer.
  func ask<Answer: Sendable>(_ body: @escaping @Sendable (Worker) -> Answer) -> Answer {
    let box = AnswerBox<Answer>()
    loop.perform {
      box.put(body(self))
    }
    return box.take()
  }
}

/// Hands one value from one thread to another that waits for it.
@safe final class AnswerBox<Value: Sendable>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private var value: Value?

  init() {
    unsafe mutex = .allocate(capacity: 1)
    unsafe condition = .allocate(capacity: 1)
    unsafe pthread_mutex_init(mutex, nil)
    unsafe pthread_cond_init(condition, nil)
  }

  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe pthread_cond_destroy(condition)
    unsafe mutex.deallocate()
    unsafe condition.deallocate()
  }

  func put(_ value: Value) {
    unsafe pthread_mutex_lock(mutex)
    self.value = value
    unsafe pthread_cond_signal(condition)
    unsafe pthread_mutex_unlock(mutex)
  }

  func take() -> Value {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    while true {
      if let value { return value }
      unsafe pthread_cond_wait(condition, mutex)
    }
  }
}
