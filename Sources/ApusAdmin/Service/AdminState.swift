import ApusCore
import ApusDirectory
import Synchronization

/// The administration's state that changes while the service runs.
final class AdminState: Sendable {
  private struct State {
    var trust: Trust
    var isDraining = false
  }

  private let state: Mutex<State>
  private let changes = Mutex(())
  /// The rate limit of test pushes.
  let testPushes = Mutex(RateLimit.Bucket())

  /// Runs `body` while no other administration request makes changes.
  func changing<Result, Failure: Error>(
    _ body: () throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    try changes.withLock { _ throws(Failure) in try body() }
  }

  init(_ trust: Trust) { state = Mutex(State(trust: trust)) }

  var trust: Trust {
    get { state.withLock { $0.trust } }
    set { state.withLock { $0.trust = newValue } }
  }

  var isDraining: Bool { state.withLock { $0.isDraining } }

  func drain() { state.withLock { $0.isDraining = true } }
}
