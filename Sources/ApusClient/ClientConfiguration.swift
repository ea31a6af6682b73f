package import ApusLoop
public import ApusModel
import ApusTLS
import ApusTrust

/// Everything that a client is told when it is made.
public struct ClientConfiguration: Sendable {
  /// Whose certificates the client takes for the service's.
  public enum TrustRoots: Sendable {
    /// The authorities of the operating system: right for Apple's service.
    case system
    /// These certificates only, in PEM form: right for a service with an authority of its own.
    case pem([UInt8])
  }

  /// What the provider proves itself with.
  public enum Credential: Sendable {
    /// A key in PEM form as in Apple's `.p8` files (P-256, not encrypted), its id of 10 characters and the team's.
    ///
    /// "Establishing a token-based connection to APNs". The client makes the tokens itself.
    case providerToken(keyPEM: [UInt8], keyID: String, teamID: String)
    /// A certificate, with those that lead to its authority behind it, and its key, not encrypted; both in PEM form.
    ///
    /// "Establishing a certificate-based connection to APNs".
    case certificate(certificatePEM: [UInt8], keyPEM: [UInt8])
    /// A certificate with its key in one encrypted file (`.p12`).
    case pkcs12([UInt8], password: String)

    // Files are looked at every second while there are connections, and before each new one. When one has changed, new
    // connections go by it, and the old ones end once their pushes are answered.

    /// As ``providerToken(keyPEM:keyID:teamID:)``, from a `.p8` file.
    case providerTokenFile(path: String, keyID: String, teamID: String)
    /// As ``certificate(certificatePEM:keyPEM:)``, from two files or from one that has both.
    case certificateFiles(certificatePath: String, keyPath: String)
    /// As ``pkcs12(_:password:)``, from a file.
    case pkcs12File(path: String, password: String)
  }

  /// An HTTP proxy that leads to the service: asked for a tunnel with CONNECT (RFC 9110, section 9.3.6), in the clear;
  /// TLS goes through it to the service itself.
  public struct Proxy: Sendable, Hashable {
    public var endpoint: Endpoint
    /// With a password: sent as `Basic` credentials (RFC 7617).
    public var user: String?
    public var password: String?

    public init(_ endpoint: Endpoint, user: String? = nil, password: String? = nil) {
      self.endpoint = endpoint
      self.user = user
      self.password = password
    }
  }

  public var endpoint: Endpoint
  public var trustRoots: TrustRoots
  public var credential: Credential
  /// The name that the service's certificate must be for; nil for the endpoint's host.
  public var serverName: String?
  /// Seconds from `send` to its outcome, whatever happens. 1 to 3600.
  public var sendTimeoutSeconds = 30
  /// Seconds for connecting to one address and for the TLS handshake together. 1 to 300.
  public var connectTimeoutSeconds = 10
  /// Pushes that may wait for a stream; those beyond get their outcome at once. 1 to 1,000,000.
  public var queueCapacity = 10_000
  /// Connections that are made at most, as pushes wait; those that are not needed end after a minute. 1 to 1000.
  public var maximumConnections = 8
  /// Seconds of silence after which the service is asked for a sign of life (PING), so that a connection that a device
  /// on the way has forgotten is found out before a push is put on it. 1 to 3600.
  public var pingAfterSeconds = 60
  /// Whether a push that a busy service refused (429 TooManyRequests, 500 InternalServerError, 503 ServiceUnavailable)
  /// is sent again by itself while there is time: when the service said (`retry-after`), else after 1, 2 and 4 seconds.
  public var retriesRefusals = true
  /// Nil: connections go to the service directly.
  public var proxy: Proxy?
  /// A file that all processes with the same key can write to: they keep their provider token there, so that all show
  /// the service the same one. It is made where there is none, with mode 0600. Nil: each process signs its own.
  public var tokenFile: String?
  /// Hears of what happens to connections and credentials.
  public var observer: (any ClientObserver)?
  /// Looks a host up, for tests; nil: the system's resolver.
  var resolver: Resolver?
  /// What the client takes for the time of day when it makes provider tokens, for a service whose clock is set; nil:
  /// the system's.
  package var clock: ServiceClock?

  public init(
    endpoint: Endpoint, trustRoots: TrustRoots = .system, credential: Credential
  ) {
    self.endpoint = endpoint
    self.trustRoots = trustRoots
    self.credential = credential
  }
}

/// Where a push service listens for providers.
public struct Endpoint: Sendable, Hashable {
  /// A host name, or an IPv4 or IPv6 address without brackets.
  public var host: String
  public var port: UInt16

  /// The port of HTTPS, which a URL does not name.
  public static let defaultPort: UInt16 = 443

  public init(host: String, port: UInt16 = Endpoint.defaultPort) {
    self.host = host
    self.port = port
  }

