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
    for case let claims? in batch where worker.owns(claims.device) {
      sum &+= warm(DeviceKey(id: claims.device, environment: claims.environment))
    }
    warmth = sum
  }

  /// The same for messages of other workers.
  func warm(_ messages: [WorkerMessage]) {
    var sum: UInt = 0
    for case .submit(let notification, _) in messages {
      let claims = notification.claims
      sum &+= warm(DeviceKey(id: claims.device, environment: claims.environment))
    }
    warmth = sum
  }

  private func warm(_ key: DeviceKey) -> UInt { cache.warm(key) &+ dormant.warm(key) }

  /// Reads the devices of a group's entries, their deliveries, and the notifications of these.
  func warm(_ entries: [GroupEntry]) {
    var sum: UInt = 0
    unsafe entries.withUnsafeBufferPointer { entries in
      guard let first = unsafe UnsafeRawPointer(entries.baseAddress) else { return }
      let stride = MemoryLayout<GroupEntry>.stride
      for index in 0..<entries.count {
        let entry = unsafe first + index * stride
        sum &+= unsafe Self.lines(of: entry, at: Self.deviceOffset, count: Self.deviceLines)
        sum &+= unsafe Self.lines(of: entry, at: Self.deliveryOffset, count: Self.deliveryLines)
      }
      for index in 0..<entries.count {
        let entry = unsafe first + index * stride
        guard
          let delivery = unsafe UnsafeRawPointer(
            bitPattern: entry.load(fromByteOffset: Self.deliveryOffset, as: UInt.self))
        else { continue }
        sum &+= unsafe Self.lines(of: delivery, at: 16, count: Self.notificationLines)
      }
    }
    warmth = sum
  }

  /// Reads `count` cache lines of the object to which the reference at `place` plus `offset` points.
  private static func lines(of place: UnsafeRawPointer, at offset: Int, count: Int) -> UInt {
    guard
      let object = unsafe UnsafeRawPointer(
        bitPattern: place.load(fromByteOffset: offset, as: UInt.self))
    else { return 0 }
    var sum: UInt = 0
    for line in 0..<count { sum &+= unsafe object.load(fromByteOffset: 64 * line, as: UInt.self) }
    return sum
  }

  private static let deviceOffset = MemoryLayout<GroupEntry>.offset(of: \GroupEntry.device) ?? 0
  private static let deliveryOffset = MemoryLayout<GroupEntry>.offset(of: \GroupEntry.delivery) ?? 0
  // Not beyond the ends of the objects: a delivery has 98 bytes.
  private static let deviceLines = 5
  private static let deliveryLines = 2
  private static let notificationLines = 3
}
