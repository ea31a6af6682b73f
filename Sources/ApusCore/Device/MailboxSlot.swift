package import ApusModel

/// One slot of an app in a device's mailbox.
///
/// APNs stores one notification per bundle id ("Viewing the status of push notifications"): an app has one slot,
/// number 0, and a newer notification replaces the older one. An app with a higher retention has as many slots.
package struct MailboxSlot: Hashable, Sendable {
  package var topic: TopicKey
  package var index: UInt8

  package init(topic: TopicKey, index: UInt8 = 0) {
    self.topic = topic
    self.index = index
  }
}

/// The facts in memory of a stored notification.
package struct StoredFacts: Sendable, Hashable {
  package var facts: NotificationFacts
  package var slot: MailboxSlot
  package var isBackground: Bool
  /// Empty if there is none.
  package var collapseID: [UInt8]
  /// Connections that ended before the device acknowledged it. In memory only: it starts again at 0 after a restart,
  /// or if the device was unloaded, and the device gets as many attempts again.
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

  /// Whether its facts are its whole state.
  package var isPlain: Bool { slot.index == 0 && !isBackground && collapseID.isEmpty }

  /// Whether a newer notification replaces this one wherever it waits: both have the same collapse id, or both are
  /// background pushes, of which a device keeps the newest.
  func isMerged(into newer: StoredFacts) -> Bool {
    guard facts.order < newer.facts.order else { return false }
    if isBackground, newer.isBackground { return true }
    return !collapseID.isEmpty && collapseID == newer.collapseID
  }
}

extension Notification {
  /// Its slot in the store, or the one that it gets with the group being written.
  package var slot: MailboxSlot { MailboxSlot(topic: claims.topic, index: slotIndex) }

  package var storedFacts: StoredFacts {
    let collapseID = collapseID
    return StoredFacts(
      facts: facts, index: slotIndex, isBackground: isBackground,
      collapseID: collapseID.isEmpty ? [] : collapseID.span.copied())
  }
}
