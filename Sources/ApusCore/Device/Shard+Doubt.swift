import ApusModel

// After a write that failed nobody can tell whether the disk kept it: an error of a sync says nothing of what had
// reached the disk before. So the store is asked again, before anything else is written: what it kept is accepted after
// all, or taken out if it has ended meanwhile. Else an acknowledged notification would come again with the next
// connection, and what is stored would not be what the counters beside it say.

/// A slot of which nobody knows what it holds.
package struct SlotInDoubt {
  package var device: Device
  package var slot: MailboxSlot
}

extension Shard {
  /// A slot that is to be read for `settleDoubt`; nil where all are known.
  package var doubt: SlotInDoubt? { doubts.last }

  /// What an entry of a failed group was about. It counts as a write under way until it was read.
  mutating func doubt(_ entry: GroupEntry) {
    switch entry.kind {
    case .put, .delete, .evict: break
    case .outdated, .record, .milestone: return
    }
    entry.device.pendingWrites += 1
    doubts.append(SlotInDoubt(device: entry.device, slot: entry.slot))
  }

  /// Takes in what the slot of `doubt` holds, while no group is being written.
  package mutating func settleDoubt(found: StoredFacts?) {
    guard let doubt = doubts.popLast() else { return }
    let (device, slot) = (doubt.device, doubt.slot)
    device.pendingWrites -= 1
    var isInSession = false
    device.session?.forEach(of: slot.topic) { delivery in
      guard delivery.storage == .inDoubt, delivery.notification.slotIndex == slot.index else {
        return
      }
      let isFound = delivery.notification.order == found?.facts.order
      delivery.storage = isFound ? .durable : .none
      if isFound { isInSession = true }
    }
    if found?.facts.order != device.stored(slot)?.facts.order {
      endOverwritten(slot, device)
      if let found { wasKept(found, device, isInSession: isInSession) }
    }
    if device.pendingWrites == 0 { settle(device, succeeded: false) }
    if doubts.isEmpty { group.keepStored() }
  }

  /// The write that failed is in the store.
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
      note(.received, found.facts, causeCode: LedgerCause.foundInStore.rawValue)
      device.session?.drainAgain()
      mark(dirty: device)
    }
    addStored(found, device)
  }

  /// What was known to have the slot is not there any more: the write that failed has replaced it.
  mutating func endOverwritten(_ slot: MailboxSlot, _ device: Device) {
    guard let known = device.stored(slot)?.facts else { return }
    endStored(slot, order: known.order, device)
    var isInSession = false
    device.session?.forEach(of: slot.topic) { delivery in
      guard delivery.notification.order == known.order else { return }
      isInSession = true
      guard delivery.storage == .durable else { return }
      delivery.storage = .superseded
      counters.countStored(known, 1)
      traces.keep(known)
    }
    if !isInSession { note(.replaced, known, causeCode: LedgerCause.foundInStore.rawValue) }
  }
}
