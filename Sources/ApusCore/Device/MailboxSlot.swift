package import ApusModel

/// One of the places that an app has in a device's mailbox.
///
/// "APNs stores only one notification per bundle ID" ("Viewing the status of push notifications"): an app has one
/// place, number 0, and a newer notification takes it. An app whose retention is higher has as many.
package struct MailboxSlot: Hashable, Sendable {
  package var topic: TopicKey
  package var index: UInt8

  package init(topic: TopicKey, index: UInt8 = 0) {
    self.topic = topic
    self.index = index
  }
}

/// What is known in memory of a notification that has a slot in the store.
package struct StoredFacts: Sendable, Hashable {
  package var facts: NotificationFacts
  package var slot: MailboxSlot
  package var isBackground: Bool
  /// Empty where there is none.
  package var collapseID: [UInt8]
  /// Connections that ended before the device acknowledged what it had been sent. In memory alone: after a restart, and
  /// for a device that was not looked at for long, it begins anew, and the device is given as many tries again.
  var unacknowledgedEnds: UInt8 = 0

  package init(
    facts: NotificationFacts, index: UInt8 = 0, isBackground: Bool = false,
    collapseID: [UInt8] = []
  ) {
    self.facts = facts
    slot = MailboxSlot(topic: facts.topic, index: index)
    self.isBackground = isBackground
    self.collapseID = collapseID
  }

  /// Whether a newer notification takes this one's place wherever it waits: it has the same collapse id, or both are
  /// background pushes, of which a device keeps the newest.
  func isMerged(into newer: StoredFacts) -> Bool {
    guard facts.order < newer.facts.order else { return false }
    if isBackground, newer.isBackground { return true }
    return !collapseID.isEmpty && collapseID == newer.collapseID
  }
}

extension Notification {
  /// The slot that it has in the store, or gets with the group that is being written.
  var slot: MailboxSlot { MailboxSlot(topic: claims.topic, index: slotIndex) }

  package var storedFacts: StoredFacts {
    let collapseID = collapseID
    return StoredFacts(
      facts: facts, index: slotIndex, isBackground: isBackground,
      collapseID: collapseID.isEmpty ? [] : collapseID.span.copied())
  }
}
