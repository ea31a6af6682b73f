/// A rule that a simulation breaks on purpose: one that does not notice would notice nothing.
package enum SimulationCanary: String, Sendable, CaseIterable {
  /// The store says that a group is durable before it is.
  case answersEarly = "answers-early"
  /// One group in twenty is said to be durable and is not written.
  case losesGroups = "loses-groups"
  /// What is taken out of the mailbox stays there.
  case keepsRemoved = "keeps-removed"
  /// The mailbox of one device is taken for that of all.
  case mixesDevices = "mixes-devices"
  /// What a write kept that failed cannot be found.
  case hidesKept = "hides-kept"
  /// The counters of one group in ten are not written with it.
  case losesCounters = "loses-counters"
  /// The system says of everything that was written to a connection that it has arrived.
  case clearsUnread = "clears-unread"
  /// Each worker gives out the feedback lists as if it were alone.
  case splitsDesks = "splits-desks"
  /// A running service goes on with the directory that it began with.
  case ignoresReloads = "ignores-reloads"
  /// Old senders' payloads are not looked at.
  case takesBadPayloads = "takes-bad-payloads"
  /// Whoever looks for a device that is dormant is told that it is away.
  case losesDormant = "loses-dormant"
}
