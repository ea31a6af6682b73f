/// What must hold between nodes that share a database, whatever happens.
package enum LeaseLaw: Sendable, CaseIterable {
  /// One process at a time decides about a part of the devices.
  case oneOwner
  /// No write of a process takes effect after its successor has read.
  case noLateWrite
  /// A node has one lease at most.
  case oneLease
  /// As many parts are served as there are nodes that can, or are again in time.
  case servedAgain
}

/// A rule that a walk breaks on purpose, to show that a law notices it.
package enum LeaseCanary: Sendable, CaseIterable {
  /// A process takes a lease although it has changed since the process looked.
  case claimsWithoutCompare
  /// The comparison leaves the counter out.
  case claimsWithoutCounter
  /// Rows are read before the lane is taken.
  case readsBeforeFence
  /// A renewal counts from its confirmation.
  case countsFromConfirmation
  /// Verdicts do not ask whether the lease has lapsed.
  case ignoresLapse
  /// The clock of a paused process stands still.
  case stopsClockWhilePaused
  /// A node takes the first free lease, whatever it had before.
  case forgetsItsName
  /// A lane is waited for as long as a paused process holds it.
  case neverTerminates
  /// Each round of looks begins anew.
  case forgetsLooks
  /// A lease is free, although the database of its part is away.
  case takesWhatIsAway
  /// A process waits for all databases.
  case needsAllDatabases
  /// A database that failed is tried again in each round of looks.
  case triesWithoutPause

  /// The law that must notice it.
  package var law: LeaseLaw {
    switch self {
    case .claimsWithoutCompare, .claimsWithoutCounter, .countsFromConfirmation, .ignoresLapse,
      .stopsClockWhilePaused:
      .oneOwner
    case .readsBeforeFence: .noLateWrite
    case .forgetsItsName: .oneLease
    case .neverTerminates, .forgetsLooks, .takesWhatIsAway, .needsAllDatabases,
      .triesWithoutPause:
      .servedAgain
    }
  }
}

/// How much a walk has seen.
package struct LeaseCounts: Sendable {
  package var takeOvers = 0
  package var renewals = 0
  package var writes = 0
  package var verdicts = 0
  package var terminations = 0
  package var calms = 0

  package init() {}

  package static func += (sum: inout LeaseCounts, other: LeaseCounts) {
    sum.takeOvers += other.takeOvers
    sum.renewals += other.renewals
    sum.writes += other.writes
    sum.verdicts += other.verdicts
    sum.terminations += other.terminations
    sum.calms += other.calms
  }
}

/// What was broken first, and what was counted.
struct LeaseLaws {
  private(set) var fault: (law: LeaseLaw, text: String)?
  var counts = LeaseCounts()

  mutating func broken(_ law: LeaseLaw, _ text: String) {
    if fault == nil { fault = (law, text) }
  }
}
