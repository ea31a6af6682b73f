package import ApusModel

/// What came back from upstream for one notification, as far as the client that sent it can know.
package enum UpstreamAnswer: Sendable, Hashable {
  /// Status 200. `uniqueID` is the value of `apns-unique-id`, which Apple sends in the development environment only.
  case accepted(uniqueID: String?)
  case rejected(UpstreamRejection)
  /// There is no answer: the connection was lost, or time ran out. `mayHaveArrived` is false if upstream has certainly
  /// not accepted the notification.
  case unknown(mayHaveArrived: Bool)
}

/// A rejection as upstream sent it.
package struct UpstreamRejection: Sendable, Hashable {
  /// The HTTP status.
  package var status: UInt16
  /// The `reason` in the body, known or not; empty if there is none.
  package var reason: String
  /// Unix milliseconds since when the token is dead; with status 410.
  package var timestampMilliseconds: Int64?
  /// The value of `retry-after`.
  package var retryAfterSeconds: Int?

  package init(
    status: UInt16, reason: String, timestampMilliseconds: Int64? = nil,
    retryAfterSeconds: Int? = nil
  ) {
    self.status = status
    self.reason = reason
    self.timestampMilliseconds = timestampMilliseconds
    self.retryAfterSeconds = retryAfterSeconds
  }

  /// Whether it is about what the relay shows upstream, or how often it changes that: nothing that a provider can mend.
  package var concernsCredential: Bool {
    status == 403 || known == .tooManyProviderTokenUpdates
  }

  /// The reason, if it is one of Apple's.
  package var known: Reason? { Reason(text: reason.utf8.span) }
}

extension UpstreamCause {
  /// Why it was not accepted; nil if it was.
  package init?(_ answer: UpstreamAnswer) {
    switch answer {
    case .accepted: return nil
    case .rejected(let rejection): self = rejection.known.map(Self.init) ?? .otherReason
    case .unknown(let mayHaveArrived): self = mayHaveArrived ? .noAnswer : .notConnected
    }
  }
}
