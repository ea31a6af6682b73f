import ApusModel

/// When a push that the service refused, in words, is sent again by itself.
///
/// "Handling notification responses from APNs": 429 TooManyRequests, 500 InternalServerError and 503
/// ServiceUnavailable speak of the moment and not of the push; 503 Shutdown of this one connection. In each of them the
/// service says that it has not taken the notification.
enum RetryRules {
  /// The pause after the first refusal, twice as long after each further one, where the service names none.
  static let firstPauseMilliseconds: UInt64 = 1000
  static let longestPauseMilliseconds: UInt64 = 16_000

  enum Verdict: Equatable {
    /// The refusal is the outcome.
    case report
    /// Again after this time. `isForAll`: no other push is to be sent before.
    case again(afterMilliseconds: UInt64, isForAll: Bool)
    /// Again at once, on another connection.
    case elsewhere
  }

  /// - Parameter attempts: Requests that were made of the push, this one included.
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
      // What all are told at once must not come back at once.
      let pause = UInt64(clamping: seconds) * 1000
      return .again(afterMilliseconds: pause + entropy % (pause / 10 + 1), isForAll: isForAll)
    }
    let doublings = UInt64(min(max(attempts - 1, 0), 8))
    let longest = min(firstPauseMilliseconds << doublings, longestPauseMilliseconds)
    // Without its word the service is not held to be busy for all.
    return .again(
      afterMilliseconds: ConnectPlan.jittered(longest, entropy), isForAll: false)
  }
}
