package import ApusModel

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
