import ApusRandom

/// How long a device waits before it reconnects: the wait doubles after each failure, with jitter so that devices do
/// not reconnect all at once.
package struct Backoff: Sendable, Hashable {
  package struct Configuration: Sendable, Hashable {
    package var firstMilliseconds: UInt64
    package var maximumMilliseconds: UInt64
    /// Milliseconds that a connection must last to reset the wait: a service that accepts and closes immediately counts
    /// as failing.
    package var steadyMilliseconds: UInt64
    /// Whether the wait may be as short as 1 ms instead of half of its current value. This spreads a whole fleet best,
    /// but lets single devices return sooner than necessary.
    package var hasFullJitter: Bool

    package init(
      firstMilliseconds: UInt64 = 1000, maximumMilliseconds: UInt64 = 300_000,
      steadyMilliseconds: UInt64 = 30_000, hasFullJitter: Bool = false
    ) {
      precondition(
        firstMilliseconds > 0 && firstMilliseconds <= maximumMilliseconds,
        "waits must be positive, and the first at most the longest")
      self.firstMilliseconds = firstMilliseconds
      self.maximumMilliseconds = maximumMilliseconds
      self.steadyMilliseconds = steadyMilliseconds
      self.hasFullJitter = hasFullJitter
    }
  }

  package let configuration: Configuration
  /// The next wait, before jitter.
  private var nextMilliseconds: UInt64
  private var generator: SeededRandom

  package init(configuration: Configuration, seed: UInt64) {
    self.configuration = configuration
    nextMilliseconds = configuration.firstMilliseconds
    generator = SeededRandom(seed: seed)
  }

  /// Whether a connection that lasted this long shows that connecting works; nil: there was none.
  package func isSteady(_ connectedMilliseconds: UInt64?) -> Bool {
    connectedMilliseconds.map { $0 >= configuration.steadyMilliseconds } ?? false
  }

  /// The next wait is the first again.
  package mutating func reset() { nextMilliseconds = configuration.firstMilliseconds }

  /// The service announced that it closes, and when the device may return. That is not a failure, so the next wait
  /// starts from the first again. The announced wait is bounded like any other.
  package mutating func announced(waitMilliseconds: UInt64) -> UInt64 {
    reset()
    return min(waitMilliseconds, configuration.maximumMilliseconds)
  }

  /// The milliseconds to wait now: from half of the current wait to all of it, or from 1 with full jitter.
  ///
  /// - Parameter connectedMilliseconds: How long the ended connection lasted; nil if there was none.
  package mutating func wait(afterConnectionOf connectedMilliseconds: UInt64?) -> UInt64 {
    if isSteady(connectedMilliseconds) { reset() }
    let wait = nextMilliseconds
    let (doubled, overflow) = wait.multipliedReportingOverflow(by: 2)
    nextMilliseconds =
      overflow ? configuration.maximumMilliseconds : min(doubled, configuration.maximumMilliseconds)
    let shortest = configuration.hasFullJitter ? 1 : wait - wait / 2
    return UInt64.random(in: shortest...wait, using: &generator)
  }
}
