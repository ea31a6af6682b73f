import ApusModel

extension Shard {
  // MARK: Group commit

  /// Whether to seal a group as soon as the store can take one.
  package func isGroupDue(nowMilliseconds: UInt64) -> Bool {
    group.isDue(nowMilliseconds: nowMilliseconds)
  }

  package var isGroupEmpty: Bool { group.isEmpty }

  /// Whether deletions of a failed group wait to join another one.
  package var hasRetries: Bool { group.hasRetries }

  /// Closes the gathering group and returns its number; write its entries in this order.
  package mutating func sealGroup(
    into entries: inout [GroupEntry], nowMilliseconds: UInt64, all: Bool = false
  ) -> UInt64 {
    collectReleased { group, collect in
      group.seal(into: &entries, nowMilliseconds: nowMilliseconds, all: all, released: collect)
    }
    gatheringGroup += 1
    return gatheringGroup - 1
  }

  /// Drops notifications that were acknowledged before their group was sealed.
  package mutating func trimGroup() {
    collectReleased { group, collect in group.trim(collect) }
  }

  /// Runs `body` on the group and frees what it released; the list keeps its memory.
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

  /// The group of that number was written, or failed. Groups end in the order in which they were sealed.
  ///
  /// `isInDoubt`: the store tried and failed, so what it kept is unknown; otherwise it kept nothing.
  package mutating func committed(
    _ entries: [GroupEntry], number: UInt64, succeeded: Bool, isInDoubt: Bool = false
  ) {
    let lent = entries.span
    for index in lent.indices {
      committed(lent, at: index, number, succeeded: succeeded, isInDoubt: isInDoubt)
    }
    ledger.committed(succeeded: succeeded)
    if !succeeded { repair(entries) }
    guard !drainWaiters.isEmpty else { return }
    for waiter in drainWaiters where waiter.group <= number {
      if waiter.device.drain == .waiting(group: waiter.group) { drainIsDue(waiter.device) }
    }
    drainWaiters.removeAll { $0.group <= number }
  }

  /// By the entry's properties: a call would copy the whole.
  private mutating func committed(
    _ entries: Span<GroupEntry>, at index: Int, _ number: UInt64, succeeded: Bool, isInDoubt: Bool
  ) {
    let device = entries[index].device
    device.pendingWrites -= 1
    if isInDoubt { doubt(entries[index]) }
    switch entries[index].kind {
    case .put:
      if let delivery = entries[index].delivery {
        if succeeded { written(delivery) } else { unwritten(delivery, isInDoubt: isInDoubt) }
      }
      if succeeded { settleEnded(entries[index].slot, of: device, number) }
    case .outdated:
      if let delivery = entries[index].delivery {
        if succeeded { outdated(delivery) } else { unwritten(delivery, isInDoubt: false) }
      }
    case .delete: if succeeded { settleEnded(entries[index].slot, of: device, number) }
    case .evict:
      if succeeded {
        giveUpSlot(entries[index].slot, of: device, olderThan: entries[index].order + 1)
        settleEnded(entries[index].slot, of: device, number)
      }
    case .record(let version):
      if succeeded {
        device.durableRecordVersion = version
      } else {
        recordFailed(device)
      }
      mark(dirty: device)
    case .milestone: break
    }
    if device.pendingWrites == 0 { settle(device, succeeded: succeeded) }
  }

  /// No write of the device is pending any more.
  func settle(_ device: Device, succeeded: Bool) {
    if succeeded, !device.endedOrders.isEmpty { device.endedOrders.removeAll() }
    if !device.unwrittenOrders.isEmpty { device.unwrittenOrders.removeAll() }
    if !device.writtenOrders.isEmpty { device.writtenOrders.removeAll() }
  }

  /// The notification that had ended is out of the store now.
  private func settleEnded(_ slot: MailboxSlot, of device: Device, _ number: UInt64) {
    guard !device.endedOrders.isEmpty, let ended = device.endedOrders[slot] else { return }
    if ended.group <= number { device.endedOrders[slot] = nil }
  }

