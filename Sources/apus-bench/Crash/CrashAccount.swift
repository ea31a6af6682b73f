import ApusModel

/// What was sent, what the service said to it, and what devices showed: the books that must balance after the last
/// restart.
///
/// A notification is known by its number, which stands in its payload. Events are numbered too, in the order in which
/// this process came to know of them. A *life* of the service lasts from its start to its kill; they are numbered.
struct CrashAccount {
  /// What the service said to a notification.
  enum Outcome {
    /// Nothing yet.
    case open
    case accepted
    /// Certainly not taken: it must never arrive.
    case refused
    /// The connection ended first. It may arrive or not.
    case unknown
  }

  struct Entry {
    var device: Int
    /// The binary connection that it was sent on, on which order is kept; nil where it is not.
    var stream: Int?
    /// False: expiration 0, so that it ends with the service's process.
    var isStored: Bool
    /// Whether it has a collapse id: of those of one device that have one, the newest takes the place of the others.
    var collapses: Bool
    var sentAt: Int
    var sentLife: Int
    var outcome = Outcome.open
    var outcomeAt = Int.max
    var outcomeLife = Int.max
    /// How often it arrived, and how often the device took it, rather than having no room.
    var timesSeen = 0
    var timesTaken = 0
    var firstSeenAt = Int.max
    /// The device's connection that brought it last.
    var lastConnection = -1
    var messageID: UInt32 = 0
    var id: NotificationID?
    /// Connections of one life that ended, or will end, without an acknowledgement.
    var declines = 0
    var declinedLife = 0
    /// The service may have set it aside as one that its device never acknowledges.
    var mayBeSetAside = false

    /// An event by which the service had decided about it, if it ever did.
    fileprivate var decidedBy: Int {
      min(outcome == .accepted ? outcomeAt : .max, firstSeenAt)
    }
  }

  /// What contradicts the service's promise.
  enum Violation: Hashable, CustomStringConvertible {
    case lost(Int)
    case otherDevice(Int, seenBy: Int)
    case refusedYetSeen(Int)
    case seenAfterRestart(Int, life: Int)
    case idChanged(Int)
    case twiceOnOneConnection(Int)
    case damaged(device: Int)
    case withoutFinalState(Int)
    case unaccounted(Int)
    case uncounted(Int)
    case unbalanced(topic: UInt32)

    var description: String {
      switch self {
      case .lost(let number): "\(number) was accepted and neither arrived nor was replaced"
      case .otherDevice(let number, let device): "\(number) arrived at device \(device)"
      case .refusedYetSeen(let number): "\(number) was refused and arrived"
      case .seenAfterRestart(let number, let life):
        "\(number) was not to be stored and arrived in life \(life)"
      case .idChanged(let number): "\(number) came again with another message id or identity"
      case .twiceOnOneConnection(let number): "\(number) came twice on one connection"
      case .withoutFinalState(let number):
        "\(number) was accepted, and the ledger does not say how it ended"
      case .unaccounted(let number):
        "\(number) was accepted and not to be stored, and its end is neither recorded nor counted"
      case .uncounted(let count): "the counters lack \(count) notifications that were accepted"
      case .unbalanced(let topic): "the counters of app \(topic) do not add up"
      case .damaged(let device): "device \(device) got a payload that nobody sent"
      }
    }
  }

  private(set) var entries: [Entry] = []
  private(set) var violations: [Violation] = []
  /// Number of the service's current life; from 1.
  var life = 0
  /// Devices that never have two accepted notifications under way: nothing of theirs may be replaced.
  let aloneDevices: Range<Int>
  /// How many notifications wait for a device.
  let retention: Int
  private var lastEvent = 0
  /// Accepted, to be stored, not taken: by number.
  private(set) var awaited: Set<Int> = []

  init(aloneDevices: Range<Int>, retention: Int = 1) {
    self.aloneDevices = aloneDevices
    self.retention = retention
  }

