import ApusModel

/// How much a spool keeps.
package struct SpoolLimits: Sendable {
  /// Bytes in the store beyond which providers wait.
  package var byteCount: Int
  /// Seconds after which a notification ends that upstream has not answered.
  package var ageSeconds: Int64
  /// Notifications that may wait for the relay's thread; further ones are refused.
  package var inboxCapacity: Int

  package init(
    byteCount: Int = 1024 << 20, ageSeconds: Int64 = 86_400, inboxCapacity: Int? = nil
  ) {
    self.byteCount = byteCount
    self.ageSeconds = ageSeconds
    self.inboxCapacity = inboxCapacity ?? Limits.relayInboxCapacity
  }
}
