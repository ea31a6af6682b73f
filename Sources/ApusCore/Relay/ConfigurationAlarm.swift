import ApusModel

/// Decides whether a bad token is charged to its provider, or to the gateway's own configuration.
///
/// Upstream gives the same answer for a token that never existed as for a good one that it is asked about with the
/// credential of another environment or topic. Providers delete bad tokens from their databases, so a wrong
/// configuration that was passed on would empty them. One value watches the tokens of one app in one environment.
///
/// It keeps a balance: each bad token adds one, each good one (accepted, or dead: upstream knows it) takes one, down to
/// 0. A bad token beyond `Limits.badTokensMargin` is held and raises the alarm, so since any moment at most that many
/// more bad tokens than good ones were reported. This finds any lasting majority of bad tokens, a wrong configuration
/// after 20 answers, and leaves alone a batch of 10,000 with 50 bad ones among the others.
///
/// At the beginning, and after each change of the configuration, nothing is known: the balance begins
/// `Limits.badTokensUnproven` below the margin. The first three bad tokens are reported at once, since a test bench
/// with a single one waits for its status 8; the fourth is held if no good one came before. Of an app whose first 200
/// tokens are all bad, three are reported and 197 held.
///
/// The alarm ends in one of three ways: the operator confirms that the tokens are bad; the operator changes the
/// configuration; or good tokens bring the balance to 0, as after a cluster of really bad ones. Only the first reports
/// held tokens. After the others they are sent again, because they may be good: of a bad one, upstream says so again.
///
/// Three small numbers. Only `isRaised` is worth storing: after a start the other tokens prove themselves again.
package struct ConfigurationAlarm: Sendable, Hashable {
  package enum Order: Sendable, Hashable {
    /// Tell the provider that the token is bad.
    case report
    /// Keep the notification, and tell nobody.
    case hold
    /// Keep the notification, and tell the operator. Once for each alarm.
    case raise
  }

  package private(set) var isRaised: Bool
  /// Bad tokens less good ones, from 0 to the margin.
  private var balance: Int
  /// Answers left of those after a confirmation that report whatever comes.
  private var graceCount = 0

  /// - Parameter isRaised: Whether the alarm was raised when the service ended.
  package init(isRaised: Bool = false) {
    self.isRaised = isRaised
    balance = isRaised ? Limits.badTokensMargin : Self.unprovenBalance
  }

  private static let unprovenBalance = Limits.badTokensMargin - Limits.badTokensUnproven

  /// Upstream has answered that a token is bad.
  package mutating func noteBad() -> Order {
    if graceCount > 0 {
      graceCount -= 1
      return .report
    }
    guard balance == Limits.badTokensMargin else {
      balance += 1
      return isRaised ? .hold : .report
    }
    guard !isRaised else { return .hold }
    isRaised = true
    return .raise
  }

  /// Upstream has accepted a notification, or answered that its token is dead.
  ///
  /// - Returns: Whether the alarm has ended: send the held notifications again, a few at a time among others.
  package mutating func noteGood() -> Bool {
    if graceCount > 0 {
      graceCount -= 1
      return false
    }
    balance = max(0, balance - 1)
    guard isRaised, balance == 0 else { return false }
    isRaised = false
    return true
  }

  /// The operator says that the tokens are bad and the configuration is right.
  ///
  /// - Returns: Whether the alarm was raised: report all held tokens.
  package mutating func confirm() -> Bool {
    guard isRaised else { return false }
    isRaised = false
    balance = 0
    graceCount = Limits.badTokensConfirmed
    return true
  }

  /// The operator has changed the credential, the topic or the address of the app's upstream. Do not note answers to
  /// what was sent before.
  ///
  /// - Returns: Whether the alarm was raised: send the held notifications again.
  package mutating func configurationChanged() -> Bool {
    let wasRaised = isRaised
    self = ConfigurationAlarm()
    return wasRaised
  }
}
