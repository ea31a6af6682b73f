package import ApusLoop
package import ApusModel
import ApusTLS
import ApusTrust
package import ApusWire

/// The enrolment of one device: requests its first certificate, waits while the operator decides, and asks again. On
/// its loop.
package final class EnrolmentSession: DeviceConnectionDelegate, @unchecked Sendable {
  package typealias Completion = (Result<DeviceIdentity, any Error>) -> Void

  private let loop: EventLoop
  private let key: PrivateKey
  private let whilePending: (@Sendable (Int) -> Void)?
  private var connection: DeviceConnection?
  private var completion: Completion?
  /// Consecutive rounds of all addresses without an answer.
  private var failures = 0
  /// Whether the service may have received the request since its last answer.
  private var mayHaveAsked = false
  /// Whether this connection brought its answer: its end is then not a failure.
  private var isAnswered = false

  /// Rounds without an answer after which it gives up.
  static let attempts = 5

  init(
    loop: EventLoop, configuration: DeviceConfiguration, context: TLSContext, key: PrivateKey,
    request: CourierEnrolmentRequest, whilePending: (@Sendable (Int) -> Void)?
  ) {
    self.loop = loop
    self.key = key
    self.whilePending = whilePending
    connection = DeviceConnection(
      shared: DeviceLoop(loop: loop),
      configuration: .init(
        endpoint: configuration.endpoint, alternatives: configuration.otherAddresses,
        context: context,
        client: .init(
          dialect: PushDeviceCore.dialect,
          responseMilliseconds: UInt64(Limits.enrolmentSeconds + 10) * 1000, enrolment: request),
        backoff: .init(maximumMilliseconds: 60_000)),
      seed: randomID().low, delegate: self)
  }

  package func start(_ completion: @escaping Completion) {
    guard let connection else { return completion(.failure(CancellationError())) }
    self.completion = completion
    connection.start()
  }

  package func cancel() { finish(.failure(CancellationError())) }

  private func finish(_ result: Result<DeviceIdentity, any Error>) {
    let completion = completion
    self.completion = nil
    connection?.stop()
    connection = nil
    completion?(result)
  }

  // MARK: The connection

  package func deviceConnection(
    _ connection: DeviceConnection, issued issuance: CourierIssuance
  ) -> UInt64 {
    failures = 0
    mayHaveAsked = false
    isAnswered = true
    switch issuance.status {
    case .accepted:
      do {
        finish(.success(try DeviceIdentity(certificates: issuance.certificates, key: key)))
      } catch {
        finish(
          .failure(DeviceError(.unreachable, "the issued certificate is invalid: \(error)")))
      }
      return 0
    case .pending:
      let seconds = UInt64(max(1, issuance.retrySeconds ?? 60))
      whilePending?(Int(seconds))
      return seconds * 1000
    default:
      finish(.failure(Self.error(issuance)))
      return 0
    }
  }

  private static func error(_ issuance: CourierIssuance) -> DeviceError {
    let code: DeviceError.Code =
      switch issuance.reason {
      case .code: .codeRefused
      case .rejected: .rejected
      case .tooMany: .tooManyRequests
      default: .enrolmentRefused
      }
    var text = "the service refused: \(issuance.text.span.text)"
    if let seconds = issuance.retrySeconds { text += " (try again in \(seconds) s)" }
    return DeviceError(code, text)
  }

  package func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?
  ) {
    guard completion != nil, retryMilliseconds != nil else { return }
    if isAnswered {
      isAnswered = false
      return
    }
    if Self.mayHaveAsked(reason) { mayHaveAsked = true }
    guard !connection.connectsAtOnce else { return }
    failures += 1
    // If the request was received and the code is used up, only asking again with this key brings the certificate.
    // Earlier failures are more often configuration mistakes than temporary faults.
    if failures >= Self.attempts || (failures == 1 && !mayHaveAsked) {
      finish(.failure(DeviceError(.unreachable, reason.description)))
    }
  }

  /// Whether the service may have received the request on a connection that ended in this way.
  private static func mayHaveAsked(_ reason: DeviceDisconnection) -> Bool {
    switch reason {
    case .unreachable, .otherProtocol, .tls(.certificateRejected): false
    default: true
    }
  }

  // MARK: Events that such a connection never has

  package func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64
  ) {}

  package func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>, channelID: Span<UInt8>
  ) -> DeviceVerdict { .decline }
}

