import ApusModel

/// Counts a worker's open requests, and decides who may open another.
///
/// Untrusted connections share `Limits.openRequestsUntrusted`, and each may have one request beyond that share,
/// because a provider becomes trusted by a request. A trusted connection may use all free requests, except that the
/// last `Limits.openRequestsReserved` are for connections with fewer than `Limits.openRequestsGuaranteed`: neither
/// untrusted peers nor another team can use them up. Half of the reserve is also for first requests, so that a
/// provider can connect while a team holds everything else.
struct RequestAllotment: Sendable, Equatable {
  private(set) var openCount = 0
  private(set) var untrustedCount = 0

  /// False if a connection with `held` open requests may not have another now.
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

  /// An open request of a trusted connection came from another pool, which had allowed it.
  mutating func join() { openCount += 1 }

  /// The connection of an untrusted request became trusted.
  mutating func trust() { untrustedCount -= 1 }

  mutating func give(isTrusted: Bool) {
    openCount -= 1
    if !isTrusted { untrustedCount -= 1 }
  }
}
