/// Decides when to connect, how long to wait after a failure, and when to stop trying for those who wait.
///
/// "Fast connect/disconnect cycles may be treated as a denial-of-service attempt" ("Communicating with APNs"), so a
/// connection that ended without a single answer counts as a failure like one that was never made.
struct ConnectPlan {
  /// Failures in a row after which the waiting pushes get their outcome.
  static let attemptLimit = 3
  /// Milliseconds to wait after the first failure; twice as long after each further one.
  static let firstPauseMilliseconds: UInt64 = 250
  static let longestPauseMilliseconds: UInt64 = 8000

  private enum State {
    case idle
    case connecting
    case connected
    case pausing(untilMilliseconds: UInt64)
  }

  enum Verdict: Equatable {
    case tryAgainLater
    /// The waiting pushes are to get their outcome.
    case giveUp
  }

  private var state = State.idle
  private var failures = 0

  var isConnecting: Bool { if case .connecting = state { true } else { false } }

  /// Asks whether to connect now, since pushes wait and no connection takes them. Yes is said once.
  mutating func wantsConnection(nowMilliseconds: UInt64) -> Bool {
    switch state {
    case .idle: break
    case .pausing(let until): guard nowMilliseconds >= until else { return false }
    case .connecting, .connected: return false
    }
    state = .connecting
    return true
  }

  mutating func connected() { state = .connected }

  /// The service answered a request: the connection is good.
  mutating func answered() { failures = 0 }

  /// The connection that was good takes no more requests.
  mutating func ended() { state = .idle }

  /// No connection was made, or it ended without an answer.
  ///
  /// - Parameters:
  ///   - isFinal: Whether trying again would come to the same.
  ///   - entropy: Random bits: clients that lost one service must not come back in step.
  mutating func failed(isFinal: Bool, entropy: UInt64, nowMilliseconds: UInt64) -> Verdict {
    failures = min(failures + 1, 16)
    let longest = min(
      Self.firstPauseMilliseconds << UInt64(failures - 1), Self.longestPauseMilliseconds)
    let pause = longest / 2 + entropy % (longest / 2 + 1)
    state = .pausing(untilMilliseconds: nowMilliseconds + pause)
    return isFinal || failures >= Self.attemptLimit ? .giveUp : .tryAgainLater
  }
}
