import ApusModel

/// The tokens of one device's apps, and which of them are dead: their apps were gone for longer than the grace.
struct SimulatedTokens {
  private var last: [DeviceToken?]
  private var goneSince: [UInt64?]
  private var dead: Set<DeviceToken> = []

  init(apps: Int) {
    last = Array(repeating: nil, count: apps)
    goneSince = Array(repeating: nil, count: apps)
  }

  /// The app got a token; false where it is a dead one.
  mutating func isGood(_ token: DeviceToken?, of app: Int) -> Bool {
    guard let token else { return true }
    last[app] = token
    return !dead.contains(token)
  }

  /// The app is gone. Where the service may never have seen it listed, that kills no token.
  mutating func goes(_ app: Int, wasSurelyListed: Bool, at time: UInt64) {
    goneSince[app] = wasSurelyListed ? time : nil
  }

  /// The app comes back to a device that has been online since `steadySince`, nil where it is not. Only where the
  /// service surely saw it gone for longer than the grace, by a clock that nobody set meanwhile, its token is dead.
  mutating func comesBack(_ app: Int, steadySince: UInt64?, _ world: Simulation) {
    defer { goneSince[app] = nil }
    guard let gone = goneSince[app], let steadySince, let token = last[app] else { return }
    let since = max(gone, steadySince)
    guard since + (world.graceSeconds + 30) * Timeline.second < world.timeline.now,
      world.oracle.clockSetTime < gone, world.server.upSince < since,
      world.wasUntroubled(since: since, world.server.generation)
    else { return }
    dead.insert(token)
  }
}
