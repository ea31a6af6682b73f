import ApusThread
import Glibc

/// The threads that answer requests. Jobs are ordered by due time.
///
/// The limit of connections bounds the number of jobs: each connection has one request at a time.
package final class WebPool: Sendable {
  private struct Job {
    var dueMilliseconds: Int64
    var body: @Sendable () -> Void
  }

  private struct State {
    var jobs: [Job] = []
    /// Whether delayed jobs run at once.
    var isHurried = false
    var isStopping = false
    var running = 0
  }

  private let state = Monitor(State())

  package init(threads: Int) {
    for _ in 0..<threads { start() }
  }

  /// Runs `body` on a thread, after the given delay.
  package func submit(afterMilliseconds delay: Int64 = 0, _ body: @escaping @Sendable () -> Void) {
    let due = monotonicMilliseconds() + delay
    state.notify { state in
      let place = state.jobs.firstIndex { $0.dueMilliseconds > due } ?? state.jobs.endIndex
      state.jobs.insert(Job(dueMilliseconds: due, body: body), at: place)
    }
  }

  /// From now on runs all jobs at once, ignoring their delays.
  func hurry() { state.notify { $0.isHurried = true } }

  /// Runs all waiting jobs at once, and returns when all threads have ended.
  package func stop() {
    state.notify { state in
      state.isHurried = true
      state.isStopping = true
    }
    state.wait { $0.running == 0 ? .found(()) : .wait(untilMilliseconds: nil) }
  }

  private func start() {
    state.withLock { $0.running += 1 }
    startThread { [self] in
      while let job = next() { job.body() }
      state.notify { $0.running -= 1 }
    }
  }

  private func next() -> Job? {
    state.wait { state in
      guard let first = state.jobs.first else {
        return state.isStopping ? .found(nil) : .wait(untilMilliseconds: nil)
      }
      guard state.isHurried || first.dueMilliseconds <= monotonicMilliseconds() else {
        return .wait(untilMilliseconds: first.dueMilliseconds)
      }
      return .found(state.jobs.removeFirst())
    }
  }
}
