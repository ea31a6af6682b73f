import ApusCore
import ApusModel

/// How a notification in the spool ends.
enum SpoolEnd: Sendable, Hashable {
  case accepted
  case rejected(UpstreamCause)
  /// Upstream has declared its token dead, with this notification.
  case dead(UpstreamCause)
  /// Upstream has declared its token dead within a day before, so it was not sent.
  case withheld
  case expired
  /// It has waited for longer than any may.
  case tooOld
  /// The store did not take it; its provider was told.
  case notWritten

  /// The state in the ledger, with the code of the cause.
  var state: (DeliveryState, causeCode: UInt8) {
    switch self {
    case .accepted: (.acceptedUpstream, 0)
    case .rejected(let cause), .dead(let cause): (.rejectedUpstream, cause.code)
    case .withheld: (.discardedTokenUnregistered, LedgerCause.declaredDead.rawValue)
    case .expired: (.expired, 0)
    case .tooOld: (.expired, LedgerCause.waitedTooLong.rawValue)
    case .notWritten: (.discardedStoreFailed, 0)
    }
  }

  /// Where it is counted for `apus relay status`.
  var figure: WritableKeyPath<RelayEndings, UInt64>? {
    switch self {
    case .accepted: \.accepted
    case .rejected: \.rejected
    case .dead, .withheld: \.dead
    case .expired, .tooOld: \.expired
    case .notWritten: nil
    }
  }
}
