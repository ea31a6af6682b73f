package import ApusLoop
public import ApusModel
import ApusTLS
import ApusTrust

/// The settings of a client.
public struct ClientConfiguration: Sendable {
  /// Which authorities the client trusts for the service's certificate.
  public enum TrustRoots: Sendable {
    /// The authorities of the operating system, for Apple's service.
    case system
    /// These certificates only, in PEM form, for a service with its own authority.
    case pem([UInt8])
  }

  /// How the provider authenticates.
  public enum Credential: Sendable {
    /// A key in PEM form as in Apple's `.p8` files (P-256, not encrypted), its id of 10 characters and the team id.
    ///
    /// The client creates the tokens itself. Source: Establishing a token-based connection to APNs.
    case providerToken(keyPEM: [UInt8], keyID: String, teamID: String)
    /// A certificate, followed by the certificates up to its authority, and its unencrypted key, both in PEM form.
    ///
    /// Source: Establishing a certificate-based connection to APNs.
    case certificate(certificatePEM: [UInt8], keyPEM: [UInt8])
    /// A certificate and its key in one encrypted file (`.p12`).
    case pkcs12([UInt8], password: String)

    // The client checks the files every second while it has connections, and before each new connection. After a
    // change, new connections use the new credential, and the old ones close once their pushes are answered.

    /// Like ``providerToken(keyPEM:keyID:teamID:)``, from a `.p8` file.
    case providerTokenFile(path: String, keyID: String, teamID: String)
    /// Like ``certificate(certificatePEM:keyPEM:)``, from two files or from one file that contains both.
    case certificateFiles(certificatePath: String, keyPath: String)
    /// Like ``pkcs12(_:password:)``, from a file.
    case pkcs12File(path: String, password: String)
  }

  /// An HTTP proxy in front of the service. The client asks it for a tunnel with CONNECT (RFC 9110, section 9.3.6) in
  /// plain text; TLS runs through the tunnel to the service.
  public struct Proxy: Sendable, Hashable {
    public var endpoint: Endpoint
    /// Together with a password: sent as `Basic` credentials (RFC 7617).
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
  /// The name that the service's certificate must contain; nil for the endpoint's host.
  public var serverName: String?
  /// Seconds from `send` to its outcome, in every case. 1 to 3600.
  public var sendTimeoutSeconds = 30
  /// Seconds for connecting to one address, TLS handshake included. 1 to 300.
  public var connectTimeoutSeconds = 10
  /// Pushes that may wait for a stream; a push beyond that gets its outcome immediately. 1 to 1,000,000.
  public var queueCapacity = 10_000
  /// Most connections that the client opens while pushes wait; idle ones close after a minute. 1 to 1000.
  public var maximumConnections = 8
  /// Seconds of silence after which the client sends a PING. No push is sent before its answer, so the client detects
  /// connections that a NAT or firewall has dropped. 1 to 3600.
  public var pingAfterSeconds = 60
  /// Whether the client resends pushes that a busy service refused (429 TooManyRequests, 500 InternalServerError, 503
  /// ServiceUnavailable) while there is time: after `retry-after` if the service sent it, else after 1, 2 and 4
  /// seconds.
  public var retriesRefusals = true
  /// Where a ``ChannelClient`` manages channels. Nil: Apple's endpoint for that if `endpoint` is Apple's, else the same
  /// host with port 2199, or 2200 if `endpoint` has the port for the development environment, 2198.
  public var channelsEndpoint: Endpoint?
  /// Nil for a direct connection.
  public var proxy: Proxy?
  /// A file in which all processes with the same key share their provider token, so that all present the same one. It
  /// must be writable for all of them; the client creates it with mode 0600 if it does not exist. Nil: each process
  /// signs its own.
  public var tokenFile: String?
  /// Receives events about connections and credentials.
  public var observer: (any ClientObserver)?
  /// Connections that stay open without work.
  var idleConnections = 1
  /// Resolves host names, for tests; nil: the system's resolver.
  var resolver: Resolver?
  /// The time of day for provider tokens, for a service whose clock is set by tests; nil: the system's clock.
  package var clock: ServiceClock?

