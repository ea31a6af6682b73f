import ApusModel

extension SentQueue {
  /// How a notification ended.
  enum Settlement: Sendable, Hashable {
    case accepted
    /// With the status of the packet.
    case rejected(UInt8)
    case unknown(UnknownCause.Code, mayBeTaken: Bool)
    /// Accepted by silence, but a packet after the window rejected it.
    case rejectedLate(UInt8)
    /// Accepted by silence, but a late packet proved that it was discarded, and the result of resending it is unknown.
    case lost

    /// Whether the push already had its outcome.
    var isLate: Bool {
      switch self {
      case .rejectedLate, .lost: true
      case .accepted, .rejected, .unknown: false
      }
    }
  }

  struct Settled: Sendable, Hashable {
    var ticket: UInt64
    var id: NotificationID
    var settlement: Settlement
  }
}
