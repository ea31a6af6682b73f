/// When to connect to a gateway, and when to stop trying for those who wait.
///
/// A connection that ended with an error packet was a good one: the next follows at once, since each bad notification
/// costs a connection. "Fast connect/disconnect cycles may be treated as a denial-of-service attempt" ("Communicating
/// with APNs"), so those that ended without having brought anything forward count as failures.
struct ReconnectPlan: Sendable {
  /// Failures in a row after which those who wait get their outcome.
  static let attemptLimit = 3
  /// Milliseconds to wait after the first failure; twice as long after each further one.
  static let firstPauseMilliseconds: UInt64 = 250
  static let longestPauseMilliseconds: UInt64 = 8000

  private var failures = 0
  private var pausedUntilMilliseconds: UInt64 = 0

  func mayConnect(nowMilliseconds: UInt64) -> Bool { nowMilliseconds >= pausedUntilMilliseconds }

  /// A connection brought something forward.
  mutating func succeeded() {
    failures = 0
    pausedUntilMilliseconds = 0
  }

  /// No connection was made, or it brought nothing. Whether those who wait are to get their outcome.
  ///
  /// - Parameters:
  ///   - isFinal: Whether trying again would come to the same.
  ///   - entropy: Random bits: clients that lost one service must not come back in step.
  mutating func failed(isFinal: Bool, entropy: UInt64, nowMilliseconds: UInt64) -> Bool {
    failures = min(failures + 1, 16)
    let longest = min(
      Self.firstPauseMilliseconds << UInt64(failures - 1), Self.longestPauseMilliseconds)
    pausedUntilMilliseconds = nowMilliseconds + longest / 2 + entropy % (longest / 2 + 1)
    return isFinal || failures >= Self.attemptLimit
  }
}
