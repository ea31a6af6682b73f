package import ApusModel

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

/// The figures of all channels, and of their apps.
package struct ChannelCensus: Sendable {
  package struct App: Sendable, Hashable {
    package var app: AppID
    package var environment: Environment
  }

  package var channels: [ChannelID: ChannelFigures] = [:]
  package private(set) var apps: [App: ChannelFigures] = [:]

  package init() {}

  package func figures(app: AppID, _ environment: Environment) -> ChannelFigures? {
    apps[App(app: app, environment: environment)]
  }

  package mutating func add(
    _ figures: ChannelFigures, app: AppID, _ environment: Environment
  ) {
    apps[App(app: app, environment: environment), default: ChannelFigures()].add(figures)
  }

  /// - Parameter isFirst: Whether it is the device's first one in the app.
  package mutating func addSubscription(
    to channel: ChannelID, app: AppID, _ environment: Environment, isFirst: Bool
  ) {
    channels[channel, default: ChannelFigures()].subscriptions += 1
    add(ChannelFigures(subscriptions: 1, subscribers: isFirst ? 1 : 0), app: app, environment)
  }
}
