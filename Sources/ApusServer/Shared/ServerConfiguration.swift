package import ApusAdmin
package import ApusCore
package import ApusDirectory
package import ApusEnrolment
package import ApusLog
package import ApusLoop
package import ApusModel
import ApusStore

/// What a listener speaks, and to which environment it belongs.
package struct ListenerConfiguration: Sendable {
  package var kind: ListenerKind
  package var environment: Environment
  package var addresses: [SocketAddress]
  /// How notifications are judged; only for gateways.
  package var rules: BinaryRules
  /// Whether TLS 1.0 and 1.1 are accepted: both are broken, and an attacker on the network may read tokens and
  /// payloads. Only for old senders, on addresses that only they can reach.
  package var allowsLegacyTLS: Bool
  /// The proxies that may connect, each of which must name its client in a PROXY header; nil if clients connect
  /// themselves.
  package var proxies: [AddressRange]?
  /// What it presents in place of the service's own certificate; nil for that.
  package var serverCertificate: IdentityFiles?

  package init(
    kind: ListenerKind, environment: Environment, addresses: [SocketAddress],
    rules: BinaryRules = .standard, allowsLegacyTLS: Bool = false, proxies: [AddressRange]? = nil,
    serverCertificate: IdentityFiles? = nil
  ) {
    self.kind = kind
    self.environment = environment
    self.addresses = addresses
    self.rules = rules
    self.allowsLegacyTLS = allowsLegacyTLS
    self.proxies = proxies
    self.serverCertificate = serverCertificate
  }
}

