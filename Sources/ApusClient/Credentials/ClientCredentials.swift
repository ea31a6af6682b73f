import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust

/// What a client's connections prove the provider with, taken up anew when its files change. Confined to the client's
/// loop.
final class ClientCredentials {
  private let configuration: ClientConfiguration
  private var files: [WatchedFile]
  /// For new connections.
  private(set) var context: TLSContext
  /// Nil where a certificate speaks.
  private var tokens: SharedProviderTokens?
  /// How far the service's clock is ahead of ours; nil: it never said.
  private(set) var clockSkewSeconds: Int64?
  private var nextLookMilliseconds: UInt64 = 0

  /// How often the files' stamps are looked at.
  private static let lookMilliseconds: UInt64 = 1000
  /// A service's clock that differs by less is the way, and not the clock.
  static let skewSeconds: Int64 = 30

  init(_ configuration: ClientConfiguration) throws(ClientConfigurationError) {
    self.configuration = configuration
    files = []
    for path in configuration.credential.paths { files.append(try WatchedFile(path)) }
    let material = try configuration.credential.material(files)
    context = try configuration.tlsContext(material)
    tokens = try configuration.tokenSource(material)
  }

  /// The value of `authorization` now; empty where a certificate speaks, nil when it cannot be made.
  func authorization() -> [UInt8]? {
    guard let tokens else { return [] }
    return tokens.authorization(nowSeconds: nowSeconds)
  }

  /// The service calls the token expired. False: no other can be made.
  func renewAuthorization() -> Bool { tokens?.renew(nowSeconds: nowSeconds) ?? false }

  /// Seconds since the token's `iat`.
  var tokenAgeSeconds: Int64? { tokens?.issuedAt.map { nowSeconds - $0 } }

  /// The service's clock, at its first answer on a connection.
  func noteServerClock(_ seconds: Int64) {
    clockSkewSeconds = seconds - ownSeconds
  }

  /// The service judges tokens by its own clock.
  private var nowSeconds: Int64 {
    let seconds = ownSeconds
    guard let skew = clockSkewSeconds, abs(skew) >= Self.skewSeconds else { return seconds }
    return seconds + skew
  }

  private var ownSeconds: Int64 {
    (configuration.clock?.nowMilliseconds ?? EventLoop.wallClockMilliseconds()) / 1000
  }

  enum Reload: Equatable {
    case unchanged
    /// Connections that were made before go by something else.
    case changed
    /// The files changed and are no good; what was there goes on.
    case failed(String)
  }

  /// Takes files up that changed, once a second at most.
  func reload(nowMilliseconds: UInt64) -> Reload {
    guard !files.isEmpty, nowMilliseconds >= nextLookMilliseconds else { return .unchanged }
    nextLookMilliseconds = nowMilliseconds + Self.lookMilliseconds
    var hasChanged = false
    for index in files.indices where files[index].reload() { hasChanged = true }
    guard hasChanged else { return .unchanged }
    do throws(ClientConfigurationError) {
      let material = try configuration.credential.material(files)
      let newContext = try configuration.tlsContext(material)
      tokens = try configuration.tokenSource(material)
      context = newContext
      return .changed
    } catch {
      // A certificate whose key has not been written yet, for example: the next change is looked at again.
      return .failed(error.description)
    }
  }
}
