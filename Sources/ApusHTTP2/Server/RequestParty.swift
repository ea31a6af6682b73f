package import ApusModel

/// Whose requests share a bound: those of a team, or those of an address (or /64) without a credential.
package struct RequestParty: Hashable, Sendable {
  /// That of the listener, for a party without a credential; nil for a team.
  let untrustedEnvironment: Environment?
  /// The team's identifier, or the address.
  private let high: UInt64
  private let low: UInt64

  private init(_ environment: Environment?, _ high: UInt64, _ low: UInt64) {
    untrustedEnvironment = environment
    (self.high, self.low) = (high, low)
  }

  /// The trusted connections of a team; any pair of numbers that identifies it.
  package static func team(high: UInt64, low: UInt64) -> RequestParty {
    RequestParty(nil, high, low)
  }

  /// The untrusted connections of an address to the listeners of an environment.
  package static func untrusted(
    high: UInt64, low: UInt64, environment: Environment
  ) -> RequestParty {
    RequestParty(environment, high, low)
  }

  /// For sessions outside a service, all of which are one team's.
  package static let sole = RequestParty.team(high: 0, low: 0)
}
