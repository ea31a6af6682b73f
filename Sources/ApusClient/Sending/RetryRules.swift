import ApusModel

/// Decides when a push that the service rejected is sent again.
///
/// In Handling notification responses from APNs, 429 TooManyRequests, 500 InternalServerError and 503
/// ServiceUnavailable concern the moment, not the push, and 503 Shutdown concerns this connection. With each of them
/// the service states that it has not accepted the notification.
enum RetryRules {
  /// The pause after the first rejection if the service names none; doubles with each further one.
  static let firstPauseMilliseconds: UInt64 = 1000
  static let longestPauseMilliseconds: UInt64 = 16_000

  enum Verdict: Equatable {
    /// The rejection is the outcome.
    case report
    /// Again after this time. `isForAll`: no other push may be sent before.
    case again(afterMilliseconds: UInt64, isForAll: Bool)
    /// Again immediately, on another connection.
    case elsewhere
  }

  /// - Parameter attempts: Requests made for the push, including this one.
  static func verdict(
    on rejection: PushRejection, attempts: Int, entropy: UInt64
  ) -> Verdict {
    let isForAll: Bool
    switch rejection.reason.known {
    case .shutdown: return .elsewhere
    case .tooManyRequests: isForAll = false
    case .internalServerError, .serviceUnavailable: isForAll = true
    default: return .report
    }
    if let seconds = rejection.retryAfterSeconds {
      // Spreads the retries, since all pushes got the same time.
      let pause = UInt64(clamping: seconds) * 1000
      return .again(afterMilliseconds: pause + entropy % (pause / 10 + 1), isForAll: isForAll)
    }
    let doublings = UInt64(min(max(attempts - 1, 0), 8))
    let longest = min(firstPauseMilliseconds << doublings, longestPauseMilliseconds)
    // Without `retry-after` the service is not assumed to be busy for all.
    return .again(
      afterMilliseconds: ConnectPlan.jittered(longest, entropy), isForAll: false)
  }
}
