package import ApusCore

// Sending on behalf of another provider, for a relay.

extension APNSClient {
  /// Sends a notification as its provider sent it, and calls `done` once with the answer, on the client's thread.
  ///
  /// - Parameters:
  ///   - bundleID: That of the app at the service.
  ///   - done: Must not block.
  package func relay(
    _ notification: RelayedNotification, to bundleID: [UInt8],
    _ done: @escaping @Sendable (UpstreamAnswer) -> Void
  ) {
    let send = PendingSend(
      push: EncodedPush(relaying: notification, to: bundleID),
      timeoutMilliseconds: timeoutMilliseconds
    ) { done(UpstreamAnswer($0)) }
    submit(send)
  }
}

extension UpstreamAnswer {
  init(_ outcome: SendOutcome) {
    switch outcome {
    case .accepted(_, let uniqueID): self = .accepted(uniqueID: uniqueID)
    case .rejected(let rejection):
      self = .rejected(
        UpstreamRejection(
          status: rejection.status, reason: rejection.reason.rawValue,
          timestampMilliseconds: rejection.timestampMilliseconds,
          retryAfterSeconds: rejection.retryAfterSeconds))
    case .unknown(_, let retryMayDuplicate): self = .unknown(mayHaveArrived: retryMayDuplicate)
    }
  }
}
