/// The figures of a channel, or of all channels of an app in one environment.
package struct ChannelFigures: Sendable, Hashable {
  /// Broadcasts that were accepted, since the channel was created.
  package var published: UInt64
  /// Those that devices have acknowledged: one broadcast to ten devices is ten.
  package var delivered: UInt64
  package var subscriptions: UInt64
  /// Devices with one or more subscriptions; only for an app.
  package var subscribers: UInt64

  package init(
    published: UInt64 = 0, delivered: UInt64 = 0, subscriptions: UInt64 = 0,
    subscribers: UInt64 = 0
  ) {
    self.published = published
    self.delivered = delivered
    self.subscriptions = subscriptions
    self.subscribers = subscribers
  }

  package mutating func add(_ other: ChannelFigures) {
    published += other.published
    delivered += other.delivered
    subscriptions += other.subscriptions
    subscribers += other.subscribers
  }
}
