import ApusCore
import ApusHTTP2
import ApusLoop
import ApusModel

// What changes when a provider has shown a valid credential.

extension HTTP2Provider {
  /// Throws if the provider's team has too many connections; then this one ends.
  func raiseStreamLimit() throws(Refusal) {
    guard !hasRaisedLimit else { return }
    guard !isCrowdedOut, connection.becomeTrusted(as: .provider(sender.team)) else {
      isCrowdedOut = true
      let refusal = Refusal(.tooManyConnections)
      end(refusal.reason)
      throw refusal
    }
    guard !connection.isLeaving else { return }
    hasRaisedLimit = true
    session.change(to: .team(sender.team))
    session.raiseStreamLimit(to: Limits.concurrentStreams)
  }
}

extension RequestParty {
  /// Nil: providers that lenient mode accepts although their credentials name no team.
  static func team(_ id: ShortID?) -> RequestParty {
    .team(high: id?.high ?? 0, low: UInt64(id?.low ?? 0))
  }

  /// Those of a connection without a credential.
  static func untrusted(_ connection: Connection) -> RequestParty {
    let site = connection.peer.siteNumbers
    return .untrusted(high: site.high, low: site.low, environment: connection.listener.environment)
  }
}
