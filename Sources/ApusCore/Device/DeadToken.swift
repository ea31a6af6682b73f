package import ApusModel

/// A token whose app was found gone from its device.
package struct DeadToken: Sendable, Hashable {
  /// Whose it is: the list that it belongs to is that of its topic and environment.
  package var claims: TokenClaims
  /// As its provider addressed it. Nil when the service found it dead by itself: then it is the one that the claims
  /// are sealed to.
  package var token: DeviceToken?
  /// Unix milliseconds: the same as in the 410 of the HTTP/2 interface.
  package var sinceMilliseconds: Int64

  package init(claims: TokenClaims, token: DeviceToken?, sinceMilliseconds: Int64) {
    self.claims = claims
    self.token = token
    self.sinceMilliseconds = sinceMilliseconds
  }
}

/// Topics that devices have dropped and may list again for a while.
///
/// In memory alone: after a restart a token is found dead at the next push to it. The same holds for those that a full
/// queue does not take.
struct GraceQueue: Sendable {
  struct Entry: Sendable {
    var device: DeviceKey
    var topic: TopicKey
    /// Unix milliseconds at which the device dropped it.
    var droppedMilliseconds: Int64
  }

  private var entries = FIFO<Entry>()

  mutating func append(_ entry: Entry) {
    guard entries.count < Limits.droppedTopics else { return }
    entries.append(entry)
  }

  /// The oldest, if it was dropped at that time or before.
  mutating func next(droppedBy milliseconds: Int64) -> Entry? {
    guard let first = entries.first, first.droppedMilliseconds <= milliseconds else { return nil }
    return entries.popFirst()
  }
}
