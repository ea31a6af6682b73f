import ApusCore
public import ApusModel

/// One notification for one device.
///
/// What each value means and may be is told in "Sending notification requests to APNs".
public struct PushRequest: Sendable {
  /// The device token in hexadecimal digits, as the app got it: 1 to `Limits.deviceTokenBytes` bytes.
  public var token: String
  /// The bundle id with the suffix of the push type. Nil: the one of the client's certificate.
  public var topic: String?
  public var pushType: PushType
  /// Nil: the only one allowed for `background`, and the service's default (immediate) for everything else.
  public var priority: Priority?
  /// Unix seconds until which the service keeps trying. 0: one attempt, never stored. Nil: as long as the service
  /// likes.
  public var expirationSeconds: Int64?
  /// Takes the place of an undelivered or shown notification with the same id; 1 to `Limits.collapseIDBytes` bytes.
  public var collapseID: String?
  /// The notification's own id; drawn at random where there is none.
  public var id: NotificationID?
  /// A JSON object, at most `Limits.payloadBytes`, or `Limits.voipPayloadBytes` for `voip`.
  public var payload: [UInt8]

  public init(
    token: String, topic: String?, pushType: PushType = .alert, payload: [UInt8]
  ) {
    self.token = token
    self.topic = topic
    self.pushType = pushType
    self.payload = payload
  }

  public init(
    token: DeviceToken, topic: String?, pushType: PushType = .alert, payload: [UInt8]
  ) {
    self.init(token: token.hex, topic: topic, pushType: pushType, payload: payload)
  }
}

/// What is wrong with a push, found before anything was sent: an error of the program that made it.
public struct PushRequestError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Which rule was broken. Open: later versions may know more.
  public struct Code: Sendable, Hashable, CustomStringConvertible {
    private enum Value: String { case token, topic, collapseID, expiration, payload, notCarried }
    private let value: Value

    private init(_ value: Value) { self.value = value }

    public static let invalidToken = Code(.token)
    public static let invalidTopic = Code(.topic)
    public static let invalidCollapseID = Code(.collapseID)
    public static let invalidExpiration = Code(.expiration)
    /// Empty, or longer than its push type allows.
    public static let invalidPayload = Code(.payload)
    /// A value that the client's protocol has no place for: see `BinaryClient`.
    public static let notCarried = Code(.notCarried)

    public var description: String { value.rawValue }
  }

  public var code: Code
  /// What was wrong, and what is allowed.
  public var description: String

  init(_ code: Code, _ description: String) {
    self.code = code
    self.description = description
  }
}

extension PushRequest {
  /// Throws what is wrong with the push, as ``APNSClient/send(_:within:)`` does before anything is sent.
  public func validate() throws(PushRequestError) {
    _ = try EncodedPush(self, id: id ?? NotificationID(high: 0, low: 0))
  }

  /// What is contradictory about the push: what a service refuses, and what it accepts although it comes to nothing.
  /// Empty where nothing is. Sending does not look at this.
  ///
  /// - Parameter nowSeconds: Unix seconds, with which the expiration is compared.
  public func lint(nowSeconds: Int64? = nil) -> [LintFinding] {
    PayloadLint.findings(
      in: payload.span,
      LintContext(
        pushType: pushType, topic: topic,
        // As it is sent.
        priority: priority ?? (pushType == .background ? .powerSaving : nil),
        expirationSeconds: expirationSeconds, collapseIDByteCount: collapseID?.utf8.count,
        nowSeconds: nowSeconds))
  }
}