extension PushDevice {
  /// Gets a first certificate for this device: with an enrolment code from the service's operator (`apus code`), or
  /// without one, in which case the operator decides (`apus device approve`).
  ///
  /// The key is generated here and never leaves the device. Waits for the operator without limit; cancel the task to
  /// end the wait. A connection that breaks before the answer is tried again a few times.
  ///
  /// An application that may be stopped in between generates the key with `DeviceIdentity.makeKey()`, stores it, and
  /// passes it again. The service returns the same certificate for the same key and code, while a different key finds
  /// the code used.
  ///
  /// - Parameters:
  ///   - host: The service's name or address.
  ///   - port: The port of its listener for devices.
  ///   - alternatives: As in `DeviceConfiguration.alternatives`.
  ///   - serverName: The name that the service's certificate must contain; nil: the host of each address.
  ///   - authorityPEM: As in `DeviceConfiguration.authorityPEM`.
  ///   - code: The enrolment code; case, spaces and hyphens do not matter. Nil: the operator decides.
  ///   - name: A readable name of the device, at most 64 bytes.
  ///   - tags: `KEY=VALUE` or `KEY`, at most 16 of at most 64 bytes each. The service keeps them if the code permits
  ///     it, or the operator approves them.
  ///   - keyPEM: Nil: a new ECDSA key. RSA with 2048 to 4096 bits is also accepted.
  ///   - whilePending: Called each time the operator has not decided yet, with the seconds until the next request.
  ///
  /// - Throws: `DeviceError`, which says what failed; `CancellationError`.
  public static func enroll(
    host: String, port: UInt16 = 5223, alternatives: [DeviceAddress] = [],
    serverName: String? = nil, authorityPEM: String?, code: String?, name: String,
    tags: [String] = [], keyPEM: String? = nil,
    whilePending: (@Sendable (Int) -> Void)? = nil
  ) async throws -> DeviceIdentity {
    var configuration = DeviceConfiguration(
      host: host, port: port, authorityPEM: authorityPEM, certificatePEM: "", keyPEM: "",
      topics: DeviceTopics())
    configuration.alternatives = alternatives
    configuration.serverName = serverName
    let loop = EventLoop(name: "apus-enrol")
    let session = try EnrolmentSession(
      loop: loop, configuration: configuration, code: code, name: name, tags: tags,
      keyPEM: keyPEM, whilePending: whilePending)
    loop.start()
    defer { loop.stop() }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        loop.perform { session.start { continuation.resume(with: $0) } }
      }
    } onCancel: {
      loop.perform { session.cancel() }
    }
  }
}

extension EnrolmentSession {
  /// As `PushDevice.enroll`, on a loop of the caller's.
  ///
  /// - Parameter configuration: The service; its certificate and its key are not used.
  package convenience init(
    loop: EventLoop, configuration: DeviceConfiguration, code: String?, name: String,
    tags: [String] = [], keyPEM: String?, whilePending: (@Sendable (Int) -> Void)?
  ) throws {
    let (key, request) = try Self.enrolmentRequest(
      code: code, name: name, tags: tags, keyPEM: keyPEM)
    let context: TLSContext
    do {
      context = try configuration.context(nil)
    } catch {
      throw DeviceError(.badConfiguration, error.description)
    }
    self.init(
      loop: loop, configuration: configuration, context: context, key: key, request: request,
      whilePending: whilePending)
  }

  private static func enrolmentRequest(
    code: String?, name: String, tags: [String], keyPEM: String?
  ) throws -> (PrivateKey, CourierEnrolmentRequest) {
    if let code {
      let text = Array(code.utf8)
      guard EnrolmentCode(text: text.span) != nil else {
        throw DeviceError(.codeRefused, "the code is mistyped: a code has 28 letters and digits")
      }
    }
    guard 1...Limits.deviceNameBytes ~= name.utf8.count else {
      throw DeviceError(
        .badConfiguration, "the name must have 1 to \(Limits.deviceNameBytes) bytes")
    }
    guard tags.count <= Limits.tagsPerDevice else {
      throw DeviceError(.badConfiguration, "a device has at most \(Limits.tagsPerDevice) tags")
    }
    if let tag = tags.first(where: { DeviceTag($0) == nil }) {
      throw DeviceError(.badConfiguration, "\"\(tag)\" is not a tag: \(DeviceTag.form)")
    }
    do throws(TrustFault) {
      let key: PrivateKey
      if let keyPEM { key = try PrivateKey(pem: keyPEM) } else { key = try .generateP256() }
      return (
        key,
        CourierEnrolmentRequest(
          code: Array((code ?? "").utf8), certificateRequest: try CertificateRequest.make(for: key),
          name: Array(name.utf8), tags: tags.map { Array($0.utf8) })
      )
    } catch {
      throw DeviceError(.badConfiguration, "\(error)")
    }
  }
}
