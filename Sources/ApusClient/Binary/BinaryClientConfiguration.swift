public import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

/// The settings of a client of the binary interface.
///
/// Apple switched that interface off on 31 March 2021. Gateways of others still use it.
public struct BinaryClientConfiguration: Sendable {
  /// The format of notifications. Source: Binary Provider API.
  public enum Command: Sendable, Hashable {
    /// Command 2: identifier, expiration and priority.
    case framed
    /// Command 1: identifier and expiration.
    case enhanced
    /// Command 0: neither. The service cannot say which notification is bad: it just closes the connection, and all
    /// notifications in flight are `unknown`.
    case simple
  }

  public var endpoint: Endpoint
  public var trustRoots: ClientConfiguration.TrustRoots
  /// A certificate, also in files or PKCS#12; the binary interface does not use provider tokens. The certificate's
  /// topic is the topic of all pushes. Files are checked before each connection; a certificate for another topic needs
  /// another client.
  public var credential: ClientConfiguration.Credential
  /// The name that the service's certificate must contain; nil for the endpoint's host.
  public var serverName: String?
  public var command = Command.framed
  /// Whether the service confirms each notification of commands 1 and 2 with a packet of status 0, as Apus does on
  /// listeners with `+confirm`. Apple never did. If set, silence does not count as acceptance.
  public var expectsConfirmations = false
  /// Connections to open under load. 1 to 64.
  public var connections = 1
  /// Milliseconds of silence after which a notification counts as accepted, from the moment the service's system has
  /// it. 100 to 60,000. Services answer a bad one within half a second. Later packets are counted in
  /// ``BinaryStatistics/corrected`` and repaired where possible.
  public var silenceMilliseconds = 3000
  /// Most notifications without an outcome on one connection; more wait. 16 to 16,777,216. Without confirmations a
  /// connection sends at most this many in `silenceMilliseconds`.
  public var windowCapacity = 65_536
  /// Most bytes of memory for them on each connection, allocated as needed. 65,536 to 2^30.
  public var windowBytes = 16 << 20
  /// Seconds from `send` to its outcome, in every case. 1 to 3600, and longer than the silence.
  public var sendTimeoutSeconds = 30
  /// Seconds for connecting to one address, TLS handshake included. 1 to 300.
  public var connectTimeoutSeconds = 10
  /// Pushes that may wait for a connection; a push beyond that gets its outcome immediately. 1 to 1,000,000.
  public var queueCapacity = 10_000
  /// Receives notifications that were reported as accepted by silence but were not, with their corrected outcome.
  /// Called on the client's thread.
  public var onCorrection: (@Sendable (NotificationID, SendOutcome) -> Void)?

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
  /// The port of the binary interface. Source: Binary Provider API.
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

/// What a client presents to a service that asks for a certificate: the TLS context, and the topics of the certificate.
struct BinaryIdentity {
  /// For new connections.
  private(set) var context: TLSContext
  /// Empty if the certificate names no topics; then the service has to judge.
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

  /// Reloads files that changed. Invalid files, such as a certificate whose key has not been written yet, change
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
      throw ClientConfigurationError("credential: the binary interface accepts certificates only")
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
