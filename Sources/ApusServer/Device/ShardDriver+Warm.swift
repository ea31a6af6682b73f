import ApusCore
import ApusModel

/// Prefetches what a worker is about to read, many objects at the same time instead of one after the other, because
/// devices and notifications are scattered in memory. This only affects speed.
///
/// Uses raw memory, because a reference would be counted, and processors do not prefetch past a count.
extension ShardDriver {
  /// Reads the start of each device of a batch of tokens.
  func warm(_ batch: [TokenClaims?]) {
    var sum: UInt = 0
    for case let claims? in batch where context.owns(claims.device) {
      sum &+= warm(DeviceKey(id: claims.device, environment: claims.environment))
    }
    warmth = sum
  }

  /// Reads the start of the device; returns a number that must be used.
  func warm(_ key: DeviceKey) -> UInt { cache.warm(key) &+ dormant.warm(key) }
}
