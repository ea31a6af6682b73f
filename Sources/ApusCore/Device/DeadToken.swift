package import ApusModel

/// A token whose app was removed from its device.
package struct DeadToken: Sendable, Hashable {
  /// The device and app of the token. It is listed under its topic and environment.
  package var claims: TokenClaims
  /// The token as its provider sent it. Nil if the service itself found it dead: then it is the one that seals the
  /// claims.
  package var token: DeviceToken?
  /// Unix milliseconds, equal to the time in the 410 of the HTTP/2 interface.
  package var sinceMilliseconds: Int64

  package init(claims: TokenClaims, token: DeviceToken?, sinceMilliseconds: Int64) {
    self.claims = claims
    self.token = token
    self.sinceMilliseconds = sinceMilliseconds
  }
}

/// Topics that devices have dropped and may list again for a while.
///
/// In memory only: after a restart, or if the queue was full, a token is found dead at the next push to it.
struct GraceQueue: Sendable {
  struct Entry: Sendable {
    var device: DeviceKey
    var topic: TopicKey
    /// Unix milliseconds of the drop.
    var droppedMilliseconds: Int64
  }

  private var entries = FIFO<Entry>()

  mutating func append(_ entry: Entry) {
    guard entries.count < Limits.droppedTopics else { return }
    entries.append(entry)
  }

  /// The oldest entry, if it was dropped at or before that time.
  mutating func next(droppedBy milliseconds: Int64) -> Entry? {
    guard let first = entries.first, first.droppedMilliseconds <= milliseconds else { return nil }
    return entries.popFirst()
  }
}
