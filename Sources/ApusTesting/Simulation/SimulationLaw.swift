/// What a simulation checks. CONTRIBUTING.md explains the laws by their numbers.
package enum SimulationLaw: String, Sendable, CaseIterable {
  /// An accepted notification arrives, or a newer one replaced it; a request is answered.
  case arrival
  /// A device that has been online and acknowledging for a minute has everything that was accepted before.
  case timeliness
  /// What is not acknowledged is sent again.
  case repetition
  /// What was acknowledged, or was not to be stored, never arrives again.
  case uniqueness
  case order
  case expiration
  /// The tokens of an installed app stay valid.
  case livingTokens = "living-tokens"
  /// Nothing reaches another device, app or environment.
  case addressee
  /// Nothing is accepted that must be rejected.
  case rights
  /// No dead token becomes valid again.
  case deadTokens = "dead-tokens"
  case bounds
  /// The counters agree with the store.
  case counters
  /// The number of acceptances agrees with the responses to providers.
  case answers
  /// The ledger has the end of each notification.
  case ledger
  /// When nothing is wrong, or no longer, a provider gets its answer.
  case promptness
  /// A binary provider is told why its connection ends.
  case reasons
  /// What was rejected does not arrive.
  case rejection
  /// No worker takes turns of its loop without work.
  case idleness
  /// On a full disk, providers get 503 at once.
  case fullDiskAnswers = "full-disk-answers"
  /// On a full disk, devices stay connected.
  case fullDiskDevices = "full-disk-devices"
  /// A feedback list holds inactive tokens, and keeps each one until a reader has read the list to its end.
  case feedback
  /// An inactive token goes to one reader of the feedback list at a time.
  case feedbackSharing = "feedback-sharing"
  /// An accepted broadcast reaches the devices that are subscribed and connected, and later ones if it is stored,
  /// unless a newer one has replaced it.
  case broadcastArrival = "broadcast-arrival"
  /// A device gets the broadcasts of the channels that it is subscribed to, and no others.
  case subscriptions
  /// A broadcast comes once. A stored one comes again, recognizably, only if the service was killed or has no
  /// acknowledgement.
  case broadcastUniqueness = "broadcast-uniqueness"
  /// No broadcast of a channel comes after a newer one.
  case broadcastOrder = "broadcast-order"
  /// What the relay accepted is answered by upstream, or ends for a reason: it has expired, is too old, or its token is
  /// dead.
  case relayArrival = "relay-arrival"
  /// When everything works, nothing stays in the spool.
  case relayRest = "relay-rest"
  /// Upstream gets what was accepted once, and again only if its answer was lost.
  case relayUniqueness = "relay-uniqueness"
  /// What a legacy sender sends again is recognised if it was accepted, and only then.
  case relayResends = "relay-resends"
  /// Each bad or dead token is reported to its sender, or in the feedback list, and no other.
  case relayFeedback = "relay-feedback"
  /// For a day, nothing goes upstream for a dead token.
  case relayDeadTokens = "relay-dead-tokens"
  /// Nothing is sent upstream that the operator has paused.
  case relayPause = "relay-pause"
  /// The totals of the spool agree with its rows.
  case relayTotals = "relay-totals"
  /// Clients understand the service, and can connect to it.
  case protocols

  /// The number in CONTRIBUTING.md; nil for what has none.
  package var number: Int? {
    switch self {
    case .arrival, .timeliness, .repetition, .uniqueness, .order, .expiration, .livingTokens: 1
    case .addressee, .rights, .deadTokens: 2
    case .bounds: 3
    case .counters, .answers, .ledger: 4
    case .promptness, .reasons, .rejection: 5
    case .idleness: 6
    case .fullDiskAnswers, .fullDiskDevices: 7
    case .feedback, .feedbackSharing: 8
    case .broadcastArrival, .subscriptions, .broadcastUniqueness, .broadcastOrder: 9
    case .relayArrival, .relayRest, .relayUniqueness, .relayResends, .relayFeedback,
      .relayDeadTokens, .relayPause, .relayTotals:
      10
    case .protocols: nil
    }
  }

  var isAboutChannels: Bool { number == 9 }
  var isAboutRelay: Bool { number == 10 }
}

/// A broken law.
package struct SimulationViolation: Sendable, CustomStringConvertible {
  package var law: SimulationLaw
  package var text: String

  package var description: String {
    let number = law.number.map { "law \($0), " } ?? ""
    return "\(number)\(law.rawValue): \(text)"
  }
}
