package import ApusModel

/// Decides which untrusted connections a process accepts.
///
/// A site (an address, or the /64 of an IPv6 one) may hold untrusted connections up to `Limits.untrustedPerFree` times
/// the number still free, a listener up to `Limits.untrustedPerFreeOfListener` times, and all listeners of an
/// environment twice as many as one. Beyond that, a site without a connection may have one, up to
/// `Limits.untrustedFirstPerFreeOfListener` times. One site alone gets four fifths of everything, so a fleet behind
/// one address reconnects as if there were no limit. Each further site that wants many lowers the share of all of
/// them, so some always remain free for sites that have few. Trusted connections are counted, but never refused or
/// closed.
package struct ConnectionBudget<Site: Hashable & Sendable>: Sendable {
  /// The most connections of the process: its descriptors without the reserved ones.
  package let capacity: Int
  package private(set) var trustedCount = 0
  package private(set) var untrustedCount = 0
  private var bySite: [Site: Int] = [:]
  private var byListener: [Listener: Int] = [:]
  private var byEnvironment: [Environment: Int] = [:]

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

  private var freeCount: Int { max(0, capacity - trustedCount - untrustedCount) }

  package func untrustedCount(of site: Site) -> Int { bySite[site, default: 0] }

  /// Counts one more untrusted connection; false, without counting it, if there is no room.
  package mutating func accept(from site: Site, listener: Listener) -> Bool {
    let free = freeCount
    let held = bySite[site, default: 0]
    let share =
      held == 0 ? Limits.untrustedFirstPerFreeOfListener : Limits.untrustedPerFreeOfListener
    // Divided instead of multiplied: the capacity may be unbounded, so a product could overflow.
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

  /// An untrusted connection became trusted.
  package mutating func trust(_ site: Site, listener: Listener) {
    forget(site, listener)
    trustedCount += 1
  }

  /// A trusted connection was handed over from another part of the process.
  package mutating func adopt() { trustedCount += 1 }

  /// A connection ended.
  package mutating func close(_ site: Site, listener: Listener, isTrusted: Bool) {
    if isTrusted { trustedCount -= 1 } else { forget(site, listener) }
  }

  private mutating func forget(_ site: Site, _ listener: Listener) {
    untrustedCount -= 1
    byListener[listener, default: 0] -= 1
    byEnvironment[listener.environment, default: 0] -= 1
    let left = bySite[site, default: 0] - 1
    // Only sites with connections are stored, so the descriptors bound the table.
    bySite[site] = left > 0 ? left : nil
  }
}
