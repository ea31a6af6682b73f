import ApusCore
public import ApusModel

/// One notification, for one device or for a channel.
///
/// The meaning and limits of each value are described in Sending notification requests to APNs. A push to a channel is
/// a broadcast, described in Sending broadcast push notification requests to APNs; it needs a channel, a topic and an
/// expiration, and has neither token nor collapse id.
public struct PushRequest: Sendable {
  /// The device token in hexadecimal digits, as the app received it: 1 to `Limits.deviceTokenBytes` bytes. Empty in a
  /// broadcast.
  public var token: String
  /// The channel of a broadcast. Nil: it is for the device with the token.
  public var channel: BroadcastChannel.ID?
  /// The bundle id with the suffix of the push type; without it in a broadcast. Nil: the topic of the client's
  /// certificate.
  public var topic: String?
  public var pushType: PushType
  /// Nil: the only allowed priority for `background`, and the service's default (immediate) for everything else.
  public var priority: Priority?
  /// Unix seconds until which the service tries to deliver. 0: one attempt, never stored. Nil: the service decides; not
  /// in a broadcast.
  public var expirationSeconds: Int64?
  /// Replaces an undelivered or shown notification with the same collapse id; 1 to `Limits.collapseIDBytes` bytes.
  public var collapseID: String?
  /// The notification's id; random if nil.
  public var id: NotificationID?
  /// A JSON object, at most ``payloadLimitBytes``.
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

extension PushRequest: CustomStringConvertible {
  /// What is sent, without the payload's content, and only with the first digits of the token.
  public var description: String {
    let recipient = channel?.text ?? token
    var text = "\(pushType.name) to \(channel == nil ? "" : "channel ")\(recipient.prefix(8))"
    if recipient.utf8.count > 8 { text += "…" }
    text += topic.map { ", topic \($0)" } ?? ", topic of the certificate"
    if let priority { text += ", priority \(priority.rawValue)" }
    if let expirationSeconds { text += ", expiration \(expirationSeconds)" }
    if let collapseID { text += ", collapse id \"\(collapseID)\"" }
    if let id { text += ", \(HeaderName.apnsID.text) \(id)" }
    return text + ", \(payload.count) bytes"
  }
}

/// Why a push is invalid, found before anything is sent: a programming error of the caller.
public struct PushRequestError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The rule that was broken. Open: later versions may add more.
  public struct Code: Sendable, Hashable, CustomStringConvertible {
    private enum Value: String {
      case token, topic, collapseID, expiration, payload, broadcast, notCarried
    }
    private let value: Value

    private init(_ value: Value) { self.value = value }

    public static let invalidToken = Code(.token)
    public static let invalidTopic = Code(.topic)
    public static let invalidCollapseID = Code(.collapseID)
    public static let invalidExpiration = Code(.expiration)
    /// Empty, or longer than its push type allows.
    public static let invalidPayload = Code(.payload)
    /// A broadcast with a value that broadcasts do not have, without one that they need, or that starts an activity.
    public static let invalidBroadcast = Code(.broadcast)
    /// A value that the client's protocol has no field for: see `BinaryClient`.
    public static let notCarried = Code(.notCarried)

    public var description: String { value.rawValue }
  }

  public var code: Code
  /// What is wrong, and what is allowed.
  public var description: String

  init(_ code: Code, _ description: String) {
    self.code = code
    self.description = description
  }
}

extension PushRequest {
  /// Throws if the push is invalid, as ``APNSClient/send(_:within:)`` does before sending.
  public func validate() throws(PushRequestError) {
    _ = try EncodedPush(self, id: id ?? NotificationID(high: 0, low: 0))
  }

  /// Contradictions in the push: what a service rejects, and what it accepts without effect. Empty if there are none.
  /// Sending does not run these checks.
  ///
  /// - Parameter nowSeconds: Unix seconds to compare the expiration with.
  public func lint(nowSeconds: Int64? = nil) -> [LintFinding] {
    var context = LintContext(
      pushType: pushType,
      // That of a broadcast has no suffix.
      topic: channel == nil ? topic : nil,
      // With the priority that is sent.
      priority: priority ?? (pushType == .background ? .powerSaving : nil),
      expirationSeconds: expirationSeconds, collapseIDByteCount: collapseID?.utf8.count,
      nowSeconds: nowSeconds)
    context.isBroadcast = channel != nil
    return PayloadLint.findings(in: payload.span, context)
  }
}
