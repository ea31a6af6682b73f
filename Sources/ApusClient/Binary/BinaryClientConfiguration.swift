public import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

/// Everything that a client of the binary interface is told when it is made.
///
/// Apple switched that interface off on 31 March 2021. It lives on in gateways of others, with which a provider may
/// have to speak.
public struct BinaryClientConfiguration: Sendable {
  /// How notifications are written. Source: "Binary Provider API".
  public enum Command: Sendable, Hashable {
    /// Command 2: identifier, expiration and priority.
    case framed
    /// Command 1: identifier and expiration.
    case enhanced
    /// Command 0: neither. The service cannot say which notification is bad: it just ends the connection, and all that
    /// were under way are `unknown`.
    case simple
  }

  public var endpoint: Endpoint
  public var trustRoots: ClientConfiguration.TrustRoots
  /// A certificate, also in files or PKCS#12: the binary interface knows no provider tokens. Its topic is the topic of
  /// all pushes. Files are looked at again before each connection; a certificate for another topic needs another
  /// client.
  public var credential: ClientConfiguration.Credential
  /// The name that the service's certificate must be for; nil for the endpoint's host.
  public var serverName: String?
  public var command = Command.framed
  /// Whether the service confirms each notification of commands 1 and 2 with a packet of status 0, as Apus does on
  /// listeners with `+confirm`, and Apple never did. Then nothing is accepted by silence.
  public var expectsConfirmations = false
  /// Connections that are opened under load. 1 to 64.
  public var connections = 1
  /// Milliseconds for which a service must have been silent about a notification that its system has, before that
  /// counts as accepted. 100 to 60,000. Services answer a bad one within half a second; what comes later than this is
  /// counted in ``BinaryStatistics/belied``, and repaired as far as can be.
  public var silenceMilliseconds = 3000
  /// Notifications that a connection may have under way without an outcome; more wait. 16 to 16,777,216. Without
  /// confirmations a connection sends no more than these in `silenceMilliseconds`.
  public var windowCapacity = 65_536
  /// Bytes of memory for them, at most, for each connection: it grows as it is needed. 65,536 to 2^30.
  public var windowBytes = 16 << 20
  /// Seconds from `send` to its outcome, whatever happens. 1 to 3600, and more than the silence.
  public var sendTimeoutSeconds = 30
  /// Seconds for connecting to one address and for the TLS handshake together. 1 to 300.
  public var connectTimeoutSeconds = 10
  /// Pushes that may wait for a connection; those beyond get their outcome at once. 1 to 1,000,000.
  public var queueCapacity = 10_000
  /// Hears of notifications that were reported as accepted by silence and are not, with what is known now. Called on
  /// the client's thread.
  public var onBelied: (@Sendable (NotificationID, SendOutcome) -> Void)?

  public init(
    endpoint: Endpoint, trustRoots: ClientConfiguration.TrustRoots = .system,
    credential: ClientConfiguration.Credential
  ) {
    self.endpoint = endpoint
    self.trustRoots = trustRoots
    self.credential = credential
  }
}

extension Endpoint {
  /// The port of the binary interface. "Binary Provider API".
  public static let gatewayPort: UInt16 = 2195
  /// The port of its feedback service.
  public static let feedbackPort: UInt16 = 2196
}

extension BinaryClientConfiguration {
  func validate() throws(ClientConfigurationError) {
    try ClientConfigurationError.require("endpoint", endpoint)
    try ClientConfigurationError.require("connections", connections, in: 1...64)
    try ClientConfigurationError.require(
      "silenceMilliseconds", silenceMilliseconds, in: 100...60_000)
    try ClientConfigurationError.require("windowCapacity", windowCapacity, in: 16...1 << 24)
    try ClientConfigurationError.require("windowBytes", windowBytes, in: 65_536...1 << 30)
    try ClientConfigurationError.require("sendTimeoutSeconds", sendTimeoutSeconds, in: 1...3600)
    try ClientConfigurationError.require(
      "connectTimeoutSeconds", connectTimeoutSeconds, in: 1...300)
    try ClientConfigurationError.require("queueCapacity", queueCapacity, in: 1...1_000_000)
    guard !expectsConfirmations || command != .simple else {
      throw ClientConfigurationError("expectsConfirmations: command 0 is never confirmed")
    }
    guard expectsConfirmations || silenceMilliseconds < sendTimeoutSeconds * 1000 else {
      throw ClientConfigurationError(
        "silenceMilliseconds is \(silenceMilliseconds): it must be less than sendTimeoutSeconds")
    }
  }

  var window: SentQueue.Window {
    SentQueue.Window(
      frames: windowCapacity, bytes: windowBytes,
      silenceMilliseconds: expectsConfirmations ? nil : UInt64(silenceMilliseconds))
  }

  func encoder(_ identity: BinaryIdentity) -> FrameEncoder {
    let command: BinaryCommand =
      switch command {
      case .framed: .framed
      case .enhanced: .enhanced
      case .simple: .simple
      }
    return FrameEncoder(command: command, topics: identity.topics)
  }
}

/// Who a provider is for a service that asks for a certificate: the TLS context, and the topics of the certificate.
struct BinaryIdentity {
  /// For new connections.
  private(set) var context: TLSContext
  /// Empty where the certificate is none that names topics: then the service has to judge.
  let topics: [String]
  private let credential: ClientConfiguration.Credential
  private let serverName: String
  private let trustRoots: ClientConfiguration.TrustRoots
  private var files: [WatchedFile] = []

  init(
    endpoint: Endpoint, serverName: String?, trustRoots: ClientConfiguration.TrustRoots,
    credential: ClientConfiguration.Credential
  ) throws(ClientConfigurationError) {
    self.credential = credential
    self.serverName = serverName ?? endpoint.host
    self.trustRoots = trustRoots
    for path in credential.paths { files.append(try WatchedFile(path)) }
    let identity = try Self.identity(credential, files)
    context = try Self.context(identity, self.serverName, trustRoots)
    let text = String(decoding: identity.certificateChainPEM, as: UTF8.self)
    let certificate = try? Certificate(pem: text)
    topics = certificate.flatMap { try? ProviderCertificate($0) }?.topics ?? []
  }

  /// Takes files up that changed. What is no good, such as a certificate whose key has not been written yet, changes
  /// nothing.
  mutating func reload() {
    var hasChanged = false
    for index in files.indices where files[index].reload() { hasChanged = true }
    guard hasChanged, let identity = try? Self.identity(credential, files),
      let fresh = try? Self.context(identity, serverName, trustRoots)
    else { return }
    context = fresh
  }

  private static func identity(
    _ credential: ClientConfiguration.Credential, _ files: [WatchedFile]
  ) throws(ClientConfigurationError) -> TLSIdentity {
    guard case .identity(let identity) = try credential.material(files) else {
      throw ClientConfigurationError("credential: the binary interface takes certificates only")
    }
    return identity
  }

  private static func context(
    _ identity: TLSIdentity, _ serverName: String, _ trustRoots: ClientConfiguration.TrustRoots
  ) throws(ClientConfigurationError) -> TLSContext {
    var tls = TLSClientConfiguration(
      identity: identity, serverName: serverName, keepsSessions: false)
    if case .pem(let pem) = trustRoots { tls.trustRoots = .authorities(PEM: pem) }
    do throws(TLSError) {
      return try TLSContext(client: tls)
    } catch {
      throw ClientConfigurationError(error.description)
    }
  }
}
