package import ApusModel

/// Chooses the slots of the store for notifications.
///
/// APNs stores the newest notification for an offline device ("Viewing the status of push notifications"). Here an app
/// has one slot, or as many as its retention. The slots for a group's notifications are chosen when it is sealed: no
/// group is being written then, so the known state of the store is exact.
package struct SlotAssignment {
  /// Retention per app, if more than one notification per device: at most `Limits.retainedNotifications`.
  package var retentions: [AppID: Int] = [:]
  /// Memory reused by `assign`.
  private var tables: [SlotKey: SlotTable] = [:]

  /// The most notifications of an app stored for a device.
  func retention(of topic: TopicKey) -> Int {
    retentions.isEmpty ? 1 : retentions[topic.app] ?? 1
  }

  /// Assigns slots to the notifications of a group just sealed, and adds the evictions that this requires.
  ///
  /// A newer notification gets the slot of the one that it replaces, else an empty one, else that of the oldest. After
  /// an app's retention was lowered, the excess is evicted with the next notification for it, oldest first. The stored
  /// notifications of the devices of the puts must be known.
  package mutating func assign(_ entries: inout [GroupEntry]) {
    var evictions: [(index: Int, entry: GroupEntry)] = []
    let disordered = disorderedDevices(entries)
    for index in entries.indices where entries[index].kind.isPut {
      guard let delivery = entries[index].delivery else { continue }
      let isOrdered = disordered.isEmpty || !disordered.contains(ObjectIdentifier(delivery.device))
      let slot = choose(for: delivery, isOrdered: isOrdered) { evicted in
        evicted.device.pendingWrites += 1
        evictions.append((index, evicted))
      }
      guard let slot else {
        entries[index].kind = .outdated
        continue
      }
      entries[index].slot = slot
      delivery.notification.slotIndex = slot.index
      if delivery.place == .none, delivery.device.session != nil {
        delivery.device.overflowed(delivery.notification)
      }
    }
    tables.removeAll(keepingCapacity: true)
    for (index, entry) in evictions.reversed() { entries.insert(entry, at: index) }
  }

  /// Devices for which the group has a notification older than one before it.
  ///
  /// Notifications held back behind a full queue may come after newer ones, which found the backlog full as well and
  /// went to the store at once.
  private func disorderedDevices(_ entries: [GroupEntry]) -> Set<ObjectIdentifier> {
    var disordered: Set<ObjectIdentifier> = []
    let entries = entries.span
    for index in entries.indices where entries[index].kind.isPut {
      let device = entries[index].device
      let order = entries[index].order
      if order < device.newestGrouped {
        disordered.insert(ObjectIdentifier(device))
      } else {
        device.newestGrouped = order
      }
    }
    return disordered
  }

  private mutating func choose(
    for delivery: Delivery, isOrdered: Bool, evict: (GroupEntry) -> Void
  ) -> MailboxSlot? {
    let device = delivery.device
    let topic = delivery.notification.claims.topic
    let limit = retention(of: topic)
    // The common case, in which nothing needs to be examined.
    if limit == 1, isOrdered, !device.hasFurtherSlots(of: topic) {
      return MailboxSlot(topic: topic)
    }
    let key = SlotKey(device: ObjectIdentifier(device), slot: MailboxSlot(topic: topic))
    var table = tables.removeValue(forKey: key) ?? SlotTable(device.stored, topic)
    let index = table.place(delivery.storedFacts, limit: limit) { slot, order in
      evict(GroupEntry(kind: .evict, device: device, slot: slot, delivery: nil, order: order))
    }
    tables[key] = table
    return index.map { MailboxSlot(topic: topic, index: $0) }
  }
}

/// The slots of one app on one device, as a group leaves them.
struct SlotTable {
  private var taken: [StoredFacts]

  init(_ stored: [StoredFacts], _ topic: TopicKey) {
    taken = stored.filter { $0.slot.topic == topic }
  }

  /// Finds a slot for `newer` and reports evictions from others; nil if it is too old for any slot.
  mutating func place(
    _ newer: StoredFacts, limit: Int, evict: (MailboxSlot, UInt64) -> Void
  ) -> UInt8? {
    guard !taken.contains(where: newer.isMerged),
      taken.count(where: { $0.facts.order > newer.facts.order }) < limit
    else { return nil }
    var index: UInt8?
    func take(_ older: StoredFacts) {
      taken.removeAll { $0.slot == older.slot }
      if index == nil, older.slot.index < limit {
        index = older.slot.index
      } else {
        evict(older.slot, older.facts.order)
      }
    }
    for older in taken where older.isMerged(into: newer) { take(older) }
    while taken.count >= limit, let oldest = taken.min(by: { $0.facts.order < $1.facts.order }) {
      take(oldest)
    }
    var newer = newer
    newer.slot.index =
      index ?? (0...UInt8.max).first { index in !taken.contains { $0.slot.index == index } } ?? 0
    taken.append(newer)
    return newer.slot.index
  }
}
