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
    var more = more
    for notification in stored {
      let slot = notification.slot
      // Came while the drain was under way and is queued behind it, or was acknowledged since it was asked for.
      if device.session?.holds(order: notification.order) == true
        || device.hasEnded(slot, order: notification.order)
      {
        device.clearOverflow(of: slot, upTo: notification.order)
        release(notification)
        continue
      }
      guard isSettled(notification.storedFacts, device) else {
        more = true
        release(notification)
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
    mark(dirty: device)
  }

  /// Whether the shard knows a notification that was read from the store as the one that has its slot.
  ///
  /// The store may be ahead: it has written a group and not said so yet. What came in with that is for the next drain.
  /// With no write under way it is what a write kept that had been reported as failed, and is accepted after all.
  mutating func isSettled(_ found: StoredFacts, _ device: Device) -> Bool {
    let known = device.stored(found.slot)?.facts
    if known?.order == found.facts.order { return true }
    guard device.pendingWrites == 0 else { return false }
    if let known {
      endStored(found.slot, order: known.order, device)
      if device.session?.holds(order: known.order) != true {
        note(.replaced, known, causeCode: LedgerCause.foundInStore.rawValue)
      }
    }
    note(.received, found.facts, causeCode: LedgerCause.foundInStore.rawValue)
    addStored(found, device)
    return true
  }

  /// A stored notification was found to be past its time. One that is in the session as well ends there, and one that
  /// the shard does not know as stored is on its way: it is found the next time.
  package mutating func expired(_ notification: Notification, of device: Device) {
    let slot = notification.slot
    let order = notification.order
    guard device.session?.holds(order: order) != true, !device.hasEnded(slot, order: order),
      isSettled(notification.storedFacts, device)
    else { return }
    note(.expired, notification)
    device.clearOverflow(of: slot, upTo: order)
    emptySlot(slot, order: order, device)
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

  /// Whether something that a failed group was to take out of the store waits for another group.
  package var hasRetries: Bool { group.hasRetries }

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
  ///
  /// `isInDoubt`: the store tried and failed, so that nobody can tell what it kept; else it has kept nothing.
  package mutating func committed(
    _ entries: [GroupEntry], number: UInt64, succeeded: Bool, isInDoubt: Bool = false
  ) {
    let lent = entries.span
    for index in lent.indices {
      committed(lent[index], number, succeeded: succeeded, isInDoubt: isInDoubt)
    }
    if !succeeded { repair(entries) }
    guard !drainWaiters.isEmpty else { return }
    for waiter in drainWaiters where waiter.group <= number {
      if waiter.device.drain == .waiting(group: waiter.group) { drainIsDue(waiter.device) }
    }
    drainWaiters.removeAll { $0.group <= number }
  }

  private mutating func committed(
    _ entry: borrowing GroupEntry, _ number: UInt64, succeeded: Bool, isInDoubt: Bool
  ) {
    let device = entry.device
    device.pendingWrites -= 1
    if isInDoubt { doubt(entry) }
    switch entry.kind {
    case .put:
      if let delivery = entry.delivery {
        if succeeded { written(delivery) } else { unwritten(delivery, isInDoubt: isInDoubt) }
      }
      if succeeded { settleEnded(entry.slot, of: device, number) }
    case .outdated:
      if let delivery = entry.delivery {
        if succeeded { outdated(delivery) } else { unwritten(delivery, isInDoubt: false) }
      }
    case .delete: if succeeded { settleEnded(entry.slot, of: device, number) }
    case .evict:
      if succeeded {
        giveUpSlot(entry.slot, of: device, olderThan: entry.order + 1)
        settleEnded(entry.slot, of: device, number)
      }
    case .record(let version):
      if succeeded {
        device.durableRecordVersion = version
      } else {
        recordFailed(device)
      }
      mark(dirty: device)
    }
    if device.pendingWrites == 0 { settle(device, succeeded: succeeded) }
  }

  /// Nothing is on its way to the disk any more.
  func settle(_ device: Device, succeeded: Bool) {
    if succeeded, !device.endedOrders.isEmpty { device.endedOrders.removeAll() }
    if !device.unwrittenOrders.isEmpty { device.unwrittenOrders.removeAll() }
    if !device.writtenOrders.isEmpty { device.writtenOrders.removeAll() }
  }

  /// What had ended is out of the store now.
  private func settleEnded(_ slot: MailboxSlot, of device: Device, _ number: UInt64) {
    guard !device.endedOrders.isEmpty, let ended = device.endedOrders[slot] else { return }
    if ended.group <= number { device.endedOrders[slot] = nil }
  }

  /// After a failed group its slots are as they were. What has not ended stays; what has ended is taken out with a
  /// later group, and not taken for anything else until then.
  private mutating func repair(_ entries: [GroupEntry]) {
    group.keepStored()
    for entry in entries {
      let device = entry.device
      if entry.kind == .outdated { continue }
      if case .record = entry.kind { continue }
      let slot = entry.slot
      let ended = device.endedOrders[slot]?.order
      if let kept = device.stored(slot) {
        if let ended, ended >= kept.facts.order { device.endedOrders[slot] = nil }
      } else if entry.kind == .delete || ended != nil {
        device.endedOrders[slot] = (max(ended ?? 0, entry.order), gatheringGroup)
        group.deleteAgain(slot, order: entry.order, of: device)
      }
    }
  }

  private mutating func written(_ delivery: Delivery) {
    delivery.groupReferences -= 1
    delivery.storage = .durable
    delivery.replaced = nil
    answer(delivery)
    let device = delivery.device
    let stored = delivery.storedFacts
    giveUpSlot(stored.slot, of: device, olderThan: stored.facts.order)
    if !delivery.hasEnded { addStored(stored, device) }
    if device.pendingWrites > 0 { device.writtenOrders[stored.slot] = stored.facts.order }
    releaseIfFree(delivery)
  }

  /// It had no slot beside the newer ones, which are durable now.
  private mutating func outdated(_ delivery: Delivery) {
    delivery.groupReferences -= 1
    delivery.storage = delivery.place == .none ? .none : .superseded
    delivery.replaced = nil
    answer(delivery)
    if !delivery.hasEnded, delivery.place == .none { note(.replaced, delivery.notification) }
    releaseIfFree(delivery)
  }

  /// Whoever had the slot has it no more. One that is in the session as well may still arrive, the others end.
  private mutating func giveUpSlot(
    _ slot: MailboxSlot, of device: Device, olderThan order: UInt64
  ) {
    let previous = device.removeStored(slot)?.facts
    var isInSession = false
    device.session?.forEach(of: slot.topic) { other in
      guard other.notification.order < order else { return }
      if other.storage == .durable, other.notification.slotIndex == slot.index {
        other.storage = .superseded
      }
      if other.notification.order == previous?.order { isInSession = true }
    }
    guard let previous else { return }
    counters.countStored(previous, -1)
    if !isInSession { note(.replaced, previous) }
  }

  /// The provider keeps the notification: it was not accepted. A copy that is in the session may still arrive.
  private mutating func unwritten(_ delivery: Delivery, isInDoubt: Bool) {
    delivery.groupReferences -= 1
    delivery.storage = isInDoubt && delivery.place != .none ? .inDoubt : .none
    let notification = delivery.notification
    let device = delivery.device
    if device.overflowOrders[notification.slot] == notification.order {
      device.overflowOrders[notification.slot] = nil
    }
    answer(delivery, rejection: Rejection(.serviceUnavailable))
    if delivery.hasEnded {
      device.unwrittenOrders.insert(notification.order)
    } else {
      if let replaced = delivery.replaced { keep(replaced, device) }
      if delivery.place == .none { note(.discardedStoreFailed, notification) }
    }
    delivery.replaced = nil
    releaseIfFree(delivery)
  }

  /// What was to replace a stored notification was not written, and its provider told so: the old one stays.
  private mutating func keep(_ replaced: StoredFacts, _ device: Device) {
    guard device.stored(replaced.slot) == nil,
      device.writtenOrders[replaced.slot] ?? 0 < replaced.facts.order,
      !device.unwrittenOrders.contains(replaced.facts.order)
    else { return }
    note(.received, replaced.facts, causeCode: LedgerCause.replacementFailed.rawValue)
    addStored(replaced, device)
  }
}
