package import ApusModel

extension Shard {
  /// The operator says that a device is gone for good.
  ///
  /// Its tokens are dead from now on, and its session is over: its connection is to be ended as well. What is stored
  /// for it, or is about to be, waits for `purge`.
  package mutating func retire(_ device: Device, sinceMilliseconds: Int64) {
    device.retiredMilliseconds = sinceMilliseconds
    for delivery in takeHeldBack(of: device) + endSession(of: device) {
      switch delivery.storage {
      case .none, .gathering:
        count(.discardedTokenUnregistered)
        forget(delivery)
      case .sealed, .durable, .superseded: leaveSession(delivery)
      }
    }
  }

  /// Notes the deaths of a retired device's tokens, and asks for what is stored for it.
  ///
  /// It comes with `drains`, like a connected device, once what is on its way to the disk is there; `purged` is the
  /// answer.
  package mutating func purge(_ device: Device) {
    guard let since = device.retiredMilliseconds else { return }
    for entry in device.registration.topics {
      noteIfDead(entry, of: device, nowMilliseconds: since)
    }
    requestDrain(device)
  }

  /// What is stored for a retired device: the topic and the order of each notification. All of it ends.
  package mutating func purged(
    _ device: Device, _ stored: [(topic: TopicKey, order: UInt64)]
  ) {
    device.drain = .none
    for notification in stored {
      // Ended before, and is in the store only until that is written.
      guard !device.hasEnded(notification.topic, order: notification.order) else { continue }
      count(.discardedTokenUnregistered)
      emptySlot(of: notification.topic, order: notification.order, device)
    }
  }
}
