/// A small generator of random numbers, for jitter and tests: the same seed gives the same numbers. Not for secrets.
///
/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
package struct SeededGenerator: RandomNumberGenerator, Sendable, Hashable {
  private var state: UInt64

  package init(seed: UInt64) { state = seed }

  package mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
    return mixed ^ mixed >> 31
  }
}

/// How long a device waits before it connects again: twice as long after each failure, and never all devices at once.
package struct Backoff: Sendable, Hashable {
  package struct Configuration: Sendable, Hashable {
    package var firstMilliseconds: UInt64
    package var maximumMilliseconds: UInt64
    /// Milliseconds for which a connection must have been good for the wait to begin at the first again: a service
    /// that accepts and closes at once is one that fails.
    package var steadyMilliseconds: UInt64
    /// Whether a wait may be as short as a millisecond, and not only as short as half of the turn's: it spreads a
    /// whole fleet best, and lets one device come back sooner than it needs to.
    package var hasFullJitter: Bool

    package init(
      firstMilliseconds: UInt64 = 1000, maximumMilliseconds: UInt64 = 300_000,
      steadyMilliseconds: UInt64 = 30_000, hasFullJitter: Bool = false
    ) {
      precondition(
        firstMilliseconds > 0 && firstMilliseconds <= maximumMilliseconds,
        "waits are above zero, the first not above the last")
      self.firstMilliseconds = firstMilliseconds
      self.maximumMilliseconds = maximumMilliseconds
      self.steadyMilliseconds = steadyMilliseconds
      self.hasFullJitter = hasFullJitter
    }
  }

  package let configuration: Configuration
  /// The wait that comes next, before jitter.
  private var nextMilliseconds: UInt64
  private var generator: SeededGenerator

  package init(configuration: Configuration, seed: UInt64) {
    self.configuration = configuration
    nextMilliseconds = configuration.firstMilliseconds
    generator = SeededGenerator(seed: seed)
  }

  /// The service announced that it closes, and when it wants the device back: that is no failure, so the next wait is
  /// the first again. The announced wait is bounded as any other.
  package mutating func announced(waitMilliseconds: UInt64) -> UInt64 {
    nextMilliseconds = configuration.firstMilliseconds
    return min(waitMilliseconds, configuration.maximumMilliseconds)
  }

  /// The milliseconds to wait now: from half the turn's wait to all of it, or with full jitter from 1 on.
  ///
  /// - Parameter connectedMilliseconds: For how long the connection that ended was good; nil where there was none.
  package mutating func wait(afterConnectionOf connectedMilliseconds: UInt64?) -> UInt64 {
    if let connectedMilliseconds, connectedMilliseconds >= configuration.steadyMilliseconds {
      nextMilliseconds = configuration.firstMilliseconds
    }
    let wait = nextMilliseconds
    let (doubled, overflow) = wait.multipliedReportingOverflow(by: 2)
    nextMilliseconds =
      overflow ? configuration.maximumMilliseconds : min(doubled, configuration.maximumMilliseconds)
    let shortest = configuration.hasFullJitter ? 1 : wait - wait / 2
    return UInt64.random(in: shortest...wait, using: &generator)
  }
}
