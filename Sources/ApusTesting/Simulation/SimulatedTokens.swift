import ApusModel

/// The tokens of one device's apps, and which of them are inactive because their apps were removed for longer than the
/// grace period.
struct SimulatedTokens {
  private var last: [DeviceToken?]
  private var goneSince: [UInt64?]
  private var dead: Set<DeviceToken> = []

  init(apps: Int) {
    last = Array(repeating: nil, count: apps)
    goneSince = Array(repeating: nil, count: apps)
  }

  /// The app got a token; false if that token is inactive.
  mutating func isGood(_ token: DeviceToken?, of app: Int) -> Bool {
    guard let token else { return true }
    last[app] = token
    return !dead.contains(token)
  }

  /// The app was removed. If the service may never have seen it listed, its token stays active.
  mutating func goes(_ app: Int, wasSurelyListed: Bool, at time: UInt64) {
    goneSince[app] = wasSurelyListed ? time : nil
  }

  /// The app returns to a device that has been online since `steadySince`; nil if it is offline or cut off. Its token
  /// is inactive only if the service surely saw the app removed for longer than the grace period, by a clock that was
  /// not set meanwhile.
  mutating func comesBack(_ app: Int, steadySince: UInt64?, _ world: Simulation) {
    defer { goneSince[app] = nil }
    guard let gone = goneSince[app], let steadySince, let token = last[app] else { return }
    let since = max(gone, steadySince)
    guard since + (world.graceSeconds + 30) * Timeline.second < world.timeline.now,
      world.oracle.clockSetTime < gone, world.wasUntroubled(since: since)
    else { return }
    dead.insert(token)
  }
}
