import ApusModel

/// What notifications take in memory, and what one device or provider may have of it.
///
/// The bound is the whole service's; a shard counts what is its own, and learns at the end of each turn what all have.
/// A queue may take a fraction of what is still free. So the longest queues meet their bound first: their providers are
/// held back, while a device with a short queue is served as ever. What providers may have undecided shrinks with the
/// same fraction, and at the bound each keeps `Limits.undecidedGuaranteed`.
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

  /// What this shard took since it was last asked; less than 0 where it gave more back.
  package mutating func takeUnreported() -> Int {
    defer { reportedBytes = ownBytes }
    return ownBytes - reportedBytes
  }

  /// All shards together take so much.
  package mutating func learn(usedBytes: Int) {
    self.usedBytes = usedBytes + ownBytes - reportedBytes
  }

  package var freeBytes: Int { max(0, limitBytes - usedBytes) }
  /// Bytes that the queue of one device may take.
  package var queueBytes: Int { freeBytes / Limits.queuesPerFreeMemory }
  /// Notifications that one provider connection may have undecided before nothing more is read from it.
  package var undecidedCount: Int {
    max(
      Limits.undecidedGuaranteed, queueBytes / Limits.payloadBytes * Limits.undecidedPerQueued)
  }
  /// Whether the operator is to know: little is left.
  package var isScarce: Bool { freeBytes < limitBytes / 8 }
}
