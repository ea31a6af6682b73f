package import ApusAdmin
package import ApusCore
package import ApusDirectory
package import ApusEnrolment
package import ApusLog
package import ApusLoop
package import ApusModel
package import ApusServer
package import ApusStore
package import ApusTLS
import ApusTrust
import Synchronization

/// A whole service inside the test's process, on ports of the loopback that the system chose.
///
/// A door of each kind in each environment.
package final class TestService: Sendable {
  package struct Options: Sendable {
    /// Keeps everything in memory, else in the directory's store.
    package var isEphemeral = true
    /// In place of either, for tests that make it slow or fail.
    package var store: (any DurableStore)?
    /// A listener for each: how the binary interface judges there.
    package var gatewayRules = [BinaryRules.standard]
    /// Two, so that devices and pushes cross from one to the other.
    package var workers = 2
    package var unregisterGraceSeconds: Int64 = 0
    package var allowsInBandCertificates = true
    package var shutdownSeconds = 120
    /// A tenth of what it is in earnest: tests that wait for anything meet dormant devices.
    package var dormantSeconds: UInt64 = 1
    package var allowsCompactTLS = true
    package var requestsPerTokenPerSecond = Limits.requestsPerTokenPerSecond
    package var requestsPerToken = Limits.requestsPerToken
    /// Of notifications that wait in memory.
    package var memoryMegabytes = Limits.memoryMegabytes
    package var usesIPv6 = false
    /// Connections that there may be; nil for what the test's descriptors allow.
    package var connectionCapacity: Int?
    package var halfOpenLimit = Limits.handshakesHalfOpen
    package var enrolment = EnrolmentMode.all
    /// Nil: it is not administered.
    package var admin: AdminConfiguration?
    package var logLevel = Log.Level.error
    /// Takes the log's lines in place of standard error.
    package var logSink: (@Sendable (String) -> Void)?

    /// Who listens in and makes things go wrong.
    package var rehearsal: (any Rehearsal)?
    /// Hears of every line of the ledger.
    package var ledgerWatcher: (any LedgerWatcher)?

    package init() {}

    package init(_ change: (inout Options) -> Void) { change(&self) }
  }

  package let directory: TestDirectory
  package let service: TestServiceHandle
  private let doors: [OpenListener]
  private let issuedToken = Mutex<(atSeconds: Int64, authorization: String)?>(nil)

  /// Starts a service on a directory of its own, or on one that another service left.
  package init(_ directory: TestDirectory? = nil, _ options: Options = Options()) throws {
    let directory = try directory ?? TestDirectory()
    self.directory = directory
    let address: SocketAddress =
      options.usesIPv6 ? .loopbackIPv6(port: 0) : .loopbackIPv4(port: 0)
    let kinds: [(ListenerKind, BinaryRules)] =
      [(.provider, .standard), (.courier, .standard), (.feedback, .standard)]
      + options.gatewayRules.map { (.gateway, $0) }
    var configuration = ServerConfiguration(
      dataDirectory: directory.data.path,
      doors: kinds.flatMap { kind, rules in
        Environment.allCases.map {
          DoorConfiguration(kind: kind, environment: $0, addresses: [address], rules: rules)
        }
      })
    configuration.workers = options.workers
    configuration.isEphemeral = options.isEphemeral
    configuration.unregisterGraceSeconds = options.unregisterGraceSeconds
    configuration.allowsInBandCertificates = options.allowsInBandCertificates
    configuration.requestsPerTokenPerSecond = options.requestsPerTokenPerSecond
    configuration.requestsPerToken = options.requestsPerToken
    configuration.memoryMegabytes = options.memoryMegabytes
    configuration.dormantSeconds = options.dormantSeconds
    configuration.allowsCompactTLS = options.allowsCompactTLS
    configuration.shutdownSeconds = options.shutdownSeconds
    configuration.enrolment = options.enrolment
    configuration.admin = options.admin
    configuration.connectionCapacity = options.connectionCapacity
    configuration.halfOpenLimit = options.halfOpenLimit
    configuration.log = Log(minimumLevel: options.logLevel, sink: options.logSink)
    configuration.rehearsal = options.rehearsal
    configuration.ledgerWatcher = options.ledgerWatcher
    let service = try Service(configuration, store: options.store)
    try service.start()
    doors = service.doors
    self.service = TestServiceHandle(service)
  }

  deinit { stop() }

  /// Stops the service, once; returns when it has stopped.
  package func stop() { service.stop() }

  /// - Parameter wait: as that of `Service.stop(wait:)`.
  package func stop(wait: (Int64) -> Bool) { service.stop(wait: wait) }

  /// - Parameter listener: of several gateways, by their place in the options.
  package func address(
    _ kind: ListenerKind, _ environment: Environment = .production, listener: Int = 0
  ) -> SocketAddress {
    doors.filter { $0.kind == kind && $0.environment == environment }[listener].addresses[0]
  }

  // MARK: Clients

  /// A connection after its TLS handshake. The server is known by the directory's authority.
  package func tls(
    _ kind: ListenerKind, _ environment: Environment = .production,
    listener: Int = 0, protocols: [String], identity: TLSIdentity? = nil,
    session: TLSSession? = nil, change: (inout TLSClientConfiguration) -> Void = { _ in }
  ) throws -> RawTLSClient {
    var configuration = clientConfiguration(protocols: protocols, identity: identity)
    change(&configuration)
    return try RawTLSClient(
      address(kind, environment, listener: listener), configuration, session: session)
  }

  private func clientConfiguration(
    protocols: [String], identity: TLSIdentity? = nil
  ) -> TLSClientConfiguration {
    TLSClientConfiguration(
      trustRoots: .authorities(PEM: Array(directory.serviceAuthority.certificate.pem.utf8)),
      identity: identity, applicationProtocols: protocols, serverName: "localhost")
  }

  /// With which a provider shakes hands over a connection that is there already.
  package func providerContext() throws -> TLSContext {
    try TLSContext(client: clientConfiguration(protocols: ["h2"]))
  }

  /// A provider that has sent its preface.
  package func provider(
    _ environment: Environment = .production, identity: TLSIdentity? = nil
  ) throws -> RawHTTP2Client {
    let client = RawHTTP2Client(
      try tls(.provider, environment, protocols: ["h2"], identity: identity))
    try client.begin()
    return client
  }

  /// A device's connection before its connect message.
  package func courier(
    _ device: TestDevice? = nil, _ environment: Environment = .production,
    protocols: [String] = [TestService.courierProtocol]
  ) throws -> RawCourierClient {
    RawCourierClient(
      try tls(.courier, environment, protocols: protocols, identity: device?.identity))
  }

  /// The courier's dialect in which the certificate is shown in the handshake.
  package static let courierProtocol = "apus-courier/1"
  package static let inBandProtocol = "apns-security-v3"
  package static let oldCourierProtocol = "apns-security-v2"

  // MARK: Requests

  /// The header fields of a push, in the order in which clients send them.
  package func pushHeaders(
    to token: String, topic: String = TestDirectory.topic, authorization: String?
  ) -> [RawHeader] {
    var headers: [RawHeader] = [
      RawHeader(.method, "POST"), RawHeader(.scheme, "https"),
      RawHeader(.path, "/3/device/\(token)"), RawHeader(.authority, "localhost"),
      RawHeader(.apnsTopic, topic),
    ]
    if let authorization { headers.append(RawHeader(.authorization, authorization)) }
    return headers
  }

  /// `bearer ` and a token of the directory's key: the same for a quarter of an hour, as a connection
  /// may not change its token within 20 minutes (429 TooManyProviderTokenUpdates).
  package func authorization() throws -> String {
    let now = TestDirectory.nowSeconds
    return try issuedToken.withLock { issued in
      if let issued, now - issued.atSeconds < 900 { return issued.authorization }
      let authorization = try "bearer \(directory.key.token(issuedAt: now))"
      issued = (now, authorization)
      return authorization
    }
  }

  package static let payload = Array(#"{"aps":{"alert":"hi"}}"#.utf8)
}

/// The service behind a `TestService`, which several tests may hold but only one stops.
package final class TestServiceHandle: Sendable {
  // `Service` is told what to do from one thread at a time: the lock's.
  private let running: Mutex<Unchecked?>

  private struct Unchecked: @unchecked Sendable { var service: Service }

  init(_ service: sending Service) { running = Mutex(Unchecked(service: service)) }

  package func stop() {
    running.withLock { running in
      running?.service.stop()
      running = nil
    }
  }

  func stop(wait: (Int64) -> Bool) {
    running.withLock { running in
      running?.service.stop(wait: wait)
      running = nil
    }
  }

  package func counts() -> [DeliveryState: UInt64] {
    running.withLock { $0?.service.counts() ?? [:] }
  }

  /// Connections of all kinds.
  package func connectionCount() -> Int {
    running.withLock { $0?.service.connectionCount() ?? 0 }
  }

  /// What notifications take in memory.
  package func notificationBytes() -> Int {
    running.withLock { $0?.service.notificationBytes() ?? 0 }
  }

  package func dormancy() -> Dormancy { running.withLock { $0?.service.dormancy() ?? Dormancy() } }

  /// What became of the notifications of each topic.
  package func topicCounters() -> [TopicCounters] {
    running.withLock { $0?.service.topicCounters() ?? [] }
  }

  /// Where it is administered over TLS, and where its console is besides.
  package var adminAddresses: [SocketAddress] {
    running.withLock { $0?.service.adminAddresses ?? [] }
  }
  package var consoleURLs: [String] { running.withLock { $0?.service.consoleURLs ?? [] } }

  package func expiringCertificates() -> [ExpiryWatch.Entry] {
    running.withLock { $0?.service.expiringCertificates() ?? [] }
  }

  /// How often requests were refused for each reason.
  package func rejections() -> [Reason: UInt64] {
    running.withLock { $0?.service.rejections() ?? [:] }
  }

  package func clockChanged() { running.withLock { $0?.service.clockChanged() } }

  package func reload() { running.withLock { $0?.service.reload() } }
}

extension RawHeader {
  package init(_ name: HeaderName, _ value: String) { self.init("\(name.text)", value) }
}

extension [RawHeader] {
  /// The fields with `name` set to `value`, behind the others where it was not there.
  package func setting(_ name: String, _ value: String) -> [RawHeader] {
    setting(name, Array<UInt8>(value.utf8))
  }

  package func setting(_ name: String, _ value: [UInt8]) -> [RawHeader] {
    var headers = self
    if let index = headers.firstIndex(where: { $0.name == name }) {
      headers[index].value = value
    } else {
      headers.append(RawHeader(name, value))
    }
    return headers
  }

  package func without(_ name: String) -> [RawHeader] { filter { $0.name != name } }
}