  /// Reads `host`, `host:port`, `192.0.2.1:2197` or `[2001:db8::1]:2197`; nil for anything else.
  public init?(_ text: String) {
    var host = text[...]
    var port = Endpoint.defaultPort
    let afterBracket = text.firstIndex(of: "]")
    if let colon = text[(afterBracket ?? text.startIndex)...].lastIndex(of: ":") {
      let digits = text[text.index(after: colon)...]
      // `UInt16.init` takes a sign, which no port has.
      guard digits.utf8.allSatisfy({ $0 &- 0x30 < 10 }), let number = UInt16(digits), number > 0
      else { return nil }
      port = number
      host = text[..<colon]
    }
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") || afterBracket != nil {
      return nil
    }
    guard !host.isEmpty else { return nil }
    self.init(host: String(host), port: port)
  }

  /// Apple's service. "Sending notification requests to APNs".
  public static func apple(_ environment: Environment) -> Endpoint {
    switch environment {
    case .production: Endpoint(host: "api.push.apple.com")
    case .development: Endpoint(host: "api.sandbox.push.apple.com")
    }
  }

  /// The `:authority` of a request. RFC 9110, section 4.2.2: without the scheme's own port.
  var authority: String {
    let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
    return port == Endpoint.defaultPort ? name : "\(name):\(port)"
  }
}

extension Endpoint: CustomStringConvertible {
  public var description: String {
    host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
  }
}

/// Why a client cannot be made of its configuration: which part is wrong, and what it must be.
public struct ClientConfigurationError: Error, Sendable, Hashable, CustomStringConvertible {
  public var description: String

  init(_ description: String) { self.description = description }

  static func require(
    _ name: StaticString, _ value: Int, in range: ClosedRange<Int>
  ) throws(ClientConfigurationError) {
    guard range.contains(value) else {
      throw ClientConfigurationError(
        "\(name) is \(value): it must be \(range.lowerBound) to \(range.upperBound)")
    }
  }

  static func require(
    _ name: StaticString, _ endpoint: Endpoint
  ) throws(ClientConfigurationError) {
    guard !endpoint.host.isEmpty, !endpoint.host.utf8.contains(0), endpoint.port > 0 else {
      throw ClientConfigurationError("\(name) \"\(endpoint)\": a host and a port are needed")
    }
  }
}

extension ClientConfiguration {
  func validate() throws(ClientConfigurationError) {
    try ClientConfigurationError.require("endpoint", endpoint)
    if let proxy {
      try ClientConfigurationError.require("proxy", proxy.endpoint)
      guard proxy.user?.utf8.contains(UInt8(ascii: ":")) != true else {
        throw ClientConfigurationError("the proxy's user must not have a colon (RFC 7617)")
      }
    }
    try ClientConfigurationError.require("sendTimeoutSeconds", sendTimeoutSeconds, in: 1...3600)
    try ClientConfigurationError.require(
      "connectTimeoutSeconds", connectTimeoutSeconds, in: 1...300)
    try ClientConfigurationError.require("queueCapacity", queueCapacity, in: 1...1_000_000)
    try ClientConfigurationError.require("maximumConnections", maximumConnections, in: 1...1000)
    try ClientConfigurationError.require("pingAfterSeconds", pingAfterSeconds, in: 1...3600)
  }

  func tlsContext(
    _ material: CredentialMaterial
  ) throws(ClientConfigurationError) -> TLSContext {
    var tls = TLSClientConfiguration(
      applicationProtocols: ["h2"], serverName: serverName ?? endpoint.host, keepsSessions: false)
    if case .pem(let pem) = trustRoots { tls.trustRoots = .authorities(PEM: pem) }
    if case .identity(let identity) = material { tls.identity = identity }
    do {
      return try TLSContext(client: tls)
    } catch {
      throw ClientConfigurationError(error.description)
    }
  }

  /// Nil where a certificate speaks for the provider.
  func tokenSource(
    _ material: CredentialMaterial
  ) throws(ClientConfigurationError) -> SharedProviderTokens? {
    guard case .token(let keyPEM, let keyID, let teamID) = material else { return nil }
    do {
      return try SharedProviderTokens.shared(
        keyPEM: keyPEM, keyID: keyID, teamID: teamID, file: tokenFile)
    } catch TrustFault.badSubject(let text) {
      throw ClientConfigurationError(
        "\"\(text)\" is no id: a key id has 10 letters and digits, a team id 1 to 64")
    } catch {
      throw ClientConfigurationError("the provider key: \(error)")
    }
  }

  var dispatcherSettings: DispatcherSettings {
    DispatcherSettings(
      authority: Array(endpoint.authority.utf8), queueCapacity: queueCapacity,
      maximumConnections: maximumConnections,
      pingAfterMilliseconds: UInt64(pingAfterSeconds) * 1000,
      readyTimeoutMilliseconds: UInt64(connectTimeoutSeconds) * 1000,
      stallMilliseconds: UInt64(sendTimeoutSeconds) * 1000, retriesRefusals: retriesRefusals)
  }

  var tunnel: ProxyTunnel? { proxy.map { ProxyTunnel(to: endpoint, through: $0) } }

  func resolve(
    _ target: Endpoint, _ loop: EventLoop,
    _ completion: @escaping (Result<[SocketAddress], SocketError>) -> Void
  ) {
    guard let resolver else {
      return SocketAddress.resolve(
        host: target.host, port: target.port, on: loop, completion: completion)
    }
    completion(resolver(target))
  }

  typealias Resolver = @Sendable (Endpoint) -> Result<[SocketAddress], SocketError>
}
