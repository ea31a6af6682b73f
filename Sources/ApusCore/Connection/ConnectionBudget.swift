package import ApusModel

/// Which connections a process takes while their peers have not proved who they are.
///
/// A site (an address, or the /64 of an IPv6 one) may hold untrusted connections up to `Limits.untrustedPerFree` times
/// what is still free, a listener up to `Limits.untrustedPerFreeOfListener` times, and all listeners of an environment
/// twice as much; a site that holds none may have one beyond that, up to `Limits.untrustedFirstPerFreeOfListener`
/// times. One site alone gets four fifths of everything, and a fleet behind one address reconnects as if there were no
/// limit. Each further site that wants much lowers what all of them get, so that something is always free for a site
/// that has little. Trusted connections are counted, and never refused or ended.
package struct ConnectionBudget<Site: Hashable & Sendable>: Sendable {
  /// Connections that the process can have: its descriptors less those that are reserved.
  package let capacity: Int
  package private(set) var trustedCount = 0
  package private(set) var untrustedCount = 0
  private var bySite: [Site: Int] = [:]
  private var byListener: [Listener: Int] = [:]
  private var byEnvironment: [Environment: Int] = [:]

  package struct Listener: Sendable, Hashable {
    /// What it listens for: one number for each kind.
    package var kind: Int
    package var environment: Environment

    package init(kind: Int, environment: Environment) {
      self.kind = kind
      self.environment = environment
    }
  }

  package init(capacity: Int) { self.capacity = capacity }

  /// Connections of a process that may have so many descriptors: the store, the administration and the rest of it keep
  /// some.
  package static func capacity(ofDescriptors count: Int) -> Int {
    count - min(Limits.reservedDescriptors, count / 4)
  }

  private var freeCount: Int { max(0, capacity - trustedCount - untrustedCount) }

  package func untrustedCount(of site: Site) -> Int { bySite[site, default: 0] }

  /// Counts one more untrusted connection; false, and nothing counted, where there is no room for it.
  package mutating func accept(from site: Site, listener: Listener) -> Bool {
    let free = freeCount
    let held = bySite[site, default: 0]
    let share =
      held == 0 ? Limits.untrustedFirstPerFreeOfListener : Limits.untrustedPerFreeOfListener
    // Not multiplied out: the capacity may be without bound.
    guard held / Limits.untrustedPerFree < free,
      byListener[listener, default: 0] / share < free,
      byEnvironment[listener.environment, default: 0] / (2 * share) < free
    else { return false }
    untrustedCount += 1
    bySite[site, default: 0] += 1
    byListener[listener, default: 0] += 1
    byEnvironment[listener.environment, default: 0] += 1
    return true
  }

  /// The peer of an untrusted connection has proved who it is.
  package mutating func trust(_ site: Site, listener: Listener) {
    forget(site, listener)
    trustedCount += 1
  }

  /// A connection of a trusted peer came from elsewhere in the process.
  package mutating func adopt() { trustedCount += 1 }

  /// A connection has ended.
  package mutating func close(_ site: Site, listener: Listener, isTrusted: Bool) {
    if isTrusted { trustedCount -= 1 } else { forget(site, listener) }
  }

  private mutating func forget(_ site: Site, _ listener: Listener) {
    untrustedCount -= 1
    byListener[listener, default: 0] -= 1
    byEnvironment[listener.environment, default: 0] -= 1
    let left = bySite[site, default: 0] - 1
    // Only sites that hold something are remembered: the table is bounded by the descriptors.
    bySite[site] = left > 0 ? left : nil
  }
}
