/// When to connect to a gateway, and when to give up for waiting pushes.
///
/// A connection that ended with an error packet worked, and the next follows immediately, since each bad notification
/// costs a connection. APNs may treat rapid reconnecting as a denial-of-service attack (Communicating with APNs), so
/// connections without progress count as failures.
struct ReconnectPlan: Sendable {
  /// Consecutive failures after which the waiting pushes get their outcome.
  static let attemptLimit = 3
  /// Milliseconds to wait after the first failure; doubles with each further one.
  static let firstPauseMilliseconds: UInt64 = 250
  static let longestPauseMilliseconds: UInt64 = 8000

  private var failures = 0
  private var pausedUntilMilliseconds: UInt64 = 0

  func mayConnect(nowMilliseconds: UInt64) -> Bool { nowMilliseconds >= pausedUntilMilliseconds }

  /// A connection made progress.
  mutating func succeeded() {
    failures = 0
    pausedUntilMilliseconds = 0
  }

  /// A connection attempt failed, or a connection made no progress. Returns whether the waiting pushes must get their
  /// outcome.
  ///
  /// - Parameters:
  ///   - isFinal: Whether another attempt would fail in the same way.
  ///   - entropy: Random bits, so that clients that lost a service do not return in lockstep.
  mutating func failed(isFinal: Bool, entropy: UInt64, nowMilliseconds: UInt64) -> Bool {
    failures = min(failures + 1, 16)
    let longest = min(
      Self.firstPauseMilliseconds << UInt64(failures - 1), Self.longestPauseMilliseconds)
    pausedUntilMilliseconds = nowMilliseconds + longest / 2 + entropy % (longest / 2 + 1)
    return isFinal || failures >= Self.attemptLimit
  }
}
