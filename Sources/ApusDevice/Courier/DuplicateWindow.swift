/// The notifications that a device got last, so that one which comes again is not reported again.
///
/// Bounded: the oldest makes room for the newest. A notification is known by its message id and by when it was sent,
/// both of which stay the same when the service sends it again; the id alone would take the notifications of a service
/// that lost its memory, and counts from 1 again, for old ones.
package struct DuplicateWindow: Sendable {
  package enum Standing: Sendable, Hashable {
    /// It was not here before; now it is.
    case new
    /// It was reported, and its acknowledgement is still to come.
    case open
    /// It was acknowledged.
    case handled
  }

  /// Notifications that are remembered. 0: none, and every one counts as new.
  package let capacity: Int
  /// A ring once it is full. An entry: message id (32 bits), milliseconds of sending (30), `present`, `handled`.
  private var entries: [UInt64] = []
  /// Where the oldest stands in a full ring, else 0.
  private var oldest = 0
  /// The greatest entry that ever was. Ids mostly grow, and one above it needs no search.
  private var greatest: UInt64 = 0

  private static let handled: UInt64 = 1
  private static let present: UInt64 = 2

  package init(capacity: Int) { self.capacity = capacity }

  /// Takes in that a notification came.
  package mutating func note(messageID: UInt32, sentNanoseconds: UInt64?) -> Standing {
    guard capacity > 0 else { return .new }
    let milliseconds = (sentNanoseconds ?? 0) / 1_000_000 & 0x3fff_ffff
    let entry = UInt64(messageID) << 32 | milliseconds << 2 | Self.present
    if entry > greatest {
      greatest = entry
    } else if let index = index(where: { $0 & ~Self.handled == entry }) {
      return entries[index] & Self.handled == 0 ? .open : .handled
    }
    if entries.count < capacity {
      entries.append(entry)
    } else {
      entries[oldest] = entry
      oldest = oldest + 1 == capacity ? 0 : oldest + 1
    }
    return .new
  }

  /// Takes in that the newest notification of this id was acknowledged.
  package mutating func handle(_ messageID: UInt32) {
    if let index = index(of: messageID) { entries[index] |= Self.handled }
  }

  /// Takes back that the newest notification of this id came: when it comes again, it is new.
  package mutating func forget(_ messageID: UInt32) {
    // An empty slot equals no entry. `greatest` may stay: what is not above it is searched for, and not found.
    if let index = index(of: messageID) { entries[index] = 0 }
  }

  private func index(of messageID: UInt32) -> Int? {
    index { $0 != 0 && UInt32(truncatingIfNeeded: $0 >> 32) == messageID }
  }

  /// From the newest to the oldest.
  private func index(where matches: (UInt64) -> Bool) -> Int? {
    for index in (0..<oldest).reversed() where matches(entries[index]) { return index }
    for index in (oldest..<entries.count).reversed() where matches(entries[index]) { return index }
    return nil
  }
}
