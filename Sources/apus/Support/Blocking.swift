import ApusCommand
import Glibc
import Synchronization

/// Runs asynchronous work and waits for it on the calling thread.
///
/// `main` itself is not asynchronous: the runtime would then run it on other threads, which would receive the signals
/// that a service waits for.
func runBlocking(
  _ body: @escaping @Sendable () async throws(CommandFailure) -> Void
) throws(CommandFailure) {
  let outcome = Outcome()
  Task {
    do throws(CommandFailure) {
      try await body()
      outcome.put(nil)
    } catch {
      outcome.put(error)
    }
  }
  if let failure = outcome.take() { throw failure }
}

/// Asynchronous work that runs while the calling thread does something else.
struct BackgroundWork {
  private let outcome = Outcome()

  init(_ body: @escaping @Sendable () async -> Void) {
    Task { [outcome] in
      await body()
      outcome.put(nil)
    }
  }

  /// Waits for the end. Call it once.
  func wait() { _ = outcome.take() }
}

/// Passes the outcome of a task to a thread that waits for it.
@safe private final class Outcome: @unchecked Sendable {
  private let isThere: UnsafeMutablePointer<sem_t>
  private let failure = Mutex<CommandFailure?>(nil)

  init() {
    unsafe isThere = .allocate(capacity: 1)
    unsafe sem_init(isThere, 0, 0)
  }

  deinit {
    unsafe sem_destroy(isThere)
    unsafe isThere.deallocate()
  }

  func put(_ value: CommandFailure?) {
    failure.withLock { $0 = value }
    unsafe sem_post(isThere)
  }

  func take() -> CommandFailure? {
    // The only possible error of a valid semaphore is EINTR.
    while unsafe sem_wait(isThere) != 0 {}
    return failure.withLock { $0 }
  }
}
