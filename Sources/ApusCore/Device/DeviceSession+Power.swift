package import ApusModel

// When notifications are sent. Source: "Sending notification requests to APNs", apns-priority: 10 is sent immediately;
// 5 may be grouped and sent in bursts, with regard to the device's power; 1 puts the device's power first and never
// wakes it.
//
//             | active | idle                                    | low power
// priority 10 | sent   | sent, if the topic may wake             | sent, if the topic may wake
// priority 5  | sent   | when the radio is in use, or in a burst | when that is over
// priority 1  | sent   | when it is active                       | when it is active
//
// For nonwaking and opportunistic topics, 10 is treated as 5.
//
// The list of held notifications is bounded. When it is full it is sent as a burst, whatever the power state: a device
// that is woken once for a thousand notifications loses less than one whose notifications replace each other.

extension DeviceSession {
  func maySendNow(_ delivery: Delivery, state: TopicState) -> Bool {
    if power == .active { return true }
    return delivery.notification.priority == .immediate && state == .enabled
  }

  /// `isFirst`: before everything that is held.
  mutating func hold(_ delivery: Delivery, isFirst: Bool = false, nowMilliseconds: UInt64) {
    delivery.place = .held
    if isFirst { held.prepend(delivery) } else { held.append(delivery) }
    if burstMilliseconds == nil { burstMilliseconds = nowMilliseconds + Limits.burstMilliseconds }
  }

  /// Set state (0x14). When the device becomes active, everything held is sent.
  package mutating func setPower(_ power: PowerState, nowMilliseconds: UInt64) {
    self.power = power
    if power == .active { releaseHeld(nowMilliseconds: nowMilliseconds) }
  }

  /// The radio is in use: a keep-alive came, or an immediate notification is being sent. Held notifications are sent
  /// along.
  ///
  /// `mayWake` is called for each background push, because these have a budget.
  package mutating func radioIsInUse(
    nowMilliseconds: UInt64, mayWake: (Notification) -> Bool
  ) {
    guard power == .idle, held.count > 0 else { return }
    release(nowMilliseconds: nowMilliseconds) { notification in
      notification.priority != .whenActive
        && (!notification.isBackground || mayWake(notification))
    }
  }

  /// The list is full: everything held is sent.
  mutating func releaseHeld(nowMilliseconds: UInt64) {
    release(nowMilliseconds: nowMilliseconds) { _ in true }
  }

  /// Whether held notifications have waited long enough for a burst of their own.
  package func burstIsDue(nowMilliseconds: UInt64) -> Bool {
    burstMilliseconds.map { $0 <= nowMilliseconds } ?? false
  }

  private mutating func release(
    nowMilliseconds: UInt64, where mayGo: (Notification) -> Bool
  ) {
    noteWaiting(nowMilliseconds: nowMilliseconds)
    var staying = DeliveryQueue()
    while let delivery = held.popFirst() {
      guard mayGo(delivery.notification) else {
        staying.append(delivery)
        continue
      }
      delivery.place = .ready
      ready.append(delivery)
    }
    held = staying
    planBurst(nowMilliseconds: nowMilliseconds)
  }

  mutating func planBurst(nowMilliseconds: UInt64) {
    burstMilliseconds = held.count > 0 ? nowMilliseconds + Limits.burstMilliseconds : nil
  }
}
