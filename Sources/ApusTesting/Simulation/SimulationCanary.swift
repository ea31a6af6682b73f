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
  /// The lines of the ledger that were not in the store go with the process.
  case losesJournals = "loses-journals"
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
  /// Every app retains one notification, whatever the operator says.
  case retainsOne = "retains-one"
  /// One notification in twenty from the store is taken for delivered, and is not sent.
  case losesDrained = "loses-drained"
  /// The counters of one group in three have a hundred notifications more than there were.
  case countsMore = "counts-more"
  /// Old senders are cut off without the packet that says why.
  case closesSilently = "closes-silently"
  /// What a device does not acknowledge is taken for acknowledged.
  case forgetsUnacknowledged = "forgets-unacknowledged"
  /// A token lives again when its app comes back to the device.
  case revivesTokens = "revives-tokens"
  /// While the disk has no room the store answers nobody.
  case silentWhenFull = "silent-when-full"
  /// A service whose disk has no room ends the connections of its devices.
  case endsDevicesWhenFull = "ends-devices-when-full"
  /// One notification in twenty comes behind the next one.
  case swapsOrder = "swaps-order"

  /// Simulated seconds in which the disk has no room, for rules about that.
  var fullDiskSeconds: Range<Int>? {
    switch self {
    case .silentWhenFull, .endsDevicesWhenFull: 60..<240
    default: nil
    }
  }
}
