/// Decides how many connections to open at once, how long to wait after a failure, and when to give up for waiting
/// pushes.
///
/// APNs may treat rapid reconnecting as a denial-of-service attack (Communicating with APNs), so a connection that
/// ended without any answer counts as a failure, like a failed attempt.
struct ConnectPlan {
  /// Consecutive failures after which the waiting pushes get their outcome.
  static let attemptLimit = 3
  /// Milliseconds to wait after the first failure; doubles with each further one.
  static let firstPauseMilliseconds: UInt64 = 250
  static let longestPauseMilliseconds: UInt64 = 8000

  enum Verdict: Equatable {
    case tryAgainLater
    /// The waiting pushes must get their outcome.
    case giveUp
  }

  /// Attempts in progress.
  private(set) var attempts = 0
  private var pauseEndMilliseconds: UInt64 = 0
  private var failures = 0

  /// Whether to connect now, with at most `limit` attempts at a time. Each true starts an attempt, which ends with
  /// ``connected()`` or ``failed(isAttempt:isFinal:entropy:nowMilliseconds:)``.
  mutating func wantsConnection(limit: Int = 1, nowMilliseconds: UInt64) -> Bool {
    guard attempts < limit, nowMilliseconds >= pauseEndMilliseconds else { return false }
    attempts += 1
    return true
  }

  mutating func connected() { attempts -= 1 }

  /// The service answered a request: connections to it work.
  mutating func answered() {
    failures = 0
    pauseEndMilliseconds = 0
  }

  /// No connection was made, or it ended without an answer.
  ///
  /// - Parameters:
  ///   - isAttempt: Whether an attempt failed, not an established connection.
  ///   - isFinal: Whether another attempt would fail in the same way.
  ///   - entropy: Random bits, so that clients that lost a service do not return in lockstep.
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

  /// A value between half of `longest` and `longest`.
  static func jittered(_ longest: UInt64, _ entropy: UInt64) -> UInt64 {
    longest / 2 + entropy % (longest / 2 + 1)
  }
}
