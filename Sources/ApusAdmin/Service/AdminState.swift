import ApusCore
import ApusDirectory
import Synchronization

/// What changes while the service runs.
final class AdminState: Sendable {
  private struct State {
    var trust: Trust
    var isDraining = false
  }

  private let state: Mutex<State>
  private let changes = Mutex(())
  /// Those that may be sent yet.
  let testPushes = Mutex(RateLimit.Bucket())

  /// Does `body` while nobody else changes anything by way of the administration.
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