  private mutating func nextEvent() -> Int {
    lastEvent += 1
    return lastEvent
  }

  // MARK: Senders

  /// Enters a notification that is about to be sent, and returns its number.
  mutating func send(
    to device: Int, on stream: Int? = nil, isStored: Bool, collapses: Bool = false,
    id: NotificationID? = nil
  ) -> Int {
    entries.append(
      Entry(
        device: device, stream: stream, isStored: isStored, collapses: collapses,
        sentAt: nextEvent(), sentLife: life, id: id))
    return entries.count - 1
  }

  mutating func end(_ number: Int, _ outcome: Outcome) {
    guard entries[number].outcome == .open else { return }
    entries[number].outcome = outcome
    entries[number].outcomeAt = nextEvent()
    entries[number].outcomeLife = life
    if outcome == .refused, entries[number].timesSeen > 0 {
      violations.append(.refusedYetSeen(number))
    }
    if outcome == .accepted, entries[number].isStored, entries[number].timesTaken == 0 {
      awaited.insert(number)
    }
  }

  // MARK: Devices

  /// A device got a notification.
  ///
  /// - Parameters:
  ///   - connection: a number that no other connection of any device has.
  ///   - connectedLife: the life in which the connection was made.
  ///   - isTaken: false where the device has no room: it has to come again.
  mutating func arrive(
    _ number: Int, at device: Int, messageID: UInt32, id: NotificationID?, connection: Int,
    connectedLife: Int, isTaken: Bool = true
  ) {
    guard entries.indices.contains(number) else {
      return violations.append(.damaged(device: device))
    }
    let event = nextEvent()
    var entry = entries[number]
    if entry.device != device { violations.append(.otherDevice(number, seenBy: device)) }
    if entry.outcome == .refused { violations.append(.refusedYetSeen(number)) }
    if !entry.isStored, !(entry.sentLife...min(entry.outcomeLife, life)).contains(connectedLife) {
      violations.append(.seenAfterRestart(number, life: connectedLife))
    }
    if entry.timesSeen > 0, entry.messageID != messageID || entry.id != id {
      violations.append(.idChanged(number))
    }
    // The apns-id is the sender's where it gave one.
    if entry.timesSeen == 0, let own = entry.id, own != id {
      violations.append(.idChanged(number))
    }
    if entry.lastConnection == connection { violations.append(.twiceOnOneConnection(number)) }
    if entry.timesSeen == 0 { entry.firstSeenAt = event }
    entry.timesSeen += 1
    entry.messageID = messageID
    entry.id = id
    entry.lastConnection = connection
    entries[number] = entry
    if isTaken { take(number) } else { decline(number, life: connectedLife) }
  }

  /// A device acknowledged a notification.
  mutating func take(_ number: Int) {
    entries[number].timesTaken += 1
    awaited.remove(number)
  }

  private mutating func decline(_ number: Int, life: Int) {
    if entries[number].declinedLife != life {
      (entries[number].declinedLife, entries[number].declines) = (life, 0)
    }
    entries[number].declines += 1
    if entries[number].declines >= Limits.unacknowledgedEnds {
      entries[number].mayBeSetAside = true
    }
  }

  mutating func arriveDamaged(at device: Int) { violations.append(.damaged(device: device)) }

  // MARK: The balance

  /// Accepted notifications that neither arrived nor were replaced, so far.
  ///
  /// A device has as many slots as its app retains. A notification that did not arrive is accounted for by as many that
  /// did, and that the service did not certainly decide about before the missing one was sent; where both have a
  /// collapse id, by one.
  func missing() -> [Int] {
    var taken: [Int: [Int]] = [:]
    let devices = Set(awaited.map { entries[$0].device })
    for (number, entry) in entries.enumerated()
    where entry.isStored && entry.timesTaken > 0 && devices.contains(entry.device) {
      taken[entry.device, default: []].append(number)
    }
    for device in taken.keys {
      taken[device]?.sort { entries[$0].decidedBy > entries[$1].decidedBy }
    }
    return awaited.filter { number in
      let entry = entries[number]
      if aloneDevices.contains(entry.device) { return true }
      if entry.mayBeSetAside { return false }
      let newer = (taken[entry.device] ?? []).lazy
        .prefix { entries[$0].decidedBy > entry.sentAt }
        .filter { newer in
          entry.stream == nil || entries[newer].stream != entry.stream || newer > number
        }
      if entry.collapses, newer.contains(where: { entries[$0].collapses }) { return false }
      return newer.prefix(retention).count < retention
    }.sorted()
  }

