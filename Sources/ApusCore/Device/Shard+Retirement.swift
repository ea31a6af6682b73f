import ApusModel

extension Shard {
  /// The operator retired a device.
  ///
  /// Its tokens are dead from now on, and its session ends: the caller closes its connection. What is stored or
  /// gathered for it waits for `purge`.
  package mutating func retire(_ device: Device, sinceMilliseconds: Int64) {
    device.retiredMilliseconds = sinceMilliseconds
    let heldBack = takeHeldBack(of: device)
    for delivery in heldBack { ledger.record(.received, delivery.notification) }
    for delivery in heldBack + endSession(of: device) {
      switch delivery.storage {
      case .none, .gathering, .inDoubt:
        ledger.record(.discardedTokenUnregistered, delivery.notification)
        forget(delivery)
      case .sealed, .durable, .superseded: leaveSession(delivery, cause: .connectionEnded)
      }
    }
  }

  /// Records the deaths of a retired device's tokens, and requests its stored notifications.
  ///
  /// The request is in `drains`, as for a connected device, once pending writes are done; `purged` takes the result.
  package mutating func purge(_ device: Device) {
    guard let since = device.retiredMilliseconds else { return }
    for entry in device.registration.topics {
      noteIfDead(entry, of: device, nowMilliseconds: since)
    }
    requestDrain(device)
  }

  /// The stored notifications of a retired device, and the slots of unreadable rows. All of them end.
  package mutating func purged(
    _ device: Device, _ stored: [StoredFacts], unreadable: [MailboxSlot] = []
  ) {
    device.drain = .none
    for found in stored {
      let (slot, order) = (found.slot, found.facts.order)
      // It ended before, and is in the store only until that is written.
      guard !device.hasEnded(slot, order: order) else { continue }
      guard isSettled(found, device) else { continue }
      ledger.record(.discardedTokenUnregistered, found.facts)
      emptySlot(slot, order: order, device)
    }
    for slot in unreadable { emptySlot(slot, order: 0, device) }
  }
}
