/// What a client has counted since it was made.
struct ClientCounters {
  var accepted: UInt64 = 0
  var rejected: UInt64 = 0
  var unknown: UInt64 = 0
  /// Requests that were made again by themselves.
  var resent: UInt64 = 0
  var connectionsMade: UInt64 = 0
  var connectionsFailed: UInt64 = 0
  var latency = LatencyHistogram()

  mutating func count(_ outcome: SendOutcome) {
    switch outcome {
    case .accepted: accepted += 1
    case .rejected: rejected += 1
    case .unknown: unknown += 1
    }
  }
}
