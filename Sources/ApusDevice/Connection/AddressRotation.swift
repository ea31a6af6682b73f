/// Which of a service's addresses a device tries next. A round begins with the address that the service named (the
/// hint), or else with the one that worked last, tries each address once, and ends with a wait.
package struct AddressRotation: Sendable, Hashable {
  package enum Step: Sendable, Hashable {
    /// At once.
    case connect
    /// After a wait: the round is over.
    case wait
  }

  /// The place, in the configured order, of the address that is connected or tried next. With the hint of one of them,
  /// the place of that one.
  package private(set) var current = 0
  /// Whether the hint is connected or tried next, in place of `current`.
  package private(set) var isAtHint = false
  /// The address that worked last; before any has worked, the first one.
  private var preferred = 0
  private let count: Int
  /// Addresses that this round has not tried yet, besides the current one.
  private var untriedCount: Int
  private var hasHint = false
  /// Whether this round has tried a hint: a service that names another address and closes at once would otherwise be
  /// tried without a wait.
  private var isHintSpent = false

  /// - Parameter count: The number of addresses, at least 1.
  package init(count: Int) {
    precondition(count > 0, "a service has an address")
    self.count = count
    untriedCount = count - 1
  }

  /// The service accepted the device at the current address, or refused it. That does not begin a round: a service that
  /// accepts and closes immediately would otherwise be tried without a wait.
  package mutating func answered() { preferred = current }

  /// The service named an address to try first.
  package mutating func hinted() { hasHint = true }

  /// The service named none.
  package mutating func forgetHint() { hasHint = false }

  /// The current address failed, or its connection was lost.
  ///
  /// - Parameter wasSteady: Whether a connection had lasted long enough to show that the address works; its loss is the
  ///   first failure of a new round.
  package mutating func failed(wasSteady: Bool) -> Step {
    if wasSteady { (untriedCount, isHintSpent) = (count - 1, isAtHint) }
    if isAtHint {
      (isAtHint, hasHint) = (false, false)
      return .connect
    }
    if hasHint, !isHintSpent {
      (isAtHint, isHintSpent) = (true, true)
      return .connect
    }
    guard untriedCount > 0 else {
      restart()
      return .wait
    }
    untriedCount -= 1
    current = (current + 1) % count
    return .connect
  }

  /// A steady connection was lost in silence: the network may have forgotten it, so its own address is tried first.
  package mutating func fellSilent() -> Step {
    restart()
    return count > 1 || isAtHint ? .connect : .wait
  }

  /// The next attempt begins a round. For what other addresses do not change: a refusal of the device, a goodbye, a
  /// stop, another network.
  package mutating func restart() {
    current = preferred
    untriedCount = count - 1
    (isAtHint, isHintSpent) = (hasHint, hasHint)
  }
}
