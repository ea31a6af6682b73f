import ApusCore
import ApusModel
import ApusStore
import ApusWire

/// An accepted broadcast. All workers share it.
final class Broadcast: Sendable {
  /// The number of its channel; see `ChannelRegister`.
  let number: UInt32
  let channel: Channel
  /// In the order of acceptance, with notifications.
  let order: UInt64
  /// Its `apns-unique-id`: by it a device knows a broadcast that comes again.
  let id: NotificationID
  /// Unix milliseconds.
  let acceptedMilliseconds: Int64
  /// Unix seconds until which it is kept; 0 for one attempt.
  let expirationSeconds: Int64
  let priority: Priority
  let payload: [UInt8]

  init(
    number: UInt32, channel: Channel, order: UInt64, id: NotificationID,
    acceptedMilliseconds: Int64, expirationSeconds: Int64, priority: Priority, payload: [UInt8]
  ) {
    self.number = number
    self.channel = channel
    self.order = order
    self.id = id
    self.acceptedMilliseconds = acceptedMilliseconds
    self.expirationSeconds = expirationSeconds
    self.priority = priority
    self.payload = payload
  }

  convenience init(_ record: BroadcastRecord, number: UInt32, channel: Channel) {
    self.init(
      number: number, channel: channel, order: record.order, id: record.id,
      acceptedMilliseconds: record.acceptedMilliseconds,
      expirationSeconds: record.expirationSeconds, priority: record.priority,
      payload: record.payload)
  }

  var record: BroadcastRecord {
    BroadcastRecord(
      order: order, id: id, acceptedMilliseconds: acceptedMilliseconds,
      expirationSeconds: expirationSeconds, priority: priority, payload: payload)
  }

  /// As `Notification.messageID`: both count the same order.
  var messageID: UInt32 { UInt32(order % 0x7fff_ffff) + 1 }

  /// When it was accepted, as devices are told.
  var sentNanoseconds: UInt64 { UInt64(max(0, acceptedMilliseconds)) * 1_000_000 }

  var isStored: Bool { expirationSeconds > 0 }

  func isExpired(atSeconds now: Int64) -> Bool { isStored && expirationSeconds <= now }

  var topic: TopicKey { channel.topic }
}

extension Channel {
  /// Under which its broadcasts are pushed: channels are for Live Activities alone.
  var topic: TopicKey { TopicKey(app: app, suffix: .liveActivity) }
}

/// A broadcast that is not accepted yet.
struct BroadcastDraft: Sendable {
  var id: NotificationID
  var acceptedMilliseconds: Int64
  var expirationSeconds: Int64
  var priority: Priority
  var payload: [UInt8]

  func broadcast(on entry: ChannelRegister.Entry, order: UInt64) -> Broadcast {
    Broadcast(
      number: entry.number, channel: entry.channel, order: order, id: id,
      acceptedMilliseconds: acceptedMilliseconds, expirationSeconds: expirationSeconds,
      priority: priority, payload: payload)
  }
}
