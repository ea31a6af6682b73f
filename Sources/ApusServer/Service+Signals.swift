import ApusAdmin
import ApusDirectory
import ApusLog
package import ApusLoop
import ApusModel
import ApusThread
import Glibc

// What the signals of an operator or a service manager do.

extension Service {
  /// Waits for SIGTERM or SIGINT, reloading on SIGHUP; then stops.
  ///
  /// The service manager is told each of these, and is sent signs of life while all workers go on.
  ///
  /// The signals are taken by this thread alone: they are blocked in every other, so this must have been prepared with
  /// ``blockSignals()`` before `start`.
  package func runUntilSignal(_ manager: ServiceManager? = nil) {
    var set = sigset_t()
    Self.fill(&set)
    let heartbeat = Heartbeat()
    manager?.ready(status)
    while true {
      // Three times in the manager's interval: one that comes late does not end the service.
      if manager?.watchdogMilliseconds != nil, heartbeat.beat(everyone.map(\.loop)) {
        manager?.isAlive()
      }
      let milliseconds = min(60_000, (manager?.watchdogMilliseconds ?? 180_000) / 3)
      var wait = timespec(
        tv_sec: Int(milliseconds / 1000), tv_nsec: Int(milliseconds % 1000) * 1_000_000)
      let signal = unsafe sigtimedwait(&set, nil, &wait)
      switch signal {
      case SIGHUP:
        manager?.reloading(monotonicMicroseconds: EventLoop.monotonicMilliseconds() * 1000)
        reload()
        manager?.ready(status)
      case SIGTERM, SIGINT:
        manager?.stopping()
        let begin = EventLoop.monotonicMilliseconds()
        return stop { isInterrupted(milliseconds: $0, sinceMilliseconds: begin) }
      default: break
      }
      tickets.rotateIfDue()
    }
  }

  /// Reads the data directory again, whether or not it changed, and returns when every worker goes by it. What is wrong
  /// with it is logged, and everything stays as it was.
  package func reload() {
    let isDone = Monitor<Void?>(nil)
    watch.loop.perform { [watch] in
      watch.reload()
      isDone.notify { $0 = () }
    }
    isDone.take()
    for worker in everyone { worker.ask { _ in } }
  }

  /// For the manager's own display.
  private var status: String {
    let count = listeners.reduce(0) { $0 + $1.addresses.count }
    return "serving on \(count) \(count == 1 ? "address" : "addresses")"
  }

  /// Whether another SIGTERM or SIGINT came in that time: then the operator does not want to wait. One that comes at
  /// once is the first one again: a terminal and a launcher such as timeout(1) both send theirs.
  ///
  /// - Parameter begin: When the first one came.
  private func isInterrupted(milliseconds: Int64, sinceMilliseconds begin: UInt64) -> Bool {
    var set = sigset_t()
    Self.fill(&set)
    var wait = timespec(tv_sec: 0, tv_nsec: Int(milliseconds) * 1_000_000)
    let signal = unsafe sigtimedwait(&set, nil, &wait)
    guard signal == SIGTERM || signal == SIGINT,
      EventLoop.monotonicMilliseconds() >= begin + Limits.repeatedSignalMilliseconds
    else { return false }
    log(.warning, "shutting down at once", .text("reason", "a second signal"))
    // What is left closes the store. A third signal does not wait even for that: what was accepted is durable.
    unsafe sigdelset(&set, SIGHUP)
    unsafe pthread_sigmask(SIG_UNBLOCK, &set, nil)
    return true
  }

  /// Whether SIGTERM or SIGINT arrived since the last call, for one who waits before there is a service.
  package static func takeStopSignal() -> Bool {
    var set = sigset_t()
    fill(&set)
    var wait = timespec()
    let signal = unsafe sigtimedwait(&set, nil, &wait)
    return signal == SIGTERM || signal == SIGINT
  }

  /// Makes ``runUntilSignal(_:)`` return as if the operator had asked for it. On any thread.
  package static func requestStop() { kill(getpid(), SIGTERM) }

  /// Keeps the signals of ``runUntilSignal()`` away from all threads that are started from now on, and SIGPIPE from the
  /// process.
  package static func blockSignals() {
    var set = sigset_t()
    fill(&set)
    unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    // The reader of a log on a pipe may end; a line that nobody reads must not end the service.
    signal(SIGPIPE, SIG_IGN)
  }

  private static func fill(_ set: inout sigset_t) {
    unsafe sigemptyset(&set)
    for signal in [SIGTERM, SIGINT, SIGHUP] { unsafe sigaddset(&set, signal) }
  }
}
