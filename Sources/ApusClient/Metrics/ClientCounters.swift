import ApusModel

/// A client's counters since its creation.
struct ClientCounters {
  var accepted: UInt64 = 0
  var rejected: UInt64 = 0
  var unknown: UInt64 = 0
  /// Requests that the client sent again.
  var resent: UInt64 = 0
  var connectionsMade: UInt64 = 0
  var connectionsFailed: UInt64 = 0
  /// Rejections that concern the provider token.
  var tokenRefusals: UInt64 = 0
  var latency = LatencyHistogram()
  /// By `WaitingFor`: total milliseconds that pushes waited.
  private(set) var waitedMilliseconds = [UInt64](
    repeating: 0, count: WaitingFor.service.rawValue + 1)

  mutating func waited(_ count: Int, for what: WaitingFor, milliseconds: UInt64) {
    waitedMilliseconds[what.rawValue] += UInt64(count) * milliseconds
  }

  mutating func count(_ outcome: SendOutcome) {
    switch outcome {
    case .accepted: accepted += 1
    case .rejected(let rejection):
      rejected += 1
      if rejection.status == 403 || rejection.status == 429, Self.isOfToken(rejection.reason) {
        tokenRefusals += 1
      }
    case .unknown: unknown += 1
    }
  }

  private static func isOfToken(_ reason: RejectionReason) -> Bool {
    switch reason.known {
    case .expiredProviderToken, .invalidProviderToken, .missingProviderToken,
      .tooManyProviderTokenUpdates, .unrelatedKeyIDInToken, .badEnvironmentKeyInToken:
      true
    default: false
    }
  }
}
