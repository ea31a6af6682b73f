import ApusModel

/// Notifications that found the queue of a connected device full. None of them is accepted yet: their providers wait.
///
/// It also tracks the device's progress. A device that acknowledges keeps its providers waiting for at most
/// `Limits.heldBackMilliseconds`; then its queue grows beyond its usual length, so that nothing is lost and nothing
/// behind it on a binary connection waits longer. A device without an acknowledgement for
/// `Limits.courierStallMilliseconds` has stalled: HTTP/2 requests for it are answered 429 TooManyRequests, and frames
/// of the binary interface, which has no such answer, enter the queue at once.
struct Backlog {
  private var queue = DeliveryQueue()
  /// Loop milliseconds of the newest acknowledgement, or since when one has been due.
  private var progressMilliseconds: UInt64 = 0

  var count: Int { queue.count }

  /// The device acknowledged a notification, or an acknowledgement became due.
  mutating func noteProgress(nowMilliseconds: UInt64) { progressMilliseconds = nowMilliseconds }

  /// Whether an acknowledgement is overdue.
  func hasStalled(nowMilliseconds: UInt64) -> Bool { stallMilliseconds <= nowMilliseconds }

  private var stallMilliseconds: UInt64 { progressMilliseconds + Limits.courierStallMilliseconds }

  /// What to do with a notification that found the queue full, or others waiting here.
  enum Entry {
    case wait
    /// Enters the queue although it is full.
    case crowdIn
    case refuse
  }

  func entry(of notification: Notification, nowMilliseconds: UInt64) -> Entry {
    let mayRefuse = notification.interface.refusesFloods
    if mayRefuse, count >= Limits.heldBackNotifications { return .refuse }
    guard count == 0, hasStalled(nowMilliseconds: nowMilliseconds) else { return .wait }
    return mayRefuse ? .refuse : .crowdIn
  }

  mutating func append(_ delivery: Delivery, nowMilliseconds: UInt64) {
    delivery.place = .heldBack
    delivery.gatheredMilliseconds = nowMilliseconds
    queue.append(delivery)
  }

  /// The notification that has waited longest.
  mutating func popFirst() -> Delivery? {
    guard let delivery = queue.popFirst() else { return nil }
    delivery.place = .none
    return delivery
  }

  func holds(order: UInt64) -> Bool { queue.contains { $0.notification.order == order } }

  /// The first notification, if its wait is over, and what to do with it. `hasSpace`: whether a crowded queue still
  /// takes one.
  mutating func popOverdue(
    hasSpace: Bool, nowMilliseconds: UInt64
  ) -> (delivery: Delivery, entry: Entry)? {
    guard let first = queue.first else { return nil }
    let entry: Entry
    if hasStalled(nowMilliseconds: nowMilliseconds), first.notification.interface.refusesFloods {
      entry = .refuse
    } else if hasSpace {
      guard waitEnd(of: first) <= nowMilliseconds else { return nil }
      entry = .crowdIn
    } else {
      guard lastEnd(of: first) <= nowMilliseconds else { return nil }
      entry = first.notification.interface.refusesFloods ? .refuse : .crowdIn
    }
    return popFirst().map { ($0, entry) }
  }

  /// When `popOverdue` will return something; nil if nothing waits.
  func deadlineMilliseconds(hasSpace: Bool) -> UInt64? {
    guard let first = queue.first else { return nil }
    let end = hasSpace ? waitEnd(of: first) : lastEnd(of: first)
    return first.notification.interface.refusesFloods ? min(end, stallMilliseconds) : end
  }

  private func waitEnd(of delivery: Delivery) -> UInt64 {
    min(delivery.gatheredMilliseconds + Limits.heldBackMilliseconds, stallMilliseconds)
  }

  private func lastEnd(of delivery: Delivery) -> UInt64 {
    delivery.gatheredMilliseconds + Limits.heldBackAtMostMilliseconds
  }
}
