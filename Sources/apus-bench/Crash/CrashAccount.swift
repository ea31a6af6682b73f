import ApusModel

/// Records what was sent, how the service responded, and what devices received. Checks after the last restart that
/// nothing is missing.
///
/// A notification is identified by its number, which its payload contains. Events are numbered too, in the order in
/// which this process learned of them. A *life* of the service lasts from its start to its kill; lives are numbered.
struct CrashAccount {
  /// The service's response to a notification.
  enum Outcome {
    /// No response yet.
    case open
    case accepted
    /// Certainly not accepted: it must never arrive.
    case refused
    /// The connection ended before the response. It may or may not arrive.
    case unknown
  }

  struct Entry {
    var device: Int
    /// The binary connection that it was sent on, which preserves order; nil for HTTP/2.
    var stream: Int?
    /// False for expiration 0: it ends at the latest with the process of the service.
    var isStored: Bool
    /// Whether it has a collapse id. Of a device's notifications with one, the newest replaces the others.
    var collapses: Bool
    var sentAt: Int
    var sentLife: Int
    var outcome = Outcome.open
    var outcomeAt = Int.max
    var outcomeLife = Int.max
    /// How often it arrived, and how often the device acknowledged it instead of declining it.
    var timesSeen = 0
    var timesTaken = 0
    var firstSeenAt = Int.max
    /// The device connection on which it last arrived.
    var lastConnection = -1
    var messageID: UInt32 = 0
    var id: NotificationID?
    /// Number of connections of one life that ended, or will end, without an acknowledgement.
    var declines = 0
    var declinedLife = 0
    /// The service may have discarded it as never acknowledged.
    var mayBeSetAside = false

    /// An event by which the service must have decided about it, if it did at all.
    fileprivate var decidedBy: Int {
      min(outcome == .accepted ? outcomeAt : .max, firstSeenAt)
    }
  }

  /// A violation of the service's guarantees.
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
      case .refusedYetSeen(let number): "\(number) was rejected but arrived"
      case .seenAfterRestart(let number, let life):
        "\(number) must not be stored but arrived in life \(life)"
      case .idChanged(let number): "\(number) arrived again with another message id or identity"
      case .twiceOnOneConnection(let number): "\(number) arrived twice on one connection"
      case .withoutFinalState(let number):
        "\(number) was accepted, but has no final state in the ledger"
      case .unaccounted(let number):
        "\(number) was accepted with expiration 0, but its final state is neither in the ledger nor counted"
      case .uncounted(let count): "the counters lack \(count) accepted notifications"
      case .unbalanced(let topic): "the counters of app \(topic) do not add up"
      case .damaged(let device): "device \(device) got a payload that was never sent"
      }
    }
  }

  private(set) var entries: [Entry] = []
  private(set) var violations: [Violation] = []
  /// Number of the service's current life, counted from 1.
  var life = 0
  /// Devices that never have two pending notifications, so none of theirs may be replaced.
  let aloneDevices: Range<Int>
  /// How many notifications are stored per device.
  let retention: Int
  private var lastEvent = 0
  /// Numbers of notifications that were accepted, must be stored, and were not acknowledged.
  private(set) var awaited: Set<Int> = []

  init(aloneDevices: Range<Int>, retention: Int = 1) {
    self.aloneDevices = aloneDevices
    self.retention = retention
  }

  private mutating func nextEvent() -> Int {
    lastEvent += 1
    return lastEvent
  }

  // MARK: Providers

  /// Records a notification before it is sent, and returns its number.
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

  /// Records that a device received a notification.
  ///
  /// - Parameters:
  ///   - connection: A number unique among all connections of all devices.
  ///   - connectedLife: The life in which the connection was made.
  ///   - isTaken: False if the device declined it, so that it must arrive again.
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
    // A notification keeps the apns-id of its provider, if it gave one.
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

  /// Records that a device acknowledged a notification.
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

  /// Accepted notifications that so far neither arrived nor were replaced.
  ///
  /// A device has as many slots as its app retains. A missing notification counts as replaced if that many others
  /// arrived about which the service may have decided after the missing one was sent; if both have a collapse id, one
  /// is enough.
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

  /// The final states in the ledger.
  struct Ends {
    var ids: Set<NotificationID> = []
    /// The number of notifications that were discarded because they must not be stored.
    var discarded: UInt64 = 0
  }

  /// Compares accepted notifications with the ids that have a final state in the ledger, and with the counters.
  ///
  /// A notification with expiration 0 ends with the process that held it. The ledger names it where its id is known;
  /// the counters include all of them.
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

  /// Checks that nothing is pending and that as many notifications ended as were accepted. Summed over all workers,
  /// because in another life a notification may end on another worker than the one that accepted it.
  mutating func compare(counters: [TopicCounters]) {
    for (topic, rows) in Dictionary(grouping: counters, by: \.topic.app.rawValue) {
      let pending = rows.reduce(0) { $0 + $1.pending }
      let accepted = rows.reduce(0) { $0 &+ $1.accepted }
      let ended = rows.reduce(0) { $0 &+ $1.ended }
      if pending != 0 || accepted != ended { violations.append(.unbalanced(topic: topic)) }
    }
  }

  /// Ends the run: everything still missing is lost.
  mutating func close() {
    violations += missing().map { .lost($0) }
  }

  struct Totals {
    var sent = 0
    var accepted = 0
    var delivered = 0
    var replaced = 0
    var redelivered = 0
    /// Accepted with expiration 0 and not acknowledged.
    var notStored = 0
    var refused = 0
    var unknown = 0
    var unknownDelivered = 0
    var lost = 0
    var withoutFinalState = 0
    var unaccounted = 0
  }

  /// The totals; call it after `close`.
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
