/// A rule that a simulation breaks on purpose, to prove that the checks detect it.
package enum SimulationCanary: String, Sendable, CaseIterable {
  /// The store reports a group as durable before it is.
  case answersEarly = "answers-early"
  /// One group in twenty is reported as durable but not written.
  case losesGroups = "loses-groups"
  /// Notifications removed from the mailbox stay there.
  case keepsRemoved = "keeps-removed"
  /// The mailbox of one device is used for all devices.
  case mixesDevices = "mixes-devices"
  /// Data that a failed write kept cannot be found.
  case hidesKept = "hides-kept"
  /// The counters of one group in ten are not written with it.
  case losesCounters = "loses-counters"
  /// Ledger lines that were not in the store are lost with the process.
  case losesJournals = "loses-journals"
  /// What a killed process had only in memory gets no end in the ledger.
  case forgetsUnstored = "forgets-unstored"
  /// The system reports everything written to a connection as arrived.
  case clearsUnread = "clears-unread"
  /// Each worker serves the feedback lists as if it were the only one.
  case splitsDesks = "splits-desks"
  /// A running service keeps using its initial directory.
  case ignoresReloads = "ignores-reloads"
  /// Payloads on the binary interface are not checked.
  case takesBadPayloads = "takes-bad-payloads"
  /// Look-ups of a dormant device report it as offline.
  case losesDormant = "loses-dormant"
  /// Every app retains one notification, whatever its configuration.
  case retainsOne = "retains-one"
  /// One notification in twenty from the store counts as delivered, but is not sent.
  case losesDrained = "loses-drained"
  /// The counters of one group in three are a hundred notifications too high.
  case countsMore = "counts-more"
  /// Binary providers are disconnected without the packet that gives the reason.
  case closesSilently = "closes-silently"
  /// Unacknowledged notifications count as acknowledged.
  case forgetsUnacknowledged = "forgets-unacknowledged"
  /// A token becomes active again when its app returns to the device.
  case revivesTokens = "revives-tokens"
  /// While the disk is full, the store never answers.
  case silentWhenFull = "silent-when-full"
  /// While the disk is full, the service ends the connections of its devices.
  case endsDevicesWhenFull = "ends-devices-when-full"
  /// One notification in twenty arrives after the next one.
  case swapsOrder = "swaps-order"

  /// Simulated seconds during which the disk is full, for rules about that.
  var fullDiskSeconds: Range<Int>? {
    switch self {
    case .silentWhenFull, .endsDevicesWhenFull: 60..<240
    default: nil
    }
  }
}
