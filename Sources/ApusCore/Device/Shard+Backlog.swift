import ApusModel

// Notifications that a device's session has not accepted yet: see `Backlog`.

extension Shard {
  /// Not accepted yet. The device's connection watches its deadline, and a frame's connection waits without one.
  mutating func holdBack(_ delivery: Delivery) {
    notify(delivery, .heldBack)
    mark(dirty: delivery.device)
  }

  /// Tells the connection of an undecided frame how it stands, at whichever node.
  mutating func notify(_ delivery: Delivery, _ notice: Verdict.Notice) {
    guard let answer = delivery.answer,
      answer.kind == .frame
        || answer.kind == .linked && !delivery.notification.interface.refusesFloods
    else { return }
    verdicts.append(Verdict(answer: answer, notice: notice))
  }

  /// Its device takes no more for now: the provider should retry later.
  mutating func refuse(_ delivery: Delivery, _ reason: Reason) {
    answer(delivery, rejection: Rejection(reason))
    releaseIfFree(delivery)
  }

  /// There is room in the queue: accepts held-back notifications.
  mutating func admitHeldBack(_ device: Device, loopMilliseconds: UInt64) {
    while let delivery = device.session?.takeHeldBack() {
      admit(heldBack: delivery, loopMilliseconds: loopMilliseconds)
    }
  }

  mutating func admit(heldBack delivery: Delivery, loopMilliseconds: UInt64) {
    let device = delivery.device
    guard let state = device.registration[delivery.notification.claims.topic]?.state, state.flows
    else { return storeHeldBack(delivery, loopMilliseconds: loopMilliseconds) }
    let offer = device.session?.offerHeldBack(
      delivery, state: state, nowMilliseconds: loopMilliseconds)
    settle(delivery, offer, state: state, loopMilliseconds: loopMilliseconds)
    notify(delivery, .admitted)
  }

  /// Accepts a held-back notification that cannot be sent: its topic is no longer delivered, or the device is gone.
  mutating func storeHeldBack(_ delivery: Delivery, loopMilliseconds: UInt64) {
    settle(delivery, nil, state: .paused, loopMilliseconds: loopMilliseconds)
    notify(delivery, .admitted)
  }

  /// Removes and returns notifications that a session has not accepted.
  mutating func takeHeldBack(of device: Device) -> [Delivery] {
    var heldBack: [Delivery] = []
    while let delivery = device.session?.takeFirstHeldBack() { heldBack.append(delivery) }
    return heldBack
  }
}