  public init(
    endpoint: Endpoint, trustRoots: TrustRoots = .system, credential: Credential
  ) {
    self.endpoint = endpoint
    self.trustRoots = trustRoots
    self.credential = credential
  }
}

// Configurations end in logs, so none of these says a key or a password.

extension ClientConfiguration.TrustRoots: CustomStringConvertible {
  public var description: String {
    switch self {
    case .system: "the system's authorities"
    case .pem: "given authorities"
    }
  }
}

extension ClientConfiguration.Credential: CustomStringConvertible {
  /// The kind of credential, and its ids or paths.
  public var description: String {
    switch self {
    case .providerToken(_, let keyID, let teamID): "key \(keyID) of team \(teamID)"
    case .providerTokenFile(let path, let keyID, let teamID):
      "key \(keyID) of team \(teamID) in \(path)"
    case .certificate: "a certificate"
    case .certificateFiles(let path, _): "the certificate in \(path)"
    case .pkcs12: "a certificate (PKCS #12)"
    case .pkcs12File(let path, _): "the certificate in \(path) (PKCS #12)"
    }
  }
}

extension ClientConfiguration.Proxy: CustomStringConvertible {
  public var description: String { "\(endpoint)\(user.map { " as \($0)" } ?? "")" }
}

/// The address at which a push service accepts providers.
public struct Endpoint: Sendable, Hashable {
  /// A host name, or an IPv4 or IPv6 address without brackets.
  public var host: String
  public var port: UInt16

  /// The port of HTTPS, which URLs omit.
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
      // `UInt16.init` accepts a sign, which is not valid in a port.
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

  /// Apple's service. Source: Sending notification requests to APNs.
  public static func apple(_ environment: Environment) -> Endpoint {
    switch environment {
    case .production: Endpoint(host: "api.push.apple.com")
    case .development: Endpoint(host: "api.sandbox.push.apple.com")
    }
  }

  /// The `:authority` of a request, without the default port (RFC 9110, section 4.2.2).
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

/// Why the configuration is invalid: which setting, and its allowed values.
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
      throw ClientConfigurationError("\(name) \"\(endpoint)\" needs a host and a port")
    }
  }
}

extension ClientConfiguration {
  func validate() throws(ClientConfigurationError) {
    try ClientConfigurationError.require("endpoint", endpoint)
    if let channelsEndpoint {
      try ClientConfigurationError.require("channelsEndpoint", channelsEndpoint)
    }
    if let proxy {
      try ClientConfigurationError.require("proxy", proxy.endpoint)
      guard proxy.user?.utf8.contains(UInt8(ascii: ":")) != true else {
        throw ClientConfigurationError("the proxy's user must not contain a colon (RFC 7617)")
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

  /// Nil if the provider authenticates with a certificate.
  func tokenSource(
    _ material: CredentialMaterial
  ) throws(ClientConfigurationError) -> SharedProviderTokens? {
    guard case .token(let keyPEM, let keyID, let teamID) = material else { return nil }
    do {
      return try SharedProviderTokens.shared(
        keyPEM: keyPEM, keyID: keyID, teamID: teamID, file: tokenFile)
    } catch TrustFault.badSubject(let text) {
      throw ClientConfigurationError(
        "\"\(text)\" is not an id: a key id has 10 letters and digits, a team id 1 to 64")
    } catch {
      throw ClientConfigurationError("the provider key: \(error)")
    }
  }

  var dispatcherSettings: DispatcherSettings {
    DispatcherSettings(
      authority: Array(endpoint.authority.utf8), queueCapacity: queueCapacity,
      maximumConnections: maximumConnections, idleConnections: idleConnections,
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
