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
}
