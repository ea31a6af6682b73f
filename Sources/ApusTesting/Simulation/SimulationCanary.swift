import ApusServer

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
  case splitsLeases = "splits-leases"
  /// A running service keeps using its initial directory.
  case ignoresReloads = "ignores-reloads"
  /// Payloads on the binary interface are not checked.
  case takesBadPayloads = "takes-bad-payloads"
  /// Look-ups of a dormant device report it as offline.
  case losesDormant = "loses-dormant"
  /// Every app retains one notification, whatever its configuration.
  case retainsOne = "retains-one"
  /// One notification in two that waited in the store counts as delivered, but is not sent, if a newer one follows.
  case losesDrained = "loses-drained"
  /// The counters of one group in three are one notification too high.
  case countsMore = "counts-more"
  /// Binary providers are disconnected without the packet that gives the reason.
  case closesSilently = "closes-silently"
  /// Unacknowledged notifications count as acknowledged.
  case forgetsUnacknowledged = "forgets-unacknowledged"
  /// A dead token becomes active again when a filter lists its app before the app asks for a new one.
  case revivesTokens = "revives-tokens"
  /// While the disk is full, the store never answers.
  case silentWhenFull = "silent-when-full"
  /// While the disk is full, the service ends the connections of its devices.
  case endsDevicesWhenFull = "ends-devices-when-full"
  /// One notification in twenty arrives after the next one.
  case swapsOrder = "swaps-order"
  /// Connected devices are not told of broadcasts.
  case beginsNoWalks = "begins-no-walks"
  /// Dormant devices are not woken for broadcasts.
  case passesDormant = "passes-dormant"
  /// What channels keep is not read when the service starts.
  case forgetsBroadcasts = "forgets-broadcasts"
  /// Channels that a device unsubscribes from stay subscribed.
  case keepsUnsubscribed = "keeps-unsubscribed"
  /// Which broadcasts a device has is not written when its connection ends.
  case savesNoMarks = "saves-no-marks"
  /// One broadcast in four arrives after the next one.
  case swapsBroadcasts = "swaps-broadcasts"
  /// One provider in ten whose broadcast was accepted is told that it was rejected.
  case deniesBroadcasts = "denies-broadcasts"
  /// One notification in twenty counts as accepted upstream, and was not sent.
  case claimsSent = "claims-sent"
  /// The operator's command to go on does not reach the relay.
  case staysPaused = "stays-paused"
  /// One request in ten is sent upstream twice.
  case repeatsUpstream = "repeats-upstream"
  /// A resend is taken for accepted if the original came, whether or not the store took it.
  case swallowsResends = "swallows-resends"
  /// Each worker recognises only resends after its own error packets.
  case splitsResends = "splits-resends"
  /// A bad token counts as reported, whether or not its sender could be told.
  case listsNoBadTokens = "lists-no-bad-tokens"
  /// Upstream's answer that a token is dead counts as acceptance.
  case missesDead = "misses-dead"
  /// The operator's command to pause does not reach the relay.
  case ignoresPause = "ignores-pause"
  /// A node that another one has taken over from still writes.
  case writesFenced = "writes-fenced"
  /// Such a node accepts what it can no longer write.
  case acceptsFenced = "accepts-fenced"
  /// Such a node says that tokens are dead because it remembers it so.
  case trustsMemory = "trusts-memory"
  /// Two nodes decide, each for some of the others.
  case hasTwoOwners = "has-two-owners"
  /// What a link had without a verdict when it ended is not sent again.
  case losesLinkBatch = "loses-link-batch"
  /// What a device has said and no node has dealt with is not given to the next one.
  case losesUnhandled = "loses-unhandled"
  /// What a node could not write in its copy of the channels is not tried again.
  case forgetsUnwritten = "forgets-unwritten"
  /// A group of writes whose outcome is unknown counts as written.
  case believesUnknown = "believes-unknown"
  /// The totals of the spool are not written in one group in ten.
  case losesSpoolTotals = "loses-spool-totals"

  /// The law that must report it.
  package var law: SimulationLaw {
    switch self {
    case .answersEarly, .losesGroups, .retainsOne: .arrival
    case .writesFenced, .hasTwoOwners: .counters
    case .acceptsFenced, .believesUnknown: .arrival
    case .losesLinkBatch: .promptness
    case .trustsMemory: .livingTokens
    case .losesUnhandled: .protocols
    case .keepsRemoved: .uniqueness
    case .mixesDevices: .addressee
    case .hidesKept, .losesCounters: .counters
    case .losesJournals, .forgetsUnstored: .ledger
    case .clearsUnread: .feedback
    case .splitsLeases: .feedbackSharing
    case .ignoresReloads, .takesBadPayloads: .rights
    case .losesDormant, .losesDrained: .timeliness
    case .countsMore: .answers
    case .closesSilently: .reasons
    case .forgetsUnacknowledged: .repetition
    case .revivesTokens: .deadTokens
    case .silentWhenFull: .fullDiskAnswers
    case .endsDevicesWhenFull: .fullDiskDevices
    case .swapsOrder: .order
    case .beginsNoWalks, .passesDormant, .forgetsBroadcasts, .forgetsUnwritten: .broadcastArrival
    case .keepsUnsubscribed: .subscriptions
    case .savesNoMarks: .broadcastUniqueness
    case .swapsBroadcasts: .broadcastOrder
    case .deniesBroadcasts: .rejection
    case .claimsSent: .relayArrival
    case .staysPaused: .relayRest
    case .repeatsUpstream: .relayUniqueness
    case .swallowsResends, .splitsResends: .relayResends
    case .listsNoBadTokens: .relayFeedback
    case .missesDead: .relayDeadTokens
    case .ignoresPause: .relayPause
    case .losesSpoolTotals: .relayTotals
    }
  }

  /// The first of the seeds under which that law reports it, with five minutes of traffic; nil if there is none.
  package func firstReport(under seeds: ClosedRange<UInt64>) throws -> UInt64? {
    try seeds.first { seed in
      var options = Simulation.Options(seed: seed, seconds: 300)
      options.canary = self
      return try Simulation(options).run().violations.contains { $0.law == law }
    }
  }

  /// The rule that the service breaks itself.
  var broadcastFault: BroadcastFault? {
    switch self {
    case .beginsNoWalks: .beginsNoWalks
    case .passesDormant: .passesDormant
    case .forgetsBroadcasts: .readsNoStored
    case .keepsUnsubscribed: .keepsUnsubscribed
    case .savesNoMarks: .savesNoMarks
    case .forgetsUnwritten: .forgetsUnwritten
    default: nil
    }
  }

  /// Whether its rule is about channels.
  var needsChannels: Bool { law.isAboutChannels || self == .deniesBroadcasts }

  /// Whether its rule is about several nodes.
  var needsCluster: Bool {
    switch self {
    case .writesFenced, .acceptsFenced, .trustsMemory, .hasTwoOwners, .losesLinkBatch,
      .losesUnhandled, .believesUnknown, .forgetsUnwritten:
      true
    default: false
    }
  }

  /// Whether its rule is about nodes with a part of the devices each.
  var needsParts: Bool { self == .forgetsUnwritten }

  /// Whether its rule is about the relay.
  var needsRelay: Bool { law.isAboutRelay }

  /// By how much providers send less often, for rules that a newer notification would explain, or hide.
  var quietness: UInt64 { self == .losesDrained || self == .passesDormant ? 10 : 1 }

  /// Simulated seconds during which the disk is full, for rules about that.
  var fullDiskSeconds: Range<Int>? {
    switch self {
    case .silentWhenFull, .endsDevicesWhenFull: 60..<240
    default: nil
    }
  }
}
