package import ApusCore
package import ApusDirectory
package import ApusLoop
package import ApusModel
package import ApusStore
package import ApusWebhooks

/// The service that runs, as its administration sees it: everything that only the workers know.
///
/// Called on the administration's threads. What a worker has to answer takes until it comes to it.
package protocol AdministeredService: Sendable {
  var listeners: [OpenListener] { get }
  var workerCount: Int { get }
  /// Bytes that notifications take in memory, and may take.
  var notificationBytes: Int { get }
  var notificationByteLimit: Int { get }
  /// Whether everything is kept in memory alone.
  var isEphemeral: Bool { get }
  var connectionFigures: ConnectionFigures { get }
  /// The devices that it decides about.
  var share: DeviceShare { get }
  /// Whether the trust data in force is older than the files; nil where it is not.
  var staleness: TrustStaleness? { get }

  /// The workers', and behind them the acceptors'.
  func workerFacts() -> [WorkerFacts]
  /// What happened to the notifications of each topic and environment since the data directory was made.
  func topicCounters() -> [TopicCounters]
  /// How often requests were refused for each reason since the data directory was made.
  func rejections() -> [Reason: UInt64]
  func deadTokenPushes() -> DeadTokenPushes
  /// What is known of each webhook.
  func webhookFacts() -> [WebhookService.Facts]
  /// Events for webhooks that were dropped since the start, because their queue was full.
  var droppedEvents: UInt64 { get }
  /// How often devices were refused a certificate since the start, for each reason.
  func enrolmentRefusals() -> [(reason: String, number: UInt64)]
  /// What the workers know of devices; none for a device that they have to read from the store.
  func sightings(of devices: [DeviceID]) -> [DeviceKey: DeviceSighting]
  /// Decides about a push as about a provider's request.
  ///
  /// - Parameter done: Called once on a thread of the service, unless the store never decides.
  func send(_ push: TestPush, _ done: @escaping @Sendable (TestPushOutcome) -> Void)

  /// Of all apps of which something is or was kept for an upstream.
  func relayFigures() -> [RelayFigures]
  /// Each upstream's address, and the number of connections to it.
  func relayConnections() -> [(upstream: String, count: Int)]
  func relay(_ command: RelayCommand, _ app: AppID)

  /// All channels, the oldest first.
  func channels() -> [Channel]
  /// Those of an app, in one environment or in all, the oldest first.
  func channels(of app: AppID, in environment: Environment?) -> [Channel]
  /// The channel with that id, whichever app it belongs to.
  func channel(_ id: ChannelID) -> Channel?
  /// The figures of all channels; nil while subscriptions are being counted after a start.
  func channelCensus() -> ChannelCensus?
  /// Creates a channel. Throws CannotCreateChannelConfig if its app has as many as it may, without calling `done`.
  ///
  /// - Parameter done: Called once on the commit thread: with nil when the channel is durable.
  func create(
    _ channel: Channel, _ done: @escaping @Sendable (StoreError?) -> Void
  ) throws(Refusal)
  /// Deletes a channel, likewise.
  func delete(_ channel: Channel, _ done: @escaping @Sendable (StoreError?) -> Void)
}

/// A listener that is open.
package struct OpenListener: Sendable {
  package var kind: ListenerKind
  package var environment: Environment
  package var addresses: [SocketAddress]

  package init(kind: ListenerKind, environment: Environment, addresses: [SocketAddress]) {
    self.kind = kind
    self.environment = environment
    self.addresses = addresses
  }
}

/// What one worker reports.
package struct WorkerFacts: Sendable {
  package var connections = ConnectionCounts()
  package var ended = EndedConnections()
  /// Connections that were closed because the process had no descriptor for them.
  package var refusedForDescriptors: UInt64 = 0
  package var pauses = ListenerPauses()
  /// TLS handshakes that have begun and wait for their peers.
  package var halfOpenHandshakes = 0
  /// Requests in progress.
  package var openRequests = 0
  /// Streams that were refused because other connections had the requests.
  package var refusedStreams: UInt64 = 0
  /// Messages of other workers that wait for it.
  package var inboxDepth = 0
  package var sessions = SessionCounts()
  package var dormancy = Dormancy()
  /// Notifications that wait in the store.
  package var stored: Int64 = 0
  /// Lines of the ledger that were lost while the store failed, those of the relay among the first worker's.
  package var lostLedgerLines: UInt64 = 0
  package var latencies = Latencies()
  /// Its link to the node that decides; nil unless the service is an edge.
  package var link: LinkFigures?

  package init() {}
}

/// Notifications that an edge's worker passes on.
package struct LinkFigures: Sendable, Equatable {
  /// Whether there is a connection.
  package var isUp = false
  /// Notifications without a verdict.
  package var undecided = 0
  /// Those that were sent again, because a link ended before their verdicts had come.
  package var repeated: UInt64 = 0
  /// Those that were answered with 503, because no node decided in time.
  package var givenUp: UInt64 = 0

  package init() {}

  /// Those of several links; connected if all are.
  package init(adding links: [LinkFigures]) {
    isUp = links.allSatisfy(\.isUp)
    undecided = links.reduce(0) { $0 + $1.undecided }
    repeated = links.reduce(0) { $0 + $1.repeated }
    givenUp = links.reduce(0) { $0 + $1.givenUp }
  }
}

/// The budget of connections.
package struct ConnectionFigures: Sendable {
  package var capacity = 0
  package var untrusted = 0
  package var refused: UInt64 = 0
  package var evicted: UInt64 = 0
  /// Of providers whose team had too many.
  package var crowdedTeam: UInt64 = 0

  package init() {}
}

/// What a worker knows of a device.
package struct DeviceSighting: Sendable {
  /// Nil while it is offline.
  package var session: Session?
  package var lastSeenMilliseconds: Int64?

  package struct Session: Sendable {
    package var address: String?
    package var power: PowerState
    package var inFlight: Int
    package var waiting: Int

    package init(address: String?, power: PowerState, inFlight: Int, waiting: Int) {
      self.address = address
      self.power = power
      self.inFlight = inFlight
      self.waiting = waiting
    }
  }

  package init(session: Session?, lastSeenMilliseconds: Int64?) {
    self.session = session
    self.lastSeenMilliseconds = lastSeenMilliseconds
  }
}

/// A push of the administration: what a provider's request would say.
package struct TestPush: Sendable {
  package var environment: Environment
  /// Without credentials: the administration has checked who sends it.
  package var fields: RequestFields
  package var payload: [UInt8]
}

/// What a provider would be told about it, and what the operator is told besides.
package struct TestPushOutcome: Sendable {
  package var id: NotificationID
  /// Nil where it was rejected.
  package var uniqueID: NotificationID?
  package var rejection: Rejection?
  /// Why it was rejected; empty where it was not.
  package var explanation: String

  package init(
    id: NotificationID, uniqueID: NotificationID? = nil, rejection: Rejection? = nil,
    explanation: String = ""
  ) {
    self.id = id
    self.uniqueID = uniqueID
    self.rejection = rejection
    self.explanation = explanation
  }
}
