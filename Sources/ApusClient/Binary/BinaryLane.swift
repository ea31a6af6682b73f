/// One of a client's connection slots: its queue, and its link if there is one.
final class BinaryLane {
  var queue: SentQueue
  var link: BinaryLink?
  /// Why the last connection ended, in words.
  var lastFailure = ""
  /// Whether the connection has a probe.
  var isProbed = false

  init(_ queue: SentQueue) { self.queue = queue }

  var isOpen: Bool { link?.isOpen ?? false }
}

/// The records written to a connection: they map transmitted bytes to transmitted notifications.
struct WrittenRecords {
  private struct Record {
    /// The place behind its last notification in the queue.
    var through: Int
    /// The total of bytes sent to the connection, up to the end of this record.
    var end: Int
  }

  /// Ciphertext bytes sent to the connection.
  var outputBytes = 0
  private var records: [Record] = []
  /// Records before these are with our system, or with the peer's.
  private var handedHead = 0
  private var reachedHead = 0

  /// A record was written; `pendingBytes` follow, including those in front of it.
  mutating func add(through place: Int, pendingBytes: Int) {
    records.append(Record(through: place, end: outputBytes + pendingBytes))
  }

  /// The place up to which our system has the notifications; nil if unchanged.
  mutating func handedOver(unsentBytes: Int) -> Int? {
    let before = handedHead
    while handedHead < records.count, records[handedHead].end <= outputBytes - unsentBytes {
      handedHead += 1
    }
    return handedHead > before ? records[handedHead - 1].through : nil
  }

  /// The place up to which the peer's system has them; nil if unchanged.
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
