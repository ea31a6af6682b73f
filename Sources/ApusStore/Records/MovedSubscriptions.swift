import ApusModel

/// What a part of a cluster's devices keeps of its channels: the newest broadcast of each.
///
/// Each part gives broadcasts orders of its own. So a device that moves to another part has to be told in that one's
/// orders what it has already.
struct KeptBroadcasts {
  struct Kept {
    let id: NotificationID
    let order: UInt64
  }

  private var kept: [ChannelID: Kept] = [:]

  /// - Parameters:
  ///   - key: Of a `BroadcastRecord`.
  ///   - head: The beginning of its value, of ``headByteCount`` bytes or more.
  mutating func add(key: Span<UInt8>, head: Span<UInt8>) throws(RecordError) {
    let channel = try ChannelRecord.channel(inBroadcastKey: key)
    let start = try BroadcastRecord.head(head)
    kept[channel] = Kept(id: start.id, order: start.order)
  }

  subscript(channel: ChannelID) -> Kept? { kept[channel] }

  /// The subscriptions of a device that moves from the part with these broadcasts to the one with others.
  func moved(
    _ record: SubscriptionRecord, to others: KeptBroadcasts
  ) -> SubscriptionRecord {
    var record = record
    for index in record.subscriptions.indices {
      let old = record.subscriptions[index]
      // What comes later has a higher order than anything before, in every part.
      guard let there = others[old.channel] else { continue }
      let here = self[old.channel].flatMap { $0.id == there.id ? $0 : nil }
      let hasIt = here.map { old.newestOrder >= $0.order } == true
      let wasTried = here.map { old.triedOrder == $0.order } == true
      record.subscriptions[index] = .init(
        channel: old.channel, newestOrder: hasIt ? there.order : max(there.order, 1) - 1,
        triedOrder: wasTried ? there.order : 0, triedCount: wasTried ? old.triedCount : 0)
    }
    return record
  }
}
