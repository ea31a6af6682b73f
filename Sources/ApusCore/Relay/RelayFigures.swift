package import ApusModel

/// What a relay keeps of one app in one environment, and how many notifications ended how since the service started.
package struct RelayFigures: Sendable {
  package var app: AppID
  package var environment: Environment
  /// Notifications that upstream has not answered for good.
  package var count = 0
  /// Of their rows in the store.
  package var byteCount = 0
  /// Those of them whose tokens upstream takes for bad, while the configuration is in doubt.
  package var doubtedCount = 0
  /// Why none is sent; nil while they are.
  package var hold: RelayLane.Hold?
  package var ended = RelayEndings()
  /// When the oldest of those in memory was accepted, in Unix milliseconds; nil if there is none.
  package var oldestMilliseconds: Int64?
  /// Also of notifications that passed through.
  package var answers = UpstreamAnswers()

  package init(app: AppID, environment: Environment) {
    self.app = app
    self.environment = environment
  }
}

/// How many notifications ended how.
package struct RelayEndings: Sendable, Hashable {
  package var accepted: UInt64 = 0
  /// Rejected for good: a bad token, or something in the notification.
  package var rejected: UInt64 = 0
  /// The token was dead, as upstream said for this one or within a day before.
  package var dead: UInt64 = 0
  /// Expired, or too old.
  package var expired: UInt64 = 0
  /// Sent again although upstream may have accepted them; not an end.
  package var repeated: UInt64 = 0

  package init() {}
}

/// What upstream answered since the service started, and how long that took.
package struct UpstreamAnswers: Sendable {
  package private(set) var accepted: UInt64 = 0
  /// By why it did not accept, or why there was no answer.
  package private(set) var others: [UpstreamCause: UInt64] = [:]
  /// From a request to its answer; without those that got none.
  package private(set) var latency = MillisecondHistogram()
  /// Whether upstream rejects what the gateway shows it, or how it asks: an operator has to act.
  package private(set) var isFailing = false

  package init() {}

  /// Returns whether it now fails, and did not before.
  package mutating func add(_ answer: UpstreamAnswer, afterMilliseconds: UInt64) -> Bool {
    count(answer, afterMilliseconds)
    switch UpstreamVerdict(answer) {
    // Nothing was judged.
    case .again, .later: return false
    case .misconfigured:
      defer { isFailing = true }
      return !isFailing
    case .accepted, .badToken, .dead, .refused:
      isFailing = false
      return false
    }
  }

  private mutating func count(_ answer: UpstreamAnswer, _ milliseconds: UInt64) {
    if let cause = UpstreamCause(answer) {
      others[cause, default: 0] += 1
    } else {
      accepted += 1
    }
    if case .unknown = answer { return }
    latency.add(milliseconds: Int64(clamping: milliseconds))
  }
}

/// What an operator may have a relay do about an app.
package enum RelayCommand: String, Sendable, CaseIterable {
  /// Send nothing more.
  case pause
  /// Go on.
  case resume
  /// Try at once what waits for a later attempt.
  case flush
  /// The tokens that upstream takes for bad are bad: report them.
  case confirm
}
