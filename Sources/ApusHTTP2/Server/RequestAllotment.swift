import ApusModel

/// How many requests of a worker are open, and who may open one more.
///
/// Clients without a valid credential share `Limits.openRequestsUntrusted`, and each may have one request beyond that
/// share, since it is by a request that a provider becomes trusted. A trusted connection may take all that is free, but
/// of the last `Limits.openRequestsReserved` only connections with fewer than `Limits.openRequestsGuaranteed` get any:
/// neither strangers nor another team can use them up. Half of what is reserved is also for first requests, so that a
/// provider can connect while a team holds everything else.
struct RequestAllotment: Sendable, Equatable {
  private(set) var openCount = 0
  private(set) var untrustedCount = 0

  /// False where a connection that has `held` requests open may not have one more now.
  mutating func take(held: Int, isTrusted: Bool) -> Bool {
    guard allows(held: held, isTrusted: isTrusted) else { return false }
    openCount += 1
    if !isTrusted { untrustedCount += 1 }
    return true
  }

  private func allows(held: Int, isTrusted: Bool) -> Bool {
    let isPlenty = openCount < Limits.openRequests - Limits.openRequestsReserved
    let isEnough = openCount < Limits.openRequests - Limits.openRequestsReserved / 2
    if isTrusted {
      return isPlenty || held < Limits.openRequestsGuaranteed && openCount < Limits.openRequests
    }
    return isEnough && held == 0 || isPlenty && untrustedCount < Limits.openRequestsUntrusted
  }

  /// An open request of a trusted connection has come from another pool, which had allowed it.
  mutating func join() { openCount += 1 }

  /// The connection of an untrusted request has become trusted.
  mutating func trust() { untrustedCount -= 1 }

  mutating func give(isTrusted: Bool) {
    openCount -= 1
    if !isTrusted { untrustedCount -= 1 }
  }
}
