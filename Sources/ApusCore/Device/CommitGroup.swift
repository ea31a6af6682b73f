import ApusModel

/// One write of a commit group.
package struct GroupEntry {
  package enum Kind: Equatable, Sendable {
    /// The notification is written to its slot.
    case put
    /// The slot is emptied: its notification has ended.
    case delete
    /// The slot is emptied to make room for the put that follows.
    case evict
    /// Nothing is written: enough newer notifications have the slots, or get them with this group.
    case outdated
    /// The device's record, unless it has changed since.
    case record(version: UInt64)
    /// Nothing is written: a caller waits for everything gathered before.
    case milestone

    /// A pattern match, because `==` copies the whole entry.
    @inlinable package var isPut: Bool { if case .put = self { true } else { false } }
  }

  package var kind: Kind
  package var device: Device
  /// For a put, known once `SlotAssignment.assign` has run.
  package var slot: MailboxSlot
  package var delivery: Delivery?
  /// The order of acceptance of the notification that is written or removed; 0 for other kinds.
  package var order: UInt64

  /// Whether a notification takes its slot. For an entry in a list use its kind: a call would copy the whole.
  package var isPut: Bool { kind.isPut }

  /// Whether both concern the same slot of one device in one environment.
  package func hasSlot(of other: borrowing GroupEntry) -> Bool {
    device === other.device && slot == other.slot
  }

  var key: SlotKey { SlotKey(device: ObjectIdentifier(device), slot: slot) }
}

/// One device's slot in one environment, as a key of tables.
struct SlotKey: Hashable {
  let device: ObjectIdentifier
  let slot: MailboxSlot

  init(device: ObjectIdentifier, slot: MailboxSlot) {
    self.device = device
    self.slot = slot
  }

}

