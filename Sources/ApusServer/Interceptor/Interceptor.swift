package import ApusLoop
package import ApusModel

/// An interceptor: the development service uses it to observe providers, and to decide in place of the service.
///
/// Workers call it on their threads, several at once. It must not block.
package protocol Interceptor: Sendable {
  /// Lenient mode: accepts any well-formed device token and topic, and any credential that can be parsed.
  var isLenient: Bool { get }
  /// The service's wall clock, for all decisions and records about pushes and devices. TLS and files use the system's
  /// clock. After setting it, call ``Service/clockChanged()`` so that everything that is due happens at once.
  var clock: ServiceClock { get }
  /// How new connections are opened.
  var opening: ConnectionOpening { get }

  /// Called before a notification is judged. Returns the fault to cause on purpose, usually nil.
  func fault(for request: ProviderRequest) -> PlannedFault?

  /// Asks which device is meant by a device token that this service did not issue, or by a topic that no app has.
  /// Lenient mode only.
  ///
  /// Call `done` once, on any thread, now or later. Pass a token that this service issued for the topic, after adding
  /// the app to the service's directory (`Service.reload()`, on a thread of your own). Pass nil to reject as the strict
  /// service does. A device's base token is valid for all of the device's topics.
  ///
  /// - Parameters:
  ///   - token: As sent: an even number of hexadecimal digits.
  ///   - topic: As sent, or the certificate's if none was sent. Empty on the binary interface without a certificate;
  ///     there the returned token decides.
  func adopt(
    _ token: String, topic: String, environment: Environment,
    _ done: @escaping @Sendable (DeviceToken?) -> Void)

  /// Asks for the app with a bundle id that no app has, because a request is about its channels. Lenient mode only.
  ///
  /// Call `done` once, on any thread, now or later: with true after adding the app, which may have broadcasts, to the
  /// service's directory; with false to reject as the strict service does.
  func adopt(app bundle: String, _ done: @escaping @Sendable (Bool) -> Void)

  /// Called if a fault requires preparation before this notification is judged. Call `done` once prepared, on any
  /// thread, now or later.
  func prepare(_ request: ProviderRequest, _ done: @escaping @Sendable () -> Void)

  /// Called when a request was answered, or never will be.
  func answered(_ exchange: ProviderExchange)

  func connectionOpened(_ connection: InterceptedConnection)
  func connectionClosed(_ connection: InterceptedConnection)
}

extension Interceptor {
  package var opening: ConnectionOpening { ConnectionOpening() }
  package func prepare(_ request: ProviderRequest, _ done: @escaping @Sendable () -> Void) {
    done()
  }
  package func connectionOpened(_ connection: InterceptedConnection) {}
  package func connectionClosed(_ connection: InterceptedConnection) {}
}

/// How a provider's connection is opened. The defaults change nothing.
package struct ConnectionOpening: Sendable, Hashable {
  /// The certificate that the service presents.
  package enum Certificate: String, Sendable, CaseIterable {
    /// The service's own.
    case good
    /// For the same names and from the same authority, but expired a day ago.
    case expired
    /// For the same names, from an unknown authority.
    case foreign
    /// From the right authority, for another name.
    case otherName
  }

  package var certificate: Certificate
  /// MAX_CONCURRENT_STREAMS for the whole connection; nil for the service's usual limit.
  package var maxConcurrentStreams: Int?
  /// SETTINGS_INITIAL_WINDOW_SIZE in bytes: how much of a body a provider may send before a WINDOW_UPDATE; nil for the
  /// usual size.
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

/// A provider's connection after its handshake.
package struct InterceptedConnection: Sendable, Hashable {
  /// Counts connections of both interfaces since the start, from 1.
  package var number: UInt64
  package var interface: ProviderInterface
  package var environment: Environment
  /// Address and port.
  package var peer: String
  /// Describes the certificate; nil if there is none.
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

/// A provider's request as it arrived.
package struct ProviderRequest: Sendable, Hashable {
  package struct Header: Sendable, Hashable {
    package var name: String
    package var value: String

    package init(_ name: String, _ value: String) {
      self.name = name
      self.value = value
    }
  }

  package var connection: InterceptedConnection
  /// Unix milliseconds of the service's clock.
  package var receivedMilliseconds: Int64
  /// Empty on the binary interface, like the path and the headers.
  package var method = ""
  package var path = ""
  /// In order of arrival, including pseudo-header fields.
  package var headers: [Header] = []
  /// The device token as sent: the path's last segment, or the frame's bytes in hexadecimal digits. Empty for a
  /// broadcast.
  package var token = ""
  /// The topic field, or the certificate's topic; nil if neither names one. For a broadcast that of Live
  /// Activities of its app.
  package var topic: String?
  /// The id of a broadcast's channel as sent; nil for other requests.
  package var channel: String?
  /// This and the next two as sent, even if the service does not know the value.
  package var pushType: String?
  package var priority: String?
  package var collapseID: String?
  package var expirationSeconds: Int64?
  /// The frame's command on the binary interface. Command 0 has no identifier.
  package var command: UInt8?
  package var identifier: UInt32?
  package var payload: [UInt8] = []
  /// `key ABC123DEFG of team TEAM123456` or `certificate for com.example.app`, as far as it can be read, valid or not.
  package var credential: String?
  /// When the provider token was issued, by its own claim.
  package var tokenIssuedAtSeconds: Int64?

  package init(connection: InterceptedConnection, receivedMilliseconds: Int64) {
    self.connection = connection
    self.receivedMilliseconds = receivedMilliseconds
  }

  package var interface: ProviderInterface { connection.interface }
  package var environment: Environment { connection.environment }
}

/// A request and its outcome.
package struct ProviderExchange: Sendable, Hashable {
  package var request: ProviderRequest
  /// The HTTP status; 0 if the request got no answer. On the binary interface the status byte; 0 if accepted.
  package var status: Int
  /// The reason in the answer.
  package var reason: String?
  /// The exact reason in words.
  package var explanation: String?
  /// With 410: since when the token is dead, in Unix milliseconds.
  package var timestampMilliseconds: Int64?
  /// The `apns-id` of the answer; for a broadcast its `apns-request-id`.
  package var apnsID: String?
  package var uniqueID: String?
  /// The rule whose fault was applied.
  package var fault: String?
  /// What lenient mode forgave.
  package var notes: [String] = []
  /// The id in the ledger; nil if the request was rejected.
  package var notificationID: NotificationID?
  /// Unix milliseconds of the service's clock.
  package var answeredMilliseconds: Int64

  package init(request: ProviderRequest, status: Int, answeredMilliseconds: Int64) {
    self.request = request
    self.status = status
    self.answeredMilliseconds = answeredMilliseconds
  }

  /// Whether the service accepted the notification.
  package var isAccepted: Bool {
    switch request.interface {
    case .http2: status == 200
    case .binary: status == 0
    }
  }
}
