/// The first 16 bytes of a SHA-256 that the relay keeps instead of a certificate, a token or a notification. The field
/// that holds it says of what.
///
/// Two different inputs never have the same one in practice: finding a pair takes 2^64 attempts.
package struct RelayDigest: Sendable, Hashable {
  package var high: UInt64
  package var low: UInt64

  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  package func hash(into hasher: inout Hasher) {
    // Evenly distributed: one half distinguishes as well as both.
    hasher.combine(low)
  }
}

/// A device token of another service, of any length, and whose it is.
package struct RelayedToken: Sendable, Hashable {
  package var app: AppID
  package var environment: Environment
  /// Of app, environment and token.
  package var digest: RelayDigest

  package init(app: AppID, environment: Environment, digest: RelayDigest) {
    self.app = app
    self.environment = environment
    self.digest = digest
  }
}

/// A notification whose resend is expected: one row of the store.
package struct RememberedNotification: Sendable, Hashable {
  package struct Place: Sendable, Hashable {
    /// Of the certificate of its sender, and the environment.
    package var sender: RelayDigest
    /// The number of the sequence.
    package var sequence: UInt64
    /// 0 for the notification that was refused, which the sequence begins after.
    package var index: UInt32

    package init(sender: RelayDigest, sequence: UInt64, index: UInt32) {
      self.sender = sender
      self.sequence = sequence
      self.index = index
    }
  }

  package var place: Place
  /// Of device token, payload and expiration.
  package var digest: RelayDigest
  /// The id under which it was accepted; nil for the refused one.
  package var original: NotificationID?
  /// Unix seconds at which it is forgotten.
  package var expiresSeconds: Int64

  package init(
    place: Place, digest: RelayDigest, original: NotificationID?, expiresSeconds: Int64
  ) {
    self.place = place
    self.digest = digest
    self.original = original
    self.expiresSeconds = expiresSeconds
  }
}
