package import ApusLoop
package import ApusModel

/// What a stand-in for APNs hears of its providers, and decides in the service's place.
///
/// Called on workers' threads, from several at once: it must not wait.
package protocol Rehearsal: Sendable {
  /// Whether any well-formed device token and topic is taken, and any credential that can be parsed.
  var isLenient: Bool { get }
  /// What the service takes for the time of day, in all that it judges and notes of pushes and devices; TLS and files
  /// keep to the system's. After it was set, ``Service/clockChanged()`` makes what is due happen at once.
  var clock: ServiceClock { get }
  /// How the next connections are opened.
  var opening: RehearsedOpening { get }

  /// Before a notification is judged: what goes wrong with it on purpose. Nil as a rule.
  func fault(for request: ProviderRequest) -> PlannedFault?

  /// A device token that this service did not mint, or a topic that no app has (lenient only): which device is meant.
  ///
  /// `done` may be called on any thread, once, now or later: with a token that this service minted for the topic, whose
  /// app is in the service's directory by then (`Service.reload()`, on a thread of your own); or with nil to refuse as
  /// the strict service does. A device's base token will do for every topic that the device has.
  ///
  /// - Parameters:
  ///   - token: As sent: an even number of hexadecimal digits.
  ///   - topic: As sent, or the certificate's where none was; empty on the binary interface without a certificate,
  ///     where the token that is given decides.
  func adopt(
    _ token: String, topic: String, environment: Environment,
    _ done: @escaping @Sendable (DeviceToken?) -> Void)

  /// A fault wants something to have happened before this notification is judged: calls `done` once it has, on any
  /// thread, now or later.
  func prepare(_ request: ProviderRequest, _ done: @escaping @Sendable () -> Void)

  /// A request was answered, or will never be.
  func answered(_ exchange: ProviderExchange)

  func connectionOpened(_ connection: RehearsedConnection)
  func connectionClosed(_ connection: RehearsedConnection)
}

extension Rehearsal {
  package var opening: RehearsedOpening { RehearsedOpening() }
  package func prepare(_ request: ProviderRequest, _ done: @escaping @Sendable () -> Void) {
    done()
  }
  package func connectionOpened(_ connection: RehearsedConnection) {}
  package func connectionClosed(_ connection: RehearsedConnection) {}
}

/// How a provider's connection is opened, instead of as usual.
package struct RehearsedOpening: Sendable, Hashable {
  /// The certificate that the service shows.
  package enum Certificate: String, Sendable, CaseIterable {
    /// Its own.
    case good
    /// One for the same names that ended a day ago, from the same authority.
    case expired
    /// One for the same names from an authority that nobody knows.
    case foreign
    /// One from the right authority, for another name.
    case otherName
  }

  package var certificate: Certificate
  /// MAX_CONCURRENT_STREAMS of the connection from first to last; nil for what the service announces.
  package var maxConcurrentStreams: Int?
  /// SETTINGS_INITIAL_WINDOW_SIZE in bytes: how much of a body may come before a WINDOW_UPDATE; nil for the usual.
  package var initialWindowBytes: Int?

  package init(
    certificate: Certificate = .good, maxConcurrentStreams: Int? = nil,
    initialWindowBytes: Int? = nil
  ) {
    self.certificate = certificate
    self.maxConcurrentStreams = maxConcurrentStreams
    self.initialWindowBytes = initialWindowBytes
  }
}

/// A provider's connection, once its handshake is done.
package struct RehearsedConnection: Sendable, Hashable {
  /// Counts the connections of both interfaces since the start, from 1.
  package var number: UInt64
  package var interface: ProviderInterface
  package var environment: Environment
  /// Address and port.
  package var peer: String
  /// Of the certificate; nil where there is none.
  package var credential: String?

  package init(
    number: UInt64, interface: ProviderInterface, environment: Environment, peer: String,
    credential: String? = nil
  ) {
    self.number = number
    self.interface = interface
    self.environment = environment
    self.peer = peer
    self.credential = credential
  }
}

/// What a provider asked for, as it came.
package struct ProviderRequest: Sendable, Hashable {
  package struct Header: Sendable, Hashable {
    package var name: String
    package var value: String

    package init(_ name: String, _ value: String) {
      self.name = name
      self.value = value
    }
  }

  package var connection: RehearsedConnection
  /// Unix milliseconds of the service's clock.
  package var receivedMilliseconds: Int64
  /// Empty on the binary interface, like the path and the headers.
  package var method = ""
  package var path = ""
  /// In the order in which they came, pseudo-header fields too.
  package var headers: [Header] = []
  /// The device token as sent: the path's last segment, or the frame's bytes in hexadecimal digits.
  package var token = ""
  /// The field, or what the certificate stands for; nil where neither names one.
  package var topic: String?
  /// These as sent, whether or not the service knows the value.
  package var pushType: String?
  package var priority: String?
  package var collapseID: String?
  package var expirationSeconds: Int64?
  /// The frame's, on the binary interface; nil for command 0, which has no identifier.
  package var command: UInt8?
  package var identifier: UInt32?
  package var payload: [UInt8] = []
  /// `key ABC123DEFG of team TEAM123456` or `certificate for com.example.app`, as far as that can be read, good or not.
  package var credential: String?
  /// When the provider token says that it was issued.
  package var tokenIssuedAtSeconds: Int64?

  package init(connection: RehearsedConnection, receivedMilliseconds: Int64) {
    self.connection = connection
    self.receivedMilliseconds = receivedMilliseconds
  }

  package var interface: ProviderInterface { connection.interface }
  package var environment: Environment { connection.environment }
}

/// A request and what became of it.
package struct ProviderExchange: Sendable, Hashable {
  package var request: ProviderRequest
  /// The HTTP status, or the status byte of the binary interface, where 0 stands for accepted. On HTTP/2 0 stands for a
  /// request that got no answer.
  package var status: Int
  /// The word on the wire.
  package var reason: String?
  /// Exactly why, for a person.
  package var explanation: String?
  /// Since when a token is dead, with 410.
  package var timestampMilliseconds: Int64?
  /// The `apns-id` of the answer.
  package var apnsID: String?
  package var uniqueID: String?
  /// The rule whose fault struck.
  package var fault: String?
  /// What lenient mode let pass.
  package var notes: [String] = []
  /// Under which the ledger has it; nil where it was refused.
  package var notificationID: NotificationID?
  /// Unix milliseconds of the service's clock.
  package var answeredMilliseconds: Int64

  package init(request: ProviderRequest, status: Int, answeredMilliseconds: Int64) {
    self.request = request
    self.status = status
    self.answeredMilliseconds = answeredMilliseconds
  }

  /// Whether the service took the notification.
  package var isAccepted: Bool {
    switch request.interface {
    case .http2: status == 200
    case .binary: status == 0
    }
  }
}
