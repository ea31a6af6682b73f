package import ApusModel

extension Shard {
  // MARK: Draining the mailbox

  mutating func requestDrain(_ device: Device) {
    guard device.pendingWrites > 0 else { return drainIsDue(device) }
    // The drain must find what is on its way to the disk. It waits for the group that gathers now, not for a moment
    // without pending writes: under a steady flow of pushes there is none.
    device.session?.forEach { group.promote($0) }
    group.record(device)
    device.drain = .waiting(group: gatheringGroup)
    drainWaiters.append((gatheringGroup, device))
  }

  private mutating func drainIsDue(_ device: Device) {
    device.drain = .due
    drains.append(device)
  }

  /// The device's stored notifications, oldest first, expired ones removed; `more` when not all were fetched.
  package mutating func drained(
    _ device: Device, _ stored: [Notification], more: Bool, loopMilliseconds: UInt64
  ) {
    guard device.session != nil else {
      for notification in stored { release(notification) }
      return
    }
    device.drain = .none
    var deliveries: [Delivery] = []
    for notification in stored {
      let topic = notification.claims.topic
      device.clearOverflow(of: topic, upTo: notification.order)
      // Came while the drain was under way and is queued behind it, or was acknowledged since it was asked for.
      if device.session?.holds(order: notification.order) == true
        || device.hasEnded(topic, order: notification.order)
      {
        release(notification)
        continue
      }
      notification.isFromStorage = true
      let delivery = takeDelivery(notification, device)
      delivery.storage = .durable
      deliveries.append(delivery)
    }
    device.session?.drained(deliveries, more: more, nowMilliseconds: loopMilliseconds) { topic in
      device.registration[topic]?.state ?? .unlisted
    }
    mark(dirty: device)
  }

  /// A stored notification was found to be past its time. One that is in the session as well ends there.
  package mutating func expired(_ topic: TopicKey, order: UInt64, of device: Device) {
    guard !device.hasEnded(topic, order: order), device.session?.holds(order: order) != true
    else { return }
    count(.expired)
    device.clearOverflow(of: topic, upTo: order)
    emptySlot(of: topic, order: order, device)
  }

  /// To be called when everything ready was sent: fetches what waits in the store alone.
  package mutating func continueDrain(_ device: Device) {
    if device.session?.beginFurtherDrain() == true { requestDrain(device) }
  }

  // MARK: Group commit

  /// Whether a group is to be sealed as soon as the store can take one.
  package func isGroupDue(nowMilliseconds: UInt64) -> Bool {
    group.isDue(nowMilliseconds: nowMilliseconds)
  }

  package var isGroupEmpty: Bool { group.isEmpty }

  /// Closes the group that gathered and returns its number; its entries are to be written in this order.
  package mutating func sealGroup(
    into entries: inout [GroupEntry], nowMilliseconds: UInt64, all: Bool = false
  ) -> UInt64 {
    collectReleased { group, collect in
      group.seal(into: &entries, nowMilliseconds: nowMilliseconds, all: all, released: collect)
    }
    gatheringGroup += 1
    return gatheringGroup - 1
  }

  /// Drops what was acknowledged before its group was sealed.
  package mutating func trimGroup() {
    collectReleased { group, collect in group.trim(collect) }
  }

  /// Runs `body` on the group and frees what it let go; the list keeps its memory.
  private mutating func collectReleased(
    _ body: (inout CommitGroup, (Delivery) -> Void) -> Void
  ) {
    var list = released
    released = []
    body(&group) { list.append($0) }
    for delivery in list { releaseIfFree(delivery) }
    list.removeAll(keepingCapacity: true)
    released = list
  }

  /// The group of that number was written, or could not be. Groups end in the order in which they were sealed.
  package mutating func committed(_ entries: [GroupEntry], number: UInt64, succeeded: Bool) {
    if !succeeded { group.keepSlots(of: entries) }
    for entry in entries {
      entry.device.pendingWrites -= 1
      switch entry.kind {
      case .put:
        settleEnded(entry, number, succeeded: succeeded)
        if let delivery = entry.delivery { written(delivery, succeeded: succeeded) }
      case .delete: settleEnded(entry, number, succeeded: succeeded)
      case .record(let version):
        if succeeded {
          entry.device.durableRecordVersion = version
        } else {
          recordFailed(entry.device)
        }
        mark(dirty: entry.device)
      }
    }
    guard !drainWaiters.isEmpty else { return }
    for waiter in drainWaiters where waiter.group <= number {
      if waiter.device.drain == .waiting(group: waiter.group) { drainIsDue(waiter.device) }
    }
    drainWaiters.removeAll { $0.group <= number }
  }

  /// What had ended is out of the store now; where the group failed, it is there still and may come again.
  private func settleEnded(_ entry: GroupEntry, _ number: UInt64, succeeded: Bool) {
    guard let ended = entry.device.endedOrders[entry.topic] else { return }
    if ended.group <= number || !succeeded { entry.device.endedOrders[entry.topic] = nil }
  }

  private mutating func written(_ delivery: Delivery, succeeded: Bool) {
    delivery.groupReferences -= 1
    guard succeeded else {
      // The provider keeps the notification: it was not accepted. A copy that is in flight may still arrive.
      delivery.storage = .none
      let notification = delivery.notification
      if delivery.device.overflowOrders[notification.claims.topic] == notification.order {
        delivery.device.overflowOrders[notification.claims.topic] = nil
      }
      answer(delivery, rejection: Rejection(.serviceUnavailable))
      return releaseIfFree(delivery)
    }
    delivery.storage = .durable
    answer(delivery)
    if let session = delivery.device.session {
      session.forEach(of: delivery.notification.claims.topic) { other in
        if other.notification.order < delivery.notification.order, other.storage == .durable {
          other.storage = .superseded
        }
      }
    }
    releaseIfFree(delivery)
  }
}
