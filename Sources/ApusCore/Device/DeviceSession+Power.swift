package import ApusModel

// What is sent when. "10: immediately. 5: grouped and sent in bursts, with regard to the device's power. 1: its power
// comes first, and the device is never woken." ("Sending notification requests to APNs", apns-priority.)
//
//             | active | idle                                    | low power
// priority 10 | sent   | sent, where the topic may wake          | sent, where the topic may wake
// priority 5  | sent   | when the radio is in use, or in a burst | when that is over
// priority 1  | sent   | when it is active                       | when it is active
//
// A topic that does not wake, and one that is opportunistic, makes of 10 what 5 is.

extension DeviceSession {
  func maySendNow(_ delivery: Delivery, state: TopicState) -> Bool {
    if power == .active { return true }
    return delivery.notification.priority == .immediate && state == .enabled
  }

  mutating func hold(_ delivery: Delivery, nowMilliseconds: UInt64) {
    delivery.place = .held
    held.append(delivery)
    if burstMilliseconds == nil { burstMilliseconds = nowMilliseconds + Limits.burstMilliseconds }
  }

  /// Set state (0x14). What waited for use is sent now.
  package mutating func setPower(_ power: PowerState, nowMilliseconds: UInt64) {
    self.power = power
    if power == .active { release(nowMilliseconds: nowMilliseconds) { _ in true } }
  }

  /// The radio is in use: a keep-alive came, or an immediate notification goes out. What is held goes along.
  ///
  /// `mayWake` is asked about each background push: there is a budget for them.
  package mutating func radioIsInUse(
    nowMilliseconds: UInt64, mayWake: (Notification) -> Bool
  ) {
    guard power == .idle, held.count > 0 else { return }
    release(nowMilliseconds: nowMilliseconds) { notification in
      notification.priority != .whenActive
        && (!notification.isBackground || mayWake(notification))
    }
  }

  /// Whether what is held has waited for long enough to be a burst of its own.
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
