import ApusModel

// After a failed write it is unknown whether the disk kept it: a sync error does not tell what had reached the disk
// before. So the store is read again before anything else is written. What it kept is accepted after all, or removed
// if it has ended meanwhile. Otherwise an acknowledged notification would be sent again with the next connection, and
// the stored data would contradict the counters stored with it.

/// A slot whose content is unknown.
package struct SlotInDoubt {
  package var device: Device
  package var slot: MailboxSlot
}

extension Shard {
  /// A slot to read for `settleDoubt`; nil if all are known.
  package var doubt: SlotInDoubt? { doubts.last }

  /// Marks the slot of an entry of a failed group. It counts as a pending write until it is read.
  mutating func doubt(_ entry: GroupEntry) {
    switch entry.kind {
    case .put, .delete, .evict: break
    case .outdated, .record, .milestone: return
    }
    entry.device.pendingWrites += 1
    doubts.append(SlotInDoubt(device: entry.device, slot: entry.slot))
  }

  /// Processes the content of the slot of `doubt`, while no group is being written.
  package mutating func settleDoubt(found: StoredFacts?) {
    guard let doubt = doubts.popLast() else { return }
    let (device, slot) = (doubt.device, doubt.slot)
    device.pendingWrites -= 1
    var kept: Delivery?
    device.session?.forEach(of: slot.topic) { delivery in
      guard delivery.storage == .inDoubt, delivery.notification.slotIndex == slot.index else {
        return
      }
      let isFound = delivery.notification.order == found?.facts.order
      delivery.storage = isFound ? .durable : .none
      if isFound { kept = delivery }
    }
    if let kept { device.session?.becameDurable(kept) }
    let isInSession = kept != nil
    if found?.facts.order != device.stored(slot)?.facts.order {
      endOverwritten(slot, device)
      if let found { wasKept(found, device, isInSession: isInSession) }
    }
    if device.pendingWrites == 0 { settle(device, succeeded: false) }
    if doubts.isEmpty { group.keepStored() }
  }

  /// The failed write is in the store.
  private mutating func wasKept(_ found: StoredFacts, _ device: Device, isInSession: Bool) {
    let (slot, order) = (found.slot, found.facts.order)
    let hasEnded =
      device.unwrittenOrders.contains(order) || device.retiredMilliseconds != nil
      || device.hasEnded(slot, order: order)
    guard isInSession || !hasEnded else {
      device.endedOrders[slot] = (max(device.endedOrders[slot]?.order ?? 0, order), gatheringGroup)
      return group.delete(slot, order: order, of: device)
    }
    if let ended = device.endedOrders[slot], ended.order >= order {
      device.endedOrders[slot] = nil
    }
    if !isInSession {
      ledger.record(.received, found.facts, causeCode: LedgerCause.foundInStore.rawValue)
      device.session?.drainAgain()
      mark(dirty: device)
    }
    addStored(found, device)
  }

  /// The known notification of the slot is gone: the failed write has replaced it.
  mutating func endOverwritten(_ slot: MailboxSlot, _ device: Device) {
    guard let known = device.stored(slot)?.facts else { return }
    endStored(slot, order: known.order, device)
    var isInSession = false
    device.session?.forEach(of: slot.topic) { delivery in
      guard delivery.notification.order == known.order else { return }
      isInSession = true
      guard delivery.storage == .durable else { return }
      delivery.storage = .superseded
      ledger.keepSuperseded(known)
    }
    if !isInSession {
      ledger.record(.replaced, known, causeCode: LedgerCause.foundInStore.rawValue)
    }
  }
}