/// The writes that gather while the previous group is being written.
///
/// There are two lists, because a notification that the device acknowledges before its group is sealed never touches
/// the disk. `urgent` goes into the next group: its provider waits and no acknowledgement can come. `lingering` was
/// sent to a connected device and waits a moment for its acknowledgement. Within a group deletions precede puts, so
/// that emptying a slot for an old notification cannot remove a newer one.
package struct CommitGroup {
  private var deletions: [GroupEntry] = []
  /// Deletions of a failed group. They join the next group that is due for other reasons: on their own they would keep
  /// a failing store busy.
  private var retries: [GroupEntry] = []
  private var retriedSlots: Set<SlotKey> = []
  private var urgent: [GroupEntry] = []
  private var lingering: [Delivery] = []
  private var lingeringHead = 0
  private let lingerMilliseconds: UInt64

  package init(lingerMilliseconds: UInt64) { self.lingerMilliseconds = lingerMilliseconds }

  package var isEmpty: Bool {
    deletions.isEmpty && urgent.isEmpty && lingeringHead == lingering.count
  }

  /// Whether deletions wait to join another group.
  package var hasRetries: Bool { !retries.isEmpty }

  /// Adds a notification.
  package mutating func put(_ delivery: Delivery, urgent isUrgent: Bool, nowMilliseconds: UInt64) {
    delivery.storage = .gathering
    delivery.groupReferences += 1
    delivery.device.pendingWrites += 1
    delivery.isUrgent = isUrgent
    if isUrgent {
      urgent.append(Self.putEntry(delivery))
    } else {
      delivery.gatheredMilliseconds = nowMilliseconds
      delivery.device.lingeringWrites += 1
      lingering.append(delivery)
    }
  }

  /// Moves a lingering notification to the urgent ones.
  package mutating func promote(_ delivery: Delivery) {
    guard delivery.storage == .gathering, !delivery.isUrgent else { return }
    delivery.isUrgent = true
    delivery.groupReferences += 1
    delivery.device.lingeringWrites -= 1
    urgent.append(Self.putEntry(delivery))
  }

  /// Removes a notification before its group is sealed: it never touches the disk.
  package mutating func cancel(_ delivery: Delivery) {
    guard delivery.storage == .gathering else { return }
    delivery.storage = .none
    delivery.device.pendingWrites -= 1
    if !delivery.isUrgent { delivery.device.lingeringWrites -= 1 }
  }

  /// Empties `slot`.
  ///
  /// `order` is that of the notification that ended.
  package mutating func delete(_ slot: MailboxSlot, order: UInt64, of device: Device) {
    device.pendingWrites += 1
    deletions.append(
      GroupEntry(kind: .delete, device: device, slot: slot, delivery: nil, order: order))
  }

  /// Empties `slot` again, after a failed group.
  package mutating func deleteAgain(_ slot: MailboxSlot, order: UInt64, of device: Device) {
    let entry = GroupEntry(kind: .delete, device: device, slot: slot, delivery: nil, order: order)
    guard retriedSlots.insert(entry.key).inserted else { return }
    device.pendingWrites += 1
    retries.append(entry)
  }

  /// Cancels the deletions of slots whose notification has not ended.
  ///
  /// Call it when a group was not written: the notifications that they made room for never reached the store, so the
  /// slot still has an older one.
  package mutating func keepStored() {
    func isWanted(_ entry: GroupEntry) -> Bool {
      guard entry.device.stored(entry.slot) != nil else { return false }
      entry.device.pendingWrites -= 1
      return true
    }
    deletions.removeAll(where: isWanted)
    retries.removeAll { entry in
      guard isWanted(entry) else { return false }
      retriedSlots.remove(entry.key)
      return true
    }
  }

  /// Adds the device's record in its current version.
  package mutating func record(_ device: Device) {
    append(.record(version: device.recordVersion), device)
  }

  /// Ensures that a group covers everything gathered for the device, and that it is written soon.
  package mutating func milestone(_ device: Device) { append(.milestone, device) }

  private mutating func append(_ kind: GroupEntry.Kind, _ device: Device) {
    device.pendingWrites += 1
    urgent.append(
      GroupEntry(
        kind: kind, device: device, slot: MailboxSlot(topic: TopicKey(app: .base)), delivery: nil,
        order: 0))
  }

  /// Whether a group is due: something is urgent, or has lingered long enough.
  ///
  /// Exact after `trim`; lingering notifications are in order of time, so the first is the oldest.
  package func isDue(nowMilliseconds: UInt64) -> Bool {
    if !urgent.isEmpty || !deletions.isEmpty { return true }
    guard lingeringHead < lingering.count else { return false }
    return lingering[lingeringHead].gatheredMilliseconds + lingerMilliseconds <= nowMilliseconds
  }

  /// Drops cancelled notifications from the front of the lingering list, so that it cannot grow with idle entries.
  package mutating func trim(_ released: (Delivery) -> Void) {
    while lingeringHead < lingering.count {
      let delivery = lingering[lingeringHead]
      guard delivery.storage != .gathering || delivery.isUrgent else { break }
      lingeringHead += 1
      Self.drop(delivery, released)
    }
    if lingeringHead == lingering.count {
      lingering.removeAll(keepingCapacity: true)
      lingeringHead = 0
    } else if lingeringHead >= 1024 {
      lingering.removeFirst(lingeringHead)
      lingeringHead = 0
    }
  }

  /// Closes the group: due writes move into `entries`, deletions first.
  ///
  /// `released` gets each notification that is no longer in any group and was not written.
  package mutating func seal(
    into entries: inout [GroupEntry], nowMilliseconds: UInt64, all: Bool = false,
    released: (Delivery) -> Void
  ) {
    promoteLingering(nowMilliseconds: nowMilliseconds, all: all)
    entries.append(contentsOf: retries)
    retries.removeAll()
    retriedSlots.removeAll()
    entries.append(contentsOf: deletions)
    deletions.removeAll(keepingCapacity: true)
    if entries.isEmpty {
      swap(&entries, &urgent)
      entries.removeAll { !Self.close($0, released) }
    } else {
      for entry in urgent where Self.close(entry, released) { entries.append(entry) }
      urgent.removeAll(keepingCapacity: true)
    }
    trim(released)
  }

  /// Whether the write is still wanted: its notification may have been cancelled since.
  private static func close(_ entry: GroupEntry, _ released: (Delivery) -> Void) -> Bool {
    guard let delivery = entry.delivery else { return true }
    guard delivery.storage == .gathering else {
      drop(delivery, released)
      return false
    }
    delivery.storage = .sealed
    return true
  }

  private mutating func promoteLingering(nowMilliseconds: UInt64, all: Bool) {
    var index = lingeringHead
    while index < lingering.count {
      let delivery = lingering[index]
      let isOld = delivery.gatheredMilliseconds + lingerMilliseconds <= nowMilliseconds
      // In order of time: after the first young one there is no old one.
      guard all || isOld || delivery.storage != .gathering else { break }
      promote(delivery)
      index += 1
    }
  }

  /// Drops one reference. A promoted notification has two and must be released once.
  private static func drop(_ delivery: Delivery, _ released: (Delivery) -> Void) {
    delivery.groupReferences -= 1
    if delivery.groupReferences == 0 { released(delivery) }
  }

  private static func putEntry(_ delivery: Delivery) -> GroupEntry {
    GroupEntry(
      kind: .put, device: delivery.device,
      slot: MailboxSlot(topic: delivery.notification.claims.topic), delivery: delivery,
      order: delivery.notification.order)
  }
}
