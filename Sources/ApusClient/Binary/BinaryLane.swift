/// One of the places for a connection that a client has: what is to be sent there, and the link, if there is one.
final class BinaryLane {
  var queue: SentQueue
  var link: BinaryLink?
  /// Why the last connection ended, in words.
  var lastFailure = ""
  /// Whether the connection was asked for a last word.
  var isProbed = false

  init(_ queue: SentQueue) { self.queue = queue }

  var isOpen: Bool { link?.isOpen ?? false }
}

/// The records that went to a connection: how far its bytes have come tells how far the notifications have.
struct WrittenRecords {
  private struct Record {
    /// The place in the queue behind its last notification.
    var through: Int
    /// Bytes that have gone to the connection with its last.
    var end: Int
  }

  /// Ciphertext that has gone to the connection.
  var outputBytes = 0
  private var records: [Record] = []
  /// Those before are with the system, with the peer's system.
  private var handedHead = 0
  private var reachedHead = 0

  /// A record was written, of which `pendingBytes` with all that are in front of it are to follow.
  mutating func add(through place: Int, pendingBytes: Int) {
    records.append(Record(through: place, end: outputBytes + pendingBytes))
  }

  /// The place through which notifications are with the system; nil when it has not changed.
  mutating func handedOver(unsentBytes: Int) -> Int? {
    let before = handedHead
    while handedHead < records.count, records[handedHead].end <= outputBytes - unsentBytes {
      handedHead += 1
    }
    return handedHead > before ? records[handedHead - 1].through : nil
  }

  /// The place through which they are with the peer's system; nil when it has not changed.
  mutating func reached(unacknowledgedBytes: Int) -> Int? {
    let before = reachedHead
    while reachedHead < handedHead, records[reachedHead].end <= outputBytes - unacknowledgedBytes {
      reachedHead += 1
    }
    guard reachedHead > before else { return nil }
    let place = records[reachedHead - 1].through
    if reachedHead > 256, reachedHead * 2 > records.count {
      records.removeFirst(reachedHead)
      handedHead -= reachedHead
      reachedHead = 0
    }
    return place
  }
}
