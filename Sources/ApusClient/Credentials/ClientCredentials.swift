import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust

/// The credential of a client's connections, reloaded when its files change. Confined to the client's loop.
final class ClientCredentials {
  private let configuration: ClientConfiguration
  private var files: [WatchedFile]
  /// For new connections.
  private(set) var context: TLSContext
  /// Nil if the provider authenticates with a certificate.
  private var tokens: SharedProviderTokens?
  /// How far the service's clock is ahead of ours; nil: the service has not sent its time.
  private(set) var clockSkewSeconds: Int64?
  private var nextLookMilliseconds: UInt64 = 0

  /// How often the files are checked.
  private static let lookMilliseconds: UInt64 = 1000
  /// Smaller differences between the clocks are attributed to network delay.
  static let skewSeconds: Int64 = 30

  init(_ configuration: ClientConfiguration) throws(ClientConfigurationError) {
    self.configuration = configuration
    files = []
    for path in configuration.credential.paths { files.append(try WatchedFile(path)) }
    let material = try configuration.credential.material(files)
    context = try configuration.tlsContext(material)
    tokens = try configuration.tokenSource(material)
  }

  /// The current value of `authorization`; empty with a certificate, nil if no token can be created.
  func authorization() -> [UInt8]? {
    guard let tokens else { return [] }
    return tokens.authorization(nowSeconds: nowSeconds)
  }

  /// Called when the service considers the token expired. False if no newer one can be created.
  func renewAuthorization() -> Bool { tokens?.renew(nowSeconds: nowSeconds) ?? false }

  /// Seconds since the token's `iat`.
  var tokenAgeSeconds: Int64? { tokens?.issuedAt.map { nowSeconds - $0 } }

  /// The service's time, from the first answer on a connection.
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
    /// Existing connections use an outdated credential.
    case changed
    /// The changed files are invalid; the previous credential stays in use.
    case failed(String)
  }

  /// Reloads files that changed, at most once a second.
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
      // For example a certificate whose key has not been written yet: the next change triggers another attempt.
      return .failed(error.description)
    }
  }
}
