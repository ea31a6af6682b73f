import Glibc

/// Starts a detached thread that runs `body` once.
///
/// All signals are blocked on it: they belong to the threads of the program's loops.
package func startThread(_ body: @escaping @Sendable () -> Void) {
  let start = unsafe Unmanaged.passRetained(ThreadStart(body))
  var all = sigset_t()
  var before = sigset_t()
  unsafe sigfillset(&all)
  unsafe pthread_sigmask(SIG_BLOCK, &all, &before)
  defer { unsafe pthread_sigmask(SIG_SETMASK, &before, nil) }
  var thread = pthread_t()
  let result = unsafe pthread_create(
    &thread, nil,
    { argument in
      guard let argument = unsafe argument else { return nil }
      let start = unsafe Unmanaged<ThreadStart>.fromOpaque(argument).takeRetainedValue()
      start.body()
      return nil
    }, start.toOpaque())
  precondition(result == 0, "pthread_create failed with error \(result)")
  pthread_detach(thread)
}

private final class ThreadStart {
  let body: @Sendable () -> Void

  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}
