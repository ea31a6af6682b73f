package import ApusModel

/// Whose a trusted connection is.
package enum ConnectionHolder: Sendable, Hashable {
  /// A device of its own.
  case device
  /// A team's provider; nil if the credential names no team.
  case provider(ShortID?)
  /// Another node of the cluster.
  case node
}

/// Decides which connections a process accepts, and which of them may become trusted.
///
/// A site (an address, or the /64 of an IPv6 one) may hold untrusted connections up to `Limits.untrustedPerFree` times
/// the number still free, a listener up to `Limits.untrustedPerFreeOfListener` times, and all listeners of an
/// environment twice as many as one. Beyond that, a site without a connection may have one, up to
/// `Limits.untrustedFirstPerFreeOfListener` times. One site alone gets four fifths of everything, so a fleet behind
/// one address reconnects as if there were no limit. Each further site that wants many lowers the share of all of
/// them, so some always remain free for sites that have few.
///
/// A team's providers may hold `Limits.providersPerFree` times as many trusted connections as others of those have
/// left, without a reserve. Untrusted connections do not count there: one that becomes trusted has its descriptor
/// already, and none may lower a team's share. A team can always have `Limits.providersGuaranteed`. Devices are
/// counted, but never refused. No trusted connection is closed for another one.
package struct ConnectionBudget<Site: Hashable & Sendable>: Sendable {
  /// The most connections of the process: its descriptors without the reserved ones.
  package let capacity: Int
  package private(set) var trustedCount = 0
  package private(set) var untrustedCount = 0
  private var bySite: [Site: Int] = [:]
  private var byListener: [Listener: Int] = [:]
  private var byEnvironment: [Environment: Int] = [:]
  private var byTeam: [ShortID?: Int] = [:]

  package struct Listener: Sendable, Hashable {
    /// A number for each kind of listener.
    package var kind: Int
    package var environment: Environment

    package init(kind: Int, environment: Environment) {
      self.kind = kind
      self.environment = environment
    }
  }

  package init(capacity: Int) { self.capacity = capacity }

  /// The most connections of a process with this many descriptors: the store, the administration and other parts keep
  /// some.
  package static func capacity(ofDescriptors count: Int) -> Int {
    count - min(Limits.reservedDescriptors, count / 4)
  }

  // MARK: Untrusted connections

  private var freeCount: Int { max(0, capacity - trustedCount - untrustedCount) }

  package func untrustedCount(of site: Site) -> Int { bySite[site, default: 0] }

  /// Counts one more untrusted connection; false, without counting it, if there is no room.
  ///
  /// - Parameter site: Nil for a connection of a proxy that has not named the client yet: it counts for no site, since
  ///   that of the proxy would hold them all.
  package mutating func accept(from site: Site?, listener: Listener) -> Bool {
    let free = freeCount
    let held = site.map(untrustedCount) ?? 0
    let share =
      held == 0 ? Limits.untrustedFirstPerFreeOfListener : Limits.untrustedPerFreeOfListener
    // Divided instead of multiplied: the capacity may be unbounded, so a product could overflow.
    guard held / Limits.untrustedPerFree < free,
      byListener[listener, default: 0] / share < free,
      byEnvironment[listener.environment, default: 0] / (2 * share) < free
    else { return false }
    count(site, listener)
    return true
  }

  /// Counts a connection for `site` that was counted for none; false, and it remains so, if there is no room.
  package mutating func assign(_ site: Site, listener: Listener) -> Bool {
    forget(nil, listener)
    if accept(from: site, listener: listener) { return true }
    count(nil, listener)
    return false
  }

  private mutating func count(_ site: Site?, _ listener: Listener) {
    untrustedCount += 1
    byListener[listener, default: 0] += 1
    byEnvironment[listener.environment, default: 0] += 1
    if let site { bySite[site, default: 0] += 1 }
  }

  private mutating func forget(_ site: Site?, _ listener: Listener) {
    untrustedCount -= 1
    byListener[listener, default: 0] -= 1
    byEnvironment[listener.environment, default: 0] -= 1
    guard let site else { return }
    let left = bySite[site, default: 0] - 1
    // Only sites with connections are stored, so the descriptors bound the table.
    bySite[site] = left > 0 ? left : nil
  }

  // MARK: Trusted connections

  package func trustedCount(of team: ShortID?) -> Int { byTeam[team, default: 0] }

  /// An untrusted connection becomes trusted; false, and it remains untrusted, if its team has too many.
  package mutating func trust(
    _ site: Site, listener: Listener, as holder: ConnectionHolder
  ) -> Bool {
    guard hasRoom(for: holder) else { return false }
    forget(site, listener)
    trustedCount += 1
    if case .provider(let team) = holder { byTeam[team, default: 0] += 1 }
    return true
  }

  private func hasRoom(for holder: ConnectionHolder) -> Bool {
    guard case .provider(let team) = holder else { return true }
    let held = byTeam[team, default: 0]
    let reserve = min(Limits.reservedConnections, capacity / 8)
    return held < Limits.providersGuaranteed
      || held / Limits.providersPerFree < capacity - trustedCount - reserve
  }

  /// A connection ended.
  ///
  /// - Parameters:
  ///   - site: As when it was counted.
  ///   - holder: As when it became trusted; nil if it did not.
  package mutating func close(_ site: Site?, listener: Listener, holder: ConnectionHolder?) {
    guard let holder else { return forget(site, listener) }
    trustedCount -= 1
    guard case .provider(let team) = holder else { return }
    let left = byTeam[team, default: 0] - 1
    byTeam[team] = left > 0 ? left : nil
  }
}
