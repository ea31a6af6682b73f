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
import Glibc
import Synchronization

/// A complete service inside the test's process, on loopback ports chosen by the system.
///
/// It has a listener of each kind in each environment.
package final class TestService: Sendable {
  package struct Options: Sendable {
    /// Stores everything in memory, else in the directory's store.
    package var isEphemeral = true
    /// Replaces both, for tests that make it slow or fail.
    package var store: (any DurableStore)?
    /// The rows of the last of several parts, which is the one in front without an edge; nil: a store in memory.
    package var lastPartStore: (any DurableStore)?
    /// The rules of the binary interface, one listener for each.
    package var gatewayRules = [BinaryRules.standard]
    /// Two, so that devices and pushes cross between them.
    package var workers = 2
    package var unregisterGraceSeconds: Int64 = 0
    package var allowsInBandCertificates = true
    package var shutdownSeconds = 120
    /// A tenth of the default, so that tests with any wait involve dormant devices.
    package var dormantSeconds: UInt64 = 1
    package var allowsCompactTLS = true
    package var requestsPerTokenPerSecond = Limits.requestsPerTokenPerSecond
    package var requestsPerToken = Limits.requestsPerToken
    /// For notifications that wait in memory.
    package var memoryMegabytes = Limits.memoryMegabytes
    package var usesIPv6 = false
    /// The proxies that all listeners expect; nil: clients connect themselves.
    package var proxies: [AddressRange]?
    /// What listeners present in place of the directory's certificate.
    package var serverCertificates: [ListenerKind: IdentityFiles] = [:]
    /// Connection limit; nil: what the test's file descriptors allow.
    package var connectionCapacity: Int?
    package var halfOpenLimit = Limits.handshakesHalfOpen
    package var enrolment = EnrolmentMode.all
    /// Nil: no administration API.
    package var admin: AdminConfiguration?
    package var logLevel = Log.Level.error
    /// Receives the log's lines instead of standard error.
    package var logSink: (@Sendable (String) -> Void)?

    /// The interceptor.
    package var interceptor: (any Interceptor)?
    /// Receives every line of the ledger.
    package var ledgerWatcher: (any LedgerWatcher)?
    /// Bytes of the ledger's lines that wait while the store fails.
    package var ledgerWaitingBytes = LedgerBounds.defaultWaitingBytes
    /// Sends what is for other services' devices upstream.
    package var relay: (any UpstreamRelay)?
    /// Whether clients connect to an edge, which passes on everything to the service. Not with an interceptor.
    package var isBehindEdge = TestService.isBehindEdge
    /// Nodes that decide at the same time, each about a part of the devices. Clients connect to the last one, or to an
    /// edge. Only with one store in memory for each.
    package var parts = TestService.parts
    /// What devices at the edge are told.
    package var advertisedHost: String?

    package init() {}

    package init(_ change: (inout Options) -> Void) { change(&self) }
  }

  /// Whether all services of this process are behind an edge: for a run of all tests in that way.
  private static let isBehindEdge = unsafe getenv("APUS_TEST_EDGE") != nil

  /// Into how many parts the devices of all services of this process are divided, if possible: for such a run.
  private static let parts =
    unsafe getenv("APUS_TEST_PARTS").flatMap { unsafe Int(String(cString: $0)) } ?? 1

  package let directory: TestDirectory
  package let service: TestServiceHandle
  private let listeners: [OpenListener]
  /// Where the service accepts links; nil unless it is behind an edge.
  package let linkAddress: SocketAddress?
  private let issuedToken = Mutex<(atSeconds: Int64, authorization: String)?>(nil)

  /// Starts a service on a new directory, or on that of an earlier service.
  package init(_ directory: TestDirectory? = nil, _ options: Options = Options()) throws {
    let directory = try directory ?? TestDirectory()
    self.directory = directory
    let address: SocketAddress =
      options.usesIPv6 ? .loopbackIPv6(port: 0) : .loopbackIPv4(port: 0)
    let kinds: [(ListenerKind, BinaryRules)] =
      [
        (.provider, .standard), (.courier, .standard), (.feedback, .standard),
        (.channels, .standard),
      ]
      + options.gatewayRules.map { (.gateway, $0) }
    var configuration = ServerConfiguration(
      dataDirectory: directory.data.path,
      listeners: kinds.flatMap { kind, rules in
        Environment.allCases.map {
          ListenerConfiguration(
            kind: kind, environment: $0, addresses: [address], rules: rules,
            proxies: options.proxies, serverCertificate: options.serverCertificates[kind])
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
    configuration.interceptor = options.interceptor
    configuration.ledgerWatcher = options.ledgerWatcher
    configuration.ledgerWaitingBytes = options.ledgerWaitingBytes
    configuration.relay = options.relay
    configuration.advertisedHost = options.advertisedHost
    let canDivide = options.isEphemeral && options.store == nil
    let parts = options.interceptor == nil && canDivide ? options.parts : 1
    guard options.isBehindEdge && options.interceptor == nil || parts > 1 else {
      let service = try Service(configuration, store: options.store)
      try service.start()
      listeners = service.listeners
      linkAddress = nil
      self.service = TestServiceHandle([service])
      return
    }
    (service, listeners, linkAddress) = try Self.cluster(
      configuration, directory, options, parts: parts)
  }

  /// The name of the node that has part 0 of the devices.
  package static let node = NodeName("a")

  /// A service for each part of the devices, and an edge in front of them.
  private static func cluster(
    _ configuration: ServerConfiguration, _ directory: TestDirectory,
    _ options: Options, parts: Int
  ) throws -> (TestServiceHandle, [OpenListener], SocketAddress?) {
    let data = DataDirectory(path: directory.data.path)
    let names = (0..<parts).compactMap { NodeName("\(UnicodeScalar(UInt8(97 + $0)))") }
    func serving(_ name: NodeName) throws -> LinkServing {
      LinkServing(
        identity: try data.linkIdentity(of: name, nowSeconds: TestDirectory.nowSeconds),
        isMember: { names.contains($0) })
    }
    var services: [Service] = []
    let hasEdge = options.isBehindEdge
    var stores: [any DurableStore] = parts > 1 ? names.map { _ in MemoryStore() } : []
    if let last = options.lastPartStore { stores[parts - 1] = last }
    let others = Array(stores.dropFirst())
    for (part, name) in names.enumerated() {
      var inner = configuration
      inner.link = try serving(name)
      inner.share = DeviceShare(part: part, of: parts) ?? .all
      let isInFront = !hasEdge && name == names.last
      if !isInFront {
        // They get what clients have said after it.
        for index in inner.listeners.indices { inner.listeners[index].proxies = nil }
      }
      inner.listeners.append(
        ListenerConfiguration(
          kind: .link, environment: .production, addresses: [.loopbackIPv4(port: 0)]))
      // Only the one in front has listeners for it, in the directory of all.
      if !isInFront {
        inner.admin = configuration.admin.map {
          AdminConfiguration(hasSocket: false, version: $0.version)
        }
      }
      if part > 0 { inner.relay = nil }
      let service = try Service(
        inner, store: stores.isEmpty ? options.store : stores[part], others: { others })
      try service.start()
      services.append(service)
    }
    let places = zip(names, services).map { name, service in
      (name, service.listeners.last?.addresses.first)
    }
    func tell(_ service: Service) {
      for (part, (name, address)) in places.enumerated() {
        service.links?.set(address.map { (name, $0) }, part: part)
      }
    }
    for service in services { tell(service) }
    guard hasEdge, let first = names.first else {
      let listeners = services.last?.listeners.dropLast() ?? []
      return (TestServiceHandle(services), Array(listeners), places.first?.1)
    }
    var outer = configuration
    outer.link = try serving(first)
    outer.share = DeviceShare(part: nil, of: parts) ?? .none
    outer.isEphemeral = true
    outer.relay = nil
    let edge = try Service(outer)
    try edge.start()
    tell(edge)
    let listeners = edge.listeners
    return (TestServiceHandle(services, edge: edge), listeners, places.first?.1)
  }

  deinit { stop() }

  /// Stops the service, once; returns when it has stopped.
  package func stop() {
    service.stop()
  }

  /// - Parameter wait: As in `Service.stop(wait:)`.
  package func stop(wait: (Int64) -> Bool) {
    service.stop(wait: wait)
  }

  /// - Parameter listener: The index among several gateways, in the order of the options.
  package func address(
    _ kind: ListenerKind, _ environment: Environment = .production, listener: Int = 0
  ) -> SocketAddress {
    listeners.filter { $0.kind == kind && $0.environment == environment }[listener].addresses[0]
  }

  // MARK: Clients

  /// A connection after its TLS handshake. The client trusts the directory's authority.
  package func tls(
    _ kind: ListenerKind, _ environment: Environment = .production,
    listener: Int = 0, protocols: [String], identity: TLSIdentity? = nil,
    session: TLSSession? = nil, proxyHeader: [UInt8] = [],
    change: (inout TLSClientConfiguration) -> Void = { _ in }
  ) throws -> RawTLSClient {
    var configuration = clientConfiguration(protocols: protocols, identity: identity)
    change(&configuration)
    let tcp = try RawTCPClient(address(kind, environment, listener: listener))
    try tcp.send(proxyHeader)
    return try RawTLSClient(tcp, TLSContext(client: configuration), session: session)
  }

  private func clientConfiguration(
    protocols: [String], identity: TLSIdentity? = nil
  ) -> TLSClientConfiguration {
    TLSClientConfiguration(
      trustRoots: .authorities(PEM: Array(directory.serviceAuthority.certificate.pem.utf8)),
      identity: identity, applicationProtocols: protocols, serverName: "localhost")
  }

  /// The TLS context of a provider, for a handshake on an existing connection.
  package func providerContext() throws -> TLSContext {
    try TLSContext(client: clientConfiguration(protocols: ["h2"]))
  }

  /// A provider that has sent its preface.
  ///
  /// - Parameter kind: `.channels` for one that manages channels.
  package func provider(
    _ environment: Environment = .production, identity: TLSIdentity? = nil,
    at kind: ListenerKind = .provider
  ) throws -> RawHTTP2Client {
    let client = RawHTTP2Client(
      try tls(kind, environment, protocols: ["h2"], identity: identity))
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

  /// The courier dialect with the certificate in the handshake.
  package static let courierProtocol = "apus-courier/1"
  package static let inBandProtocol = "apns-security-v3"
  package static let oldCourierProtocol = "apns-security-v2"

  // MARK: Requests

  /// The header fields of a push, in the usual order of clients.
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

  /// `bearer ` and a token of the directory's key. The same for a quarter of an hour, since a connection may not change
  /// its token within 20 minutes (429 TooManyProviderTokenUpdates).
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

extension RawHeader {
  package init(_ name: HeaderName, _ value: String) { self.init("\(name.text)", value) }
}

extension [RawHeader] {
  /// The fields with `name` set to `value`; a new field is added at the end.
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
