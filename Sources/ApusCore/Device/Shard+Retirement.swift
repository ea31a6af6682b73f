import ApusModel

extension Shard {
  /// The operator says that a device is gone for good.
  ///
  /// Its tokens are dead from now on, and its session is over: its connection is to be ended as well. What is stored
  /// for it, or is about to be, waits for `purge`.
  package mutating func retire(_ device: Device, sinceMilliseconds: Int64) {
    device.retiredMilliseconds = sinceMilliseconds
    let heldBack = takeHeldBack(of: device)
    for delivery in heldBack { note(.received, delivery.notification) }
    for delivery in heldBack + endSession(of: device) {
      switch delivery.storage {
      case .none, .gathering, .inDoubt:
        note(.discardedTokenUnregistered, delivery.notification)
        forget(delivery)
      case .sealed, .durable, .superseded: leaveSession(delivery, cause: .connectionEnded)
      }
    }
  }

  /// Notes the deaths of a retired device's tokens, and asks for what is stored for it.
  ///
  /// It comes with `drains`, like a connected device, once what is on its way to the disk is there; `purged` is the
  /// answer.
  package mutating func purge(_ device: Device) {
    guard let since = device.retiredMilliseconds else { return }
    for entry in device.registration.topics {
      noteIfDead(entry, of: device, nowMilliseconds: since)
    }
    requestDrain(device)
  }

  /// What is stored for a retired device, and the slots of rows that cannot be read. All of it ends.
  package mutating func purged(
    _ device: Device, _ stored: [StoredFacts], unreadable: [MailboxSlot] = []
  ) {
    device.drain = .none
    for found in stored {
      let (slot, order) = (found.slot, found.facts.order)
      // Ended before, and is in the store only until that is written.
      guard !device.hasEnded(slot, order: order) else { continue }
      guard isSettled(found, device) else { continue }
      note(.discardedTokenUnregistered, found.facts)
      emptySlot(slot, order: order, device)
    }
    for slot in unreadable { emptySlot(slot, order: 0, device) }
  }
}
