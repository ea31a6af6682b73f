import ApusModel

/// One thing to be written with a commit group.
package struct GroupEntry {
  package enum Kind: Equatable, Sendable {
    /// The notification takes its slot.
    case put
    /// The slot is emptied: what it held has ended.
    case delete
    /// The slot is emptied for newer notifications, with the put that follows.
    case evict
    /// Nothing is written: as many newer notifications have the slots, or get them with this group.
    case outdated
    /// The device's record, where nothing has changed it since.
    case record(version: UInt64)
    /// Nothing is written: somebody waits for everything that gathered before.
    case milestone

    /// A pattern: `==` copies the whole.
    @inlinable package var isPut: Bool { if case .put = self { true } else { false } }
  }

  package var kind: Kind
  package var device: Device
  /// That of a put is known once `Shard.assignSlots` was called.
  package var slot: MailboxSlot
  package var delivery: Delivery?
  /// The place in the order of acceptance of what is put or taken out; else 0.
  package var order: UInt64

  /// Whether a notification takes its slot. Of an entry in a list ask its kind: the whole would be copied for the call.
  package var isPut: Bool { kind.isPut }

  /// Whether both are about the same slot of one device in one environment.
  package func hasSlot(of other: borrowing GroupEntry) -> Bool {
    device === other.device && slot == other.slot
  }

  var key: SlotKey { SlotKey(device: ObjectIdentifier(device), slot: slot) }
}

/// One device's slot in one environment, to look it up by.
struct SlotKey: Hashable {
  let device: ObjectIdentifier
  let slot: MailboxSlot

  init(device: ObjectIdentifier, slot: MailboxSlot) {
    self.device = device
    self.slot = slot
  }

}

/// What gathers while the previous group is being written.
///
/// Two lists, because of the rule that what a device acknowledges before its group is sealed never touches the disk:
/// `urgent` goes with the next group, for its provider waits and no acknowledgement can come; `lingering` was sent to
/// a connected device and waits a moment for its answer. Within a group deletions stand before puts, so that emptying
/// a slot for an old notification cannot take a newer one with it.
package struct CommitGroup {
  private var deletions: [GroupEntry] = []
  /// Deletions of a group that failed. They go along with the next one that is due for other reasons: by themselves
  /// they would keep a failing store busy.
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

  /// Whether a deletion waits for another group to go with.
  package var hasRetries: Bool { !retries.isEmpty }

  /// Gathers a notification.
  package mutating func put(_ delivery: Delivery, urgent isUrgent: Bool, nowMilliseconds: UInt64) {
    delivery.storage = .gathering
    delivery.groupReferences += 1
    delivery.device.pendingWrites += 1
    delivery.isUrgent = isUrgent
    if isUrgent {
      urgent.append(Self.putEntry(delivery))
    } else {
      delivery.gatheredMilliseconds = nowMilliseconds
      lingering.append(delivery)
    }
  }

  /// Moves a lingering notification to those that are written next.
  package mutating func promote(_ delivery: Delivery) {
    guard delivery.storage == .gathering, !delivery.isUrgent else { return }
    delivery.isUrgent = true
    delivery.groupReferences += 1
    urgent.append(Self.putEntry(delivery))
  }

  /// Takes a notification out before it is sealed: it never touches the disk.
  package mutating func cancel(_ delivery: Delivery) {
    guard delivery.storage == .gathering else { return }
    delivery.storage = .none
    delivery.device.pendingWrites -= 1
  }

  /// Empties `slot`.
  ///
  /// `order` is that of the notification which has ended.
  package mutating func delete(_ slot: MailboxSlot, order: UInt64, of device: Device) {
    device.pendingWrites += 1
    deletions.append(
      GroupEntry(kind: .delete, device: device, slot: slot, delivery: nil, order: order))
  }

  /// Empties `slot`, which a group that failed was to do.
  package mutating func deleteAgain(_ slot: MailboxSlot, order: UInt64, of device: Device) {
    let entry = GroupEntry(kind: .delete, device: device, slot: slot, delivery: nil, order: order)
    guard retriedSlots.insert(entry.key).inserted else { return }
    device.pendingWrites += 1
    retries.append(entry)
  }

  /// Takes back the deletions of slots that have a notification which has not ended.
  ///
  /// To be called when a group was not written: what they were gathered for never came into the store, and the slot has
  /// an older notification.
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

  /// Gathers the device's record as it is now.
  package mutating func record(_ device: Device) {
    append(.record(version: device.recordVersion), device)
  }

  /// Makes sure that there is a group with what has gathered for the device, and that it is written soon.
  package mutating func milestone(_ device: Device) { append(.milestone, device) }

  private mutating func append(_ kind: GroupEntry.Kind, _ device: Device) {
    device.pendingWrites += 1
    urgent.append(
      GroupEntry(
        kind: kind, device: device, slot: MailboxSlot(topic: TopicKey(app: .base)), delivery: nil,
        order: 0))
  }

  /// Whether a group is due: something urgent is there, or something has lingered long enough.
  ///
  /// Exact after `trim`; what lingers is in the order of time, so its head is the oldest.
  package func isDue(nowMilliseconds: UInt64) -> Bool {
    if !urgent.isEmpty || !deletions.isEmpty { return true }
    guard lingeringHead < lingering.count else { return false }
    return lingering[lingeringHead].gatheredMilliseconds + lingerMilliseconds <= nowMilliseconds
  }

  /// Forgets what was cancelled at the head of the lingering list, so that it cannot grow with idle entries.
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

  /// Closes the group: what is due moves into `entries`, deletions first.
  ///
  /// `released` gets each notification that stands in no group any more without having been written.
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

  /// Whether what is to be written still is: a notification may have been taken out since.
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
      // Gathered in order of time: behind the first young one there is no old one.
      guard all || isOld || delivery.storage != .gathering else { break }
      promote(delivery)
      index += 1
    }
  }

  /// Takes one reference; a promoted notification has two, and must be given back once.
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
