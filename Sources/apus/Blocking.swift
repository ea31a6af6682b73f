import ApusCommand
import Glibc
import Synchronization

/// Runs asynchronous work and waits for it on the calling thread.
///
/// `main` is not asynchronous itself: the runtime would then run it on threads of its own, which would take the signals
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

/// Asynchronous work that goes on while the calling thread does something else.
struct BackgroundWork {
  private let outcome = Outcome()

  init(_ body: @escaping @Sendable () async -> Void) {
    Task { [outcome] in
      await body()
      outcome.put(nil)
    }
  }

  /// Waits for its end. Once.
  func wait() { _ = outcome.take() }
}

/// Hands the end of a task to a thread that waits for it.
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
    // EINTR is the only error of a good semaphore.
    while unsafe sem_wait(isThere) != 0 {}
    return failure.withLock { $0 }
  }
}
