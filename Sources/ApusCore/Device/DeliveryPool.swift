package import ApusModel

/// Notifications and deliveries that are free, for reuse: a steady flow of notifications allocates none.
package struct DeliveryPool {
  private var deliveries: [Delivery] = []
  private var notifications: [Notification] = []

  /// Deliveries that are kept.
  private static let deliveryLimit = 4096

  /// Notifications available without allocating one.
  package var freeNotificationCount: Int { notifications.count }

  /// A notification to fill.
  package mutating func takeNotification() -> Notification {
    notifications.popLast() ?? Notification()
  }

  /// Returns a notification that never became a delivery.
  package mutating func release(_ notification: consuming Notification) {
    notifications.append(notification)
  }

  /// Adds notifications.
  package mutating func adopt(_ more: [Notification]) { notifications += more }

  /// Removes up to `count` notifications.
  package mutating func surrender(_ count: Int) -> [Notification] {
    let first = max(0, notifications.count - count)
    defer { notifications.removeLast(notifications.count - first) }
    return Array(notifications[first...])
  }

  /// Frees everything. A delivery in the pool keeps a reference to its device, which may no longer exist.
  package mutating func forgetFree() {
    deliveries = []
    notifications = []
  }

  mutating func takeDelivery(_ notification: Notification, _ device: Device) -> Delivery {
    guard let free = deliveries.popLast() else {
      return Delivery(notification: notification, device: device)
    }
    free.notification = notification
    free.device = device
    return free
  }

  /// Returns a delivery that nothing refers to any more, with its notification.
  mutating func release(_ delivery: Delivery) {
    release(delivery.notification)
    delivery.answer = nil
    delivery.storage = .none
    delivery.isUrgent = false
    delivery.isLastFromStorage = false
    delivery.hasEnded = false
    delivery.replaced = nil
    delivery.unacknowledgedEnds = 0
    if deliveries.count < Self.deliveryLimit { deliveries.append(delivery) }
  }
}