  /// After a failed group its slots are unchanged. Notifications that have not ended stay; ended ones are removed with
  /// a later group, and are ignored until then.
  private mutating func repair(_ entries: [GroupEntry]) {
    group.keepStored()
    for entry in entries {
      let device = entry.device
      switch entry.kind {
      case .put, .delete, .evict: break
      case .outdated, .record, .milestone: continue
      }
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
    let notification = delivery.notification
    let (slot, order) = (notification.slot, notification.order)
    if delivery.hasEnded {
      giveUpSlot(slot, of: device, olderThan: order)
    } else {
      let previous = device.replaceStored(by: delivery.storedFacts)
      endPrevious(previous, in: slot, of: device, olderThan: order, for: notification.facts)
    }
    device.session?.becameDurable(delivery)
    if device.pendingWrites > 0 { device.writtenOrders[slot] = order }
    releaseIfFree(delivery)
  }

  /// It got no slot beside newer notifications, which are durable now.
  private mutating func outdated(_ delivery: Delivery) {
    delivery.groupReferences -= 1
    delivery.replaced = nil
    answer(delivery)
    let facts = delivery.notification.facts
    if delivery.place == .none {
      delivery.storage = .none
      if !delivery.hasEnded { ledger.recordReplaced(facts) }
    } else {
      delivery.storage = .superseded
      ledger.counters.countStored(facts, 1)
      ledger.confirmSuperseded(facts.order)
    }
    releaseIfFree(delivery)
  }

  /// Removes the slot's notification. If it is also in the session it may still be delivered; otherwise it ends.
  private mutating func giveUpSlot(
    _ slot: MailboxSlot, of device: Device, olderThan order: UInt64
  ) {
    let previous = device.removeStored(slot)
    endPrevious(previous, in: slot, of: device, olderThan: order, for: nil)
  }

  /// Counts the previous and the new notification of a slot.
  private mutating func endPrevious(
    _ previous: NotificationFacts?, in slot: MailboxSlot, of device: Device,
    olderThan order: UInt64, for newer: NotificationFacts?
  ) {
    let isInSession = previous.map { device.session?.supersede($0.order) == true } ?? false
    if isInSession, let previous {
      // It counts as stored for as long as the store has its trace.
      ledger.confirmSuperseded(previous.order)
    } else if let previous {
      ledger.recordReplaced(previous)
      // Adding and removing one of the same kind cancel out.
      if let newer, newer.isCounted(with: previous) { return }
      ledger.counters.countStored(previous, -1)
    }
    if let newer { ledger.counters.countStored(newer, 1) }
  }

  /// The notification was rejected and stays with its provider. A copy in the session may still be delivered.
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
      if delivery.place == .none { ledger.record(.discardedStoreFailed, notification) }
    }
    delivery.replaced = nil
    releaseIfFree(delivery)
  }

  /// The notification that should replace a stored one was not written and was rejected: the old one stays. It left
  /// the session for the newer one, so a connected device gets it from the store.
  private mutating func keep(_ replaced: StoredFacts, _ device: Device) {
    guard device.stored(replaced.slot) == nil,
      device.writtenOrders[replaced.slot] ?? 0 < replaced.facts.order,
      !device.unwrittenOrders.contains(replaced.facts.order)
    else { return }
    ledger.record(.received, replaced.facts, causeCode: LedgerCause.replacementFailed.rawValue)
    addStored(replaced, device)
    device.session?.drainAgain()
    mark(dirty: device)
  }

  // MARK: Known contents

  mutating func addStored(_ stored: StoredFacts, _ device: Device) {
    device.addStored(stored)
    ledger.counters.countStored(stored.facts, 1)
  }

  /// The notification in the slot, with that order of acceptance, has ended.
  mutating func endStored(_ slot: MailboxSlot, order: UInt64, _ device: Device) {
    guard let stored = device.storedFacts(slot), stored.order == order else { return }
    _ = device.removeStored(slot)
    ledger.counters.countStored(stored, -1)
  }
}
