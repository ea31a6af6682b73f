import ApusModel

/// The memory of notifications, and the share that one device or provider may use.
///
/// The bound applies to the whole service; a shard counts its own use, and learns the total at the end of each turn. A
/// queue may take a fraction of what is still free. So the longest queues reach their bound first: their providers are
/// held back, while a device with a short queue is served as before. The number of undecided notifications per
/// provider shrinks with the same fraction; at the bound each keeps `Limits.undecidedGuaranteed`.
package struct DeliveryMemory: Sendable {
  package let limitBytes: Int
  /// Bytes in the whole service, as far as this shard knows.
  package private(set) var usedBytes = 0
  /// Bytes in this shard.
  package private(set) var ownBytes = 0
  private var reportedBytes = 0

  package init(limitBytes: Int) { self.limitBytes = limitBytes }

  mutating func take(_ byteCount: Int) {
    usedBytes += byteCount
    ownBytes += byteCount
  }

  mutating func give(_ byteCount: Int) { take(-byteCount) }

  /// Bytes that this shard took since the last call; negative if it returned more.
  package mutating func takeUnreported() -> Int {
    defer { reportedBytes = ownBytes }
    return ownBytes - reportedBytes
  }

  /// Sets the bytes used by all shards.
  package mutating func learn(usedBytes: Int) {
    self.usedBytes = usedBytes + ownBytes - reportedBytes
  }

  package var freeBytes: Int { max(0, limitBytes - usedBytes) }
  /// The most bytes of one device's queue.
  package var queueBytes: Int { freeBytes / Limits.queuesPerFreeMemory }
  /// Undecided notifications of one provider connection beyond which the service stops reading from it.
  package var undecidedCount: Int {
    max(
      Limits.undecidedGuaranteed, queueBytes / Limits.payloadBytes * Limits.undecidedPerQueued)
  }
  /// Whether to warn the operator that little is left.
  package var isScarce: Bool { freeBytes < limitBytes / 8 }
}
