import ApusCore
import ApusModel
import ApusStore
import ApusWire

/// What a device's request makes of its subscriptions. What cannot be carried out is left out, and `status` says why.
struct SubscriptionChange {
  private(set) var record: SubscriptionRecord
  private(set) var status = CourierChannelConfirmation.Status.applied
  /// Of each channel that the request subscribes to: Unix nanoseconds of the newest broadcast that the device has.
  private(set) var seenNanoseconds: [ChannelID: UInt64] = [:]

  private let register: ChannelRegister
  private let environment: Environment

  /// Begins with the subscriptions of `record`, without those to channels that no longer exist.
  init(_ record: SubscriptionRecord, _ register: ChannelRegister, in environment: Environment) {
    self.register = register
    self.environment = environment
    self.record = SubscriptionRecord(
      record.subscriptions.filter { register.entry($0.channel)?.channel.environment == environment }
    )
  }

  /// - Parameter lists: Whether the device's filter lists a topic.
  mutating func apply(
    _ request: CourierSubscriptions, directory: Directory, lists: (TopicKey) -> Bool
  ) {
    let old = record.subscriptions
    if request.replaces { record.subscriptions.removeAll() }
    for topic in request.topics {
      guard let key = directory.resolve(topic.topic.span)?.key, lists(key) else {
        note(.unknownTopic)
        continue
      }
      for mark in topic.unsubscribed {
        record.subscriptions.removeAll { $0.channel.bytes == mark.id }
      }
      for mark in topic.subscribed {
        guard let id = ChannelID(bytes: mark.id.span),
          let entry = register.entry(id, of: key.app, in: environment),
          entry.channel.topic == key
        else {
          note(.unknownChannel)
          continue
        }
        subscribe(to: id, as: old.first { $0.channel == id })
        seenNanoseconds[id] = mark.newestNanoseconds
      }
    }
  }

  /// - Parameter old: The same subscription before the request.
  private mutating func subscribe(
    to channel: ChannelID, as old: SubscriptionRecord.Subscription?
  ) {
    guard !record.subscriptions.contains(where: { $0.channel == channel }) else { return }
    guard record.subscriptions.count < Limits.subscriptionsPerDevice else {
      return note(.tooMany)
    }
    record.subscriptions.append(old ?? SubscriptionRecord.Subscription(channel: channel))
  }

  private mutating func note(_ status: CourierChannelConfirmation.Status) {
    if self.status == .applied { self.status = status }
  }
}
