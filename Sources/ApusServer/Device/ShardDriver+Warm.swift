import ApusCore
import ApusModel

/// Reads devices ahead of their notifications, many at the same time instead of one after the other, because they are
/// scattered in memory. This only affects speed.
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
