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

    package init(app: AppID, environment: Environment) {
      self.app = app
      self.environment = environment
    }
  }

  package private(set) var channels: [ChannelID: ChannelFigures] = [:]
  package private(set) var apps: [App: ChannelFigures] = [:]

  package init() {}

  package mutating func add(_ figures: ChannelFigures, of channel: Channel) {
    channels[channel.id] = figures
    let app = App(app: channel.app, environment: channel.environment)
    apps[app, default: ChannelFigures()].add(figures)
  }

  /// - Parameter count: Devices with one or more subscriptions. It may be too high; of it counts what can be true.
  package mutating func set(subscribers count: UInt64, of app: App) {
    guard let subscriptions = apps[app]?.subscriptions else { return }
    apps[app]?.subscribers = min(count, subscriptions)
  }
}