/// Everything that a service is told when it starts.
package struct ServerConfiguration: Sendable {
  package var dataDirectory: String
  package var listeners: [ListenerConfiguration]
  /// Threads with a loop each; 0 for one a core.
  package var workers = 0
  /// Whether devices may prove themselves inside the connect message (`apns-security-v3`).
  package var allowsInBandCertificates = true
  /// Whether connections under TLS 1.3 go on without OpenSSL's object after their handshake.
  package var allowsCompactTLS = true
  /// Whether a JWT that says ES512 over a P-256 key is taken, as one library sends it.
  package var allowsES512 = false
  /// Seconds from the filter that drops an app to the 410 for its token.
  package var unregisterGraceSeconds: Int64 = 60
  /// Milliseconds for which a notification that was sent waits for its acknowledgement before it is written.
  package var lingerMilliseconds: UInt64 = 50
  /// Seconds of silence after which a device is kept as a row of a table.
  package var dormantSeconds = UInt64(Limits.courierDormantSeconds)
  /// Requests to one device token that may come in a second, and at once; 0 a second for no limit.
  package var requestsPerTokenPerSecond = Limits.requestsPerTokenPerSecond
  package var requestsPerToken = Limits.requestsPerToken
  /// Connections of all kinds that there may be; nil for what the process's descriptors allow.
  package var connectionCapacity: Int?
  /// Handshakes of each worker that may wait for their peers.
  package var halfOpenLimit = Limits.handshakesHalfOpen
  /// Seconds that a shutdown may take.
  package var shutdownSeconds = 30
  /// Which notifications the ledger follows.
  package var ledger = LedgerMode.all
  /// Days for which lines of the ledger are kept: as long as Apple's Delivery Log.
  package var ledgerDays = 7
  /// Megabytes (2^20 bytes) of the ledger, beyond which the oldest lines go early.
  package var ledgerMegabytes = 1024
  /// Bytes of lines that each writer keeps while the store fails.
  package var ledgerWaitingBytes = LedgerBounds.defaultWaitingBytes
  /// Megabytes (2^20 bytes) that notifications may take while they wait in memory, in the whole service.
  package var memoryMegabytes = Limits.memoryMegabytes
  /// Where notifications and devices are stored; nil for where the data directory has them.
  package var store: StorePlace?
  /// Whether a database without a synchronous standby is good enough.
  package var allowsSingleDatabase = false
  /// Megabytes (2^20 bytes) of the store's tables that are kept in memory.
  package var storeCacheMegabytes = 32
  /// Megabytes (2^20 bytes) of what is remembered of devices that are not connected.
  package var deviceCacheMegabytes = 256
  /// Which devices without a certificate get one over the courier listener.
  package var enrolment = EnrolmentMode.all
  /// Days for which the certificates are valid that the running service issues.
  package var deviceDays = DataDirectory.ValidityDays.device
  /// Megabytes (2^20 bytes) that events may take on disk while they wait for webhooks.
  package var webhookMegabytes = 64
  /// Descriptors of sockets that listen already, by their addresses: used in place of opening these addresses.
  package var inheritedSockets: [SocketAddress: Int32] = [:]
  /// Where it can be administered; nil nowhere.
  package var admin: AdminConfiguration?
  /// Keeps everything in memory, for tests and development.
  package var isEphemeral = false
  /// Who listens in and decides, where the service stands in for APNs in development; nil for a real service.
  package var interceptor: (any Interceptor)?
  /// Hears of the ledger's lines as they are noted; nil: nobody.
  package var ledgerWatcher: (any LedgerWatcher)?
  /// Sends what is for other services' devices upstream; nil: requests for such devices are rejected.
  package var relay: (any UpstreamRelay)?
  /// What links to other nodes need; nil without any.
  package var link: LinkServing?
  /// Where devices reach this node directly: a host name or an address, which devices at other nodes are told; nil if
  /// they stay where they are.
  package var advertisedHost: String?
  /// The devices that this service decides about. It accepts clients for the nodes that decide about others.
  package var share = DeviceShare.all
  /// Whether another service of this process listens on the addresses until it has ended.
  package var takesPortsOver = false
  /// The nodes of the cluster, as its administration shows them; nil for a service of its own.
  package var cluster: ClusterNodes?
  /// What makes the service that of a node of a cluster; nil for one of its own.
  package var node: NodeServing?
  package var log = Log()

  /// Whether other nodes decide about all devices.
  var isEdge: Bool { share.isEmpty }

  /// Those that anybody can come in by.
  var openListeners: [ListenerConfiguration] { listeners.filter { !$0.addresses.isEmpty } }

  /// The files of all certificates that are presented in place of the service's own.
  var serverCertificates: [IdentityFiles] {
    (openListeners.map(\.serverCertificate) + [admin?.serverCertificate]).compactMap(\.self)
  }

  package init(dataDirectory: String, listeners: [ListenerConfiguration]) {
    self.dataDirectory = dataDirectory
    self.listeners = listeners
  }
}

/// How the service of a node of a cluster waits for its turn, and learns that it is over.
package struct NodeServing: Sendable {
  /// The node's name.
  package var name: String
  /// The number of parts into which the cluster's devices are divided: the node takes one that no other node has.
  package var partCount: Int
  /// Called when other nodes are found to serve, with their names.
  package var onHolder: @Sendable (String) -> Void
  /// Whether the node waits on, and whether it may serve now. Asked several times a second while it stands by.
  package var permission: @Sendable () -> StandbyPermission
  /// Called when it is the node's turn, before anything of the data directory counts: brings it up to date. False if
  /// the node does not serve after all.
  package var onTurn: @Sendable () throws -> Bool
  /// Called when another node has taken over: nothing that this one decides counts any more.
  package var onTakeOver: @Sendable () -> Void

  package init(
    name: String, partCount: Int = 1, onHolder: @escaping @Sendable (String) -> Void,
    permission: @escaping @Sendable () -> StandbyPermission,
    onTurn: @escaping @Sendable () throws -> Bool,
    onTakeOver: @escaping @Sendable () -> Void
  ) {
    (self.name, self.partCount) = (name, partCount)
    self.onHolder = onHolder
    self.permission = permission
    self.onTurn = onTurn
    self.onTakeOver = onTakeOver
  }
}
