package import ApusModel

/// Draining the mailbox.
extension Shard {
  mutating func requestDrain(_ device: Device) {
    guard device.pendingWrites > 0 else { return drainIsDue(device) }
    // The drain must find what is being written. It waits for the group that gathers now, not for a moment without
    // pending writes: under a steady flow of pushes there is none.
    device.session?.forEach { group.promote($0) }
    group.milestone(device)
    device.drain = .waiting(group: gatheringGroup)
    drainWaiters.append((gatheringGroup, device))
  }

  mutating func drainIsDue(_ device: Device) {
    device.drain = .due
    drains.append(device)
  }

  /// How many of the notifications found for the device its session takes now: at least one.
  package func room(for found: [Notification], of device: Device) -> Int {
    let most = max(1, Limits.courierQueueFrames - (device.session?.queuedCount ?? 0))
    var bytes = memory.queueBytes
    let taken = found.prefix(most).prefix { notification in
      bytes -= notification.payload.capacity
      return bytes >= 0
    }
    return min(found.count, max(1, taken.count))
  }

  /// The device's stored notifications, oldest first, without expired ones; `more`: not all were read.
  package mutating func drained(
    _ device: Device, _ stored: [Notification], more: Bool, loopMilliseconds: UInt64
  ) {
    guard device.session != nil else {
      for notification in stored { pool.release(notification) }
      return
    }
    device.drain = .none
    var deliveries: [Delivery] = []
    var more = more
    for notification in stored {
      let slot = notification.slot
      // It arrived during the drain and is queued behind it, or was acknowledged since the drain was requested.
      if device.session?.holds(order: notification.order) == true
        || device.hasEnded(slot, order: notification.order)
      {
        device.clearOverflow(of: slot, upTo: notification.order)
        pool.release(notification)
        continue
      }
      guard !ledger.isLeaving(notification.order), isSettled(notification.storedFacts, device)
      else {
        more = true
        pool.release(notification)
        continue
      }
      device.clearOverflow(of: slot, upTo: notification.order)
      notification.isFromStorage = true
      let delivery = takeDelivery(notification, device)
      delivery.storage = .durable
      delivery.unacknowledgedEnds = device.stored(slot)?.unacknowledgedEnds ?? 0
      deliveries.append(delivery)
    }
    device.session?.drained(deliveries, more: more, nowMilliseconds: loopMilliseconds) { topic in
      device.registration[topic]?.state ?? .unlisted
    }
    for delivery in deliveries { device.session?.becameDurable(delivery) }
    mark(dirty: device)
  }

  /// Whether the shard knows a notification read from the store as the one in its slot.
  ///
  /// The store may be ahead: it has written a group and not reported it yet. What that group contains is left to the
  /// next drain. With no write pending, the notification was kept by a write reported as failed, and is accepted after
  /// all.
  mutating func isSettled(_ found: StoredFacts, _ device: Device) -> Bool {
    let known = device.stored(found.slot)?.facts
    if known?.order == found.facts.order { return true }
    guard device.pendingWrites == 0 else { return false }
    if known != nil { endOverwritten(found.slot, device) }
    ledger.record(.received, found.facts, causeCode: LedgerCause.foundInStore.rawValue)
    addStored(found, device)
    return true
  }

  /// A stored notification has expired. If it is in the session as well, it ends there. If the shard does not know it
  /// as stored, its group has not been reported yet: it is found the next time.
  package mutating func expired(_ notification: Notification, of device: Device) {
    endStored(notification, of: device, .expired)
  }

  /// A stored notification has a token of an earlier installation of the app: it is not for the current one.
  package mutating func outlived(_ notification: Notification, of device: Device) {
    endStored(notification, of: device, .discardedTokenUnregistered)
  }

  private mutating func endStored(
    _ notification: Notification, of device: Device, _ state: DeliveryState
  ) {
    let slot = notification.slot
    let order = notification.order
    guard device.session?.holds(order: order) != true, !device.hasEnded(slot, order: order),
      !ledger.isLeaving(order), isSettled(notification.storedFacts, device)
    else { return }
    ledger.record(state, notification)
    device.clearOverflow(of: slot, upTo: order)
    emptySlot(slot, order: order, device)
  }

  /// Call it when everything ready was sent: reads what is only in the store.
  package mutating func continueDrain(_ device: Device) {
    if device.session?.beginFurtherDrain() == true { requestDrain(device) }
  }

  // MARK: Retries

  // Operations that a failing disk refused and that no other event repeats are retried once a second: a device that
  // stays connected must not wait for its next connection, and a disk that keeps failing must not keep the processor
  // busy.

  /// The device's stored notifications could not be read. Its session goes on with new ones, and the drain is
  /// repeated.
  package mutating func drainFailed(_ device: Device, loopMilliseconds: UInt64) {
    drained(device, [], more: false, loopMilliseconds: loopMilliseconds)
    guard device.session != nil else { return }
    device.mustDrainAgain = true
    retryLater(device)
  }

  /// The device's record could not be written. Tokens that depend on it wait for it.
  mutating func recordFailed(_ device: Device) {
    if device.recordVersion > device.durableRecordVersion { retryLater(device) }
  }

  private mutating func retryLater(_ device: Device) {
    guard !device.awaitsRetry else { return }
    device.awaitsRetry = true
    retries.append(device)
  }

  /// Retries all of them.
  package mutating func retry() {
    guard !retries.isEmpty else { return }
    let devices = retries
    retries.removeAll(keepingCapacity: devices.count <= 1024)
    for device in devices {
      device.awaitsRetry = false
      if device.recordVersion > device.durableRecordVersion { group.record(device) }
      guard device.mustDrainAgain else { continue }
      device.mustDrainAgain = false
      device.session?.drainAgain()
      mark(dirty: device)
    }
  }
}
