import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust

/// What a client's connections prove the provider with. Confined to the client's loop.
final class ClientCredentials: @unchecked Sendable {
  /// For new connections.
  private(set) var context: TLSContext
  /// Nil where a certificate speaks.
  private var tokens: SharedProviderTokens?
  /// What the service's clock is ahead of ours.
  private(set) var clockSkewSeconds: Int64?

  init(_ configuration: ClientConfiguration) throws(ClientConfigurationError) {
    context = try configuration.tlsContext()
    tokens = try configuration.tokenSource()
  }

  /// The value of `authorization` now; empty where a certificate speaks, nil when it cannot be made.
  func authorization() -> [UInt8]? {
    guard let tokens else { return [] }
    return tokens.authorization(nowSeconds: nowSeconds)
  }

  /// The service calls the token expired. False: no other can be made.
  func renewAuthorization() -> Bool {
    guard let tokens else { return false }
    return tokens.renew(nowSeconds: nowSeconds)
  }

  /// The service's clock, at its first answer on a connection.
  func noteServerClock(_ seconds: Int64) {
    clockSkewSeconds = seconds - EventLoop.wallClockMilliseconds() / 1000
  }

  private var nowSeconds: Int64 {
    let seconds = EventLoop.wallClockMilliseconds() / 1000
    // The service judges tokens by its clock. A second or two are the way, and not the clock.
    guard let skew = clockSkewSeconds, abs(skew) >= 30 else { return seconds }
    return seconds + skew
  }
}