  /// What the ledger says of how notifications ended.
  struct Ends {
    var ids: Set<NotificationID> = []
    /// Ends as discarded because they were not to be stored.
    var discarded: UInt64 = 0
  }

  /// Compares what was accepted with the ledger, which says of each id whether it has ended, and with the counters.
  ///
  /// What was not to be stored ended with the process that had it. The ledger has lines for it as far as they were
  /// known; the counters have all of it.
  mutating func compare(_ ends: Ends, counters: [TopicCounters]) {
    var unrecorded: [Int] = []
    for (number, entry) in entries.enumerated() where entry.outcome == .accepted {
      guard let id = entry.id, !ends.ids.contains(id) else { continue }
      if entry.isStored {
        violations.append(.withoutFinalState(number))
      } else {
        unrecorded.append(number)
      }
    }
    let discarded = counters.reduce(0) { $0 &+ $1[.discardedNotStored] }
    let countedOnly = Int(discarded) - Int(ends.discarded)
    if unrecorded.count > countedOnly { violations += unrecorded.map { .unaccounted($0) } }
    // Those that were not answered may be among the counted ones as well.
    let lacking =
      entries.count { $0.outcome == .accepted } - Int(counters.reduce(0) { $0 &+ $1.accepted })
    if lacking > 0 { violations.append(.uncounted(lacking)) }
  }

  /// Once everything has ended, nothing is pending, and as many have ended as were accepted. Of all workers together: a
  /// notification may end with another worker than the one that accepted it, in another life.
  mutating func compare(counters: [TopicCounters]) {
    for (topic, rows) in Dictionary(grouping: counters, by: \.topic.app.rawValue) {
      let pending = rows.reduce(0) { $0 + $1.pending }
      let accepted = rows.reduce(0) { $0 &+ $1.accepted }
      let ended = rows.reduce(0) { $0 &+ $1.ended }
      if pending != 0 || accepted != ended { violations.append(.unbalanced(topic: topic)) }
    }
  }

  /// Closes the books: whatever is missing is lost.
  mutating func close() {
    violations += missing().map { .lost($0) }
  }

  struct Totals {
    var sent = 0
    var accepted = 0
    var delivered = 0
    var replaced = 0
    var redelivered = 0
    /// Accepted with expiration 0, and not taken.
    var notStored = 0
    var refused = 0
    var unknown = 0
    var unknownDelivered = 0
    var lost = 0
    var withoutFinalState = 0
    var unaccounted = 0
  }

  /// After `close`.
  var totals: Totals {
    var totals = Totals()
    totals.sent = entries.count
    totals.lost = violations.count { if case .lost = $0 { true } else { false } }
    totals.withoutFinalState = violations.count {
      if case .withoutFinalState = $0 { true } else { false }
    }
    totals.unaccounted = violations.count { if case .unaccounted = $0 { true } else { false } }
    for entry in entries {
      totals.redelivered += max(0, entry.timesSeen - 1)
      switch entry.outcome {
      case .accepted:
        totals.accepted += 1
        if entry.timesTaken > 0 {
          totals.delivered += 1
        } else if !entry.isStored {
          totals.notStored += 1
        }
      case .refused: totals.refused += 1
      case .open, .unknown:
        totals.unknown += 1
        if entry.timesSeen > 0 { totals.unknownDelivered += 1 }
      }
    }
    totals.replaced = awaited.count - totals.lost
    return totals
  }
}
