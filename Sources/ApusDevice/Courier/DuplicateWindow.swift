import ApusModel
package import ApusWire

/// The last notifications of a device, so that one that arrives again is not reported again.
///
/// Bounded: the newest replaces the oldest. A notification is identified by its message id and its time of sending,
/// which the service repeats when it sends it again. The id alone is not enough: a service that lost its state counts
/// from 1 again. After a service or one of its nodes was lost, another one may have to send one again without knowing
/// these two; it says so, and the notification is identified by its `apns-id` and topic.
package struct DuplicateWindow: Sendable {
  package enum Standing: Sendable, Hashable {
    /// New; remembered from now on.
    case new
    /// Reported, and not acknowledged yet.
    case open
    /// Acknowledged.
    case handled
  }

  /// Remembered notifications. 0: none, and each one counts as new.
  package let capacity: Int
  /// A ring once it is full. Each entry: message id (32 bits), milliseconds of sending (30), `present`, `handled`.
  private var entries: [UInt64] = []
  /// For each entry a hash of `apns-id` and topic; 0 for a notification without an id.
  private var identities: [UInt64] = []
  /// The index of the oldest in a full ring, else 0.
  private var oldest = 0
  /// The greatest entry so far. Ids mostly grow, and a greater one needs no search.
  private var greatest: UInt64 = 0
  /// Those that came again under another id on this connection while they were open.
  private var copies = OpenCopies()

  private static let handled: UInt64 = 1
  private static let present: UInt64 = 2

  package init(capacity: Int) { self.capacity = capacity }

  /// Records that a notification arrived.
  package mutating func insert(_ notification: CourierNotification) -> Standing {
    guard capacity > 0 else { return .new }
    let identity = Self.identity(notification)
    if notification.storage.contains(.mayBeRepeated), identity != 0,
      let index = identities.firstIndex(of: identity), entries[index] != 0
    {
      guard entries[index] & Self.handled == 0 else { return .handled }
      copies.note(notification.messageID, of: UInt32(truncatingIfNeeded: entries[index] >> 32))
      return .open
    }
    let (messageID, sentNanoseconds) = (notification.messageID, notification.sentNanoseconds)
    let milliseconds = (sentNanoseconds ?? 0) / 1_000_000 & 0x3fff_ffff
    let entry = UInt64(messageID) << 32 | milliseconds << 2 | Self.present
    if entry > greatest {
      greatest = entry
    } else if let index = index(where: { $0 & ~Self.handled == entry }) {
      return entries[index] & Self.handled == 0 ? .open : .handled
    }
    if entries.count < capacity {
      entries.append(entry)
      identities.append(identity)
    } else {
      entries[oldest] = entry
      identities[oldest] = identity
      oldest = oldest + 1 == capacity ? 0 : oldest + 1
    }
    return .new
  }

  private static func identity(_ notification: CourierNotification) -> UInt64 {
    guard let id = notification.id else { return 0 }
    var hasher = Hasher()
    hasher.combine(id)
    hasher.combine(notification.topic)
    return UInt64(bitPattern: Int64(hasher.finalize()))
  }

  /// Records that the newest notification with this id was acknowledged.
  package mutating func handle(_ messageID: UInt32) {
    if let index = index(of: messageID) { entries[index] |= Self.handled }
  }

  /// Takes one of the ids under which the notification came again on this connection: it is to be acknowledged as well.
  /// Nil if there is none left.
  package mutating func takeCopy(of messageID: UInt32) -> UInt32? { copies.take(messageID) }

  /// Forgets the newest notification with this id: when it arrives again, it is new.
  package mutating func forget(_ messageID: UInt32) {
    // An empty slot equals no entry. `greatest` may stay: smaller entries are searched for, and not found.
    if let index = index(of: messageID) { entries[index] = 0 }
    while copies.take(messageID) != nil {}
  }

  /// What was sent and not acknowledged will be sent again.
  package mutating func connectionEnded() { copies = OpenCopies() }

  private func index(of messageID: UInt32) -> Int? {
    index { $0 != 0 && UInt32(truncatingIfNeeded: $0 >> 32) == messageID }
  }

  /// Searches from the newest to the oldest.
  private func index(where matches: (UInt64) -> Bool) -> Int? {
    for index in (0..<oldest).reversed() where matches(entries[index]) { return index }
    for index in (oldest..<entries.count).reversed() where matches(entries[index]) { return index }
    return nil
  }
}
