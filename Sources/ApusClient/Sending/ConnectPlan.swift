/// Decides how many connections are made at a time, how long to wait after a failure, and when to stop trying for those
/// who wait.
///
/// "Fast connect/disconnect cycles may be treated as a denial-of-service attempt" ("Communicating with APNs"), so a
/// connection that ended without a single answer counts as a failure like one that was never made.
struct ConnectPlan {
  /// Failures in a row after which the waiting pushes get their outcome.
  static let attemptLimit = 3
  /// Milliseconds to wait after the first failure; twice as long after each further one.
  static let firstPauseMilliseconds: UInt64 = 250
  static let longestPauseMilliseconds: UInt64 = 8000

  enum Verdict: Equatable {
    case tryAgainLater
    /// The waiting pushes are to get their outcome.
    case giveUp
  }

  /// Attempts under way.
  private(set) var attempts = 0
  private var pauseEndMilliseconds: UInt64 = 0
  private var failures = 0

  /// Asks whether to connect now, with at most `limit` attempts at a time. Each yes is an attempt, which ends with
  /// ``connected()`` or ``failed(isAttempt:isFinal:entropy:nowMilliseconds:)``.
  mutating func wantsConnection(limit: Int = 1, nowMilliseconds: UInt64) -> Bool {
    guard attempts < limit, nowMilliseconds >= pauseEndMilliseconds else { return false }
    attempts += 1
    return true
  }

  mutating func connected() { attempts -= 1 }

  /// The service answered a request: connections to it are good.
  mutating func answered() {
    failures = 0
    pauseEndMilliseconds = 0
  }

  /// No connection was made, or it ended without an answer.
  ///
  /// - Parameters:
  ///   - isAttempt: Whether that was one of the attempts under way, and not a connection that was made.
  ///   - isFinal: Whether trying again would come to the same.
  ///   - entropy: Random bits: clients that lost one service must not come back in step.
  mutating func failed(
    isAttempt: Bool, isFinal: Bool, entropy: UInt64, nowMilliseconds: UInt64
  ) -> Verdict {
    if isAttempt { attempts -= 1 }
    failures = min(failures + 1, 16)
    let longest = min(
      Self.firstPauseMilliseconds << UInt64(failures - 1), Self.longestPauseMilliseconds)
    pauseEndMilliseconds = nowMilliseconds + Self.jittered(longest, entropy)
    return isFinal || failures >= Self.attemptLimit ? .giveUp : .tryAgainLater
  }

  /// Between half of `longest` and the whole.
  static func jittered(_ longest: UInt64, _ entropy: UInt64) -> UInt64 {
    longest / 2 + entropy % (longest / 2 + 1)
  }
}
