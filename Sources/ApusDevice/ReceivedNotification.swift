public import ApusModel
import ApusWire

/// A notification as the device received it.
public struct ReceivedNotification: Sendable, Hashable {
  /// The topic, such as `com.example.app`. For a topic that the device never listed: the 40 hexadecimal digits of its
  /// SHA-1.
  public let topic: String
  /// The token that the provider addressed; of a broadcast, the base token of the connection.
  public let token: DeviceToken
  /// `apns-id`. Nil if the service does not send it.
  public let apnsID: NotificationID?
  /// The JSON text as sent by the provider.
  public let payload: [UInt8]
  /// Nil if the service does not send it.
  public let priority: Priority?
  /// Nil if the provider did not set it.
  public let pushType: PushType?
  /// Unix seconds until which the service would have stored it; nil for none.
  public let expirationSeconds: Int64?
  /// Unix milliseconds at which the service accepted it.
  public let sentMilliseconds: Int64?
  /// Whether the service stored it, or sent it before.
  public let isFromStorage: Bool
  /// Notifications with the same id replace each other on the screen.
  public let collapseID: String?
  /// The id, in base64, of the channel that it was broadcast on; nil if it was sent to this device.
  public let channel: String?
  /// The service's id for it until it is acknowledged.
  package let messageID: UInt32

  init(
    _ fields: CourierNotification, topic: String, payload: [UInt8], collapseID: String?,
    channel: String? = nil
  ) {
    self.topic = topic
    token = fields.token
    apnsID = fields.id
    self.payload = payload
    priority = fields.priority
    pushType = fields.pushType
    expirationSeconds = fields.expirySeconds.map(Int64.init)
    sentMilliseconds = fields.sentNanoseconds.map { Int64($0 / 1_000_000) }
    isFromStorage = fields.storage.contains(.fromStorage)
    self.collapseID = collapseID
    self.channel = channel
    messageID = fields.messageID
  }
}

extension ReceivedNotification: CustomStringConvertible {
  /// One line, or more if the payload has more; with the first digits of the token.
  public var description: String {
    var text = topic
    if let apnsID { text += ", \(HeaderName.apnsID.text) \(apnsID)" }
    if let pushType { text += ", \(pushType.name)" }
    if let priority { text += ", priority \(priority.rawValue)" }
    if let expirationSeconds { text += ", expiration \(expirationSeconds)" }
    if let collapseID { text += ", collapse id \"\(collapseID)\"" }
    if let channel { text += ", channel \(channel)" }
    if isFromStorage { text += ", was stored" }
    return text + ", to \(token): \(String(decoding: payload, as: UTF8.self))"
  }
}

/// An event of a device's connection.
public enum DeviceEvent: Sendable, Hashable {
  /// The service accepted the device, under this base token, which is not valid for any topic. `isNewToken`: the token
  /// has changed, and each app must request its own token again. `serverMilliseconds`: the service's time, Unix
  /// milliseconds.
  case connected(baseToken: DeviceToken, isNewToken: Bool, serverMilliseconds: UInt64)
  /// The connection ended, with a readable reason. The device reconnects after this many milliseconds, 0 if it tries
  /// another address at once; nil: it was stopped, or the service does not accept it any more, because it is retired or
  /// its certificate is revoked or of an authority that the service does not trust. It then needs a new identity, or
  /// `start()` to try again.
  case disconnected(reason: String, retryMilliseconds: UInt64?)
  /// No stored notifications for the device.
  case nothingStored
  /// The device has a new certificate, and possibly a new key: store them for its next start.
  case renewed(DeviceIdentity)
  /// The certificate could not be renewed or stored, with a readable reason; the device tries again.
  case notRenewed(reason: String)
}

extension DeviceEvent: CustomStringConvertible {
  public var description: String {
    switch self {
    case .connected(let token, let isNewToken, _):
      "connected, base token \(token)\(isNewToken ? " (new)" : "")"
    case .disconnected(let reason, let milliseconds?):
      "disconnected: \(reason); connects again in \(milliseconds) ms"
    case .disconnected(let reason, nil): "disconnected: \(reason)"
    case .nothingStored: "nothing is stored for the device"
    case .renewed(let identity): "renewed: \(identity)"
    case .notRenewed(let reason): "not renewed: \(reason)"
    }
  }
}

/// Why an operation failed.
public struct DeviceError: Error, Sendable, Hashable, CustomStringConvertible {
  public struct Code: Sendable, Hashable, CustomStringConvertible {
    private enum Value: String {
      case badConfiguration = "bad configuration"
      case notStarted = "not started"
      case stopped
      case refused
      case tokenRefused = "token refused"
      case tooManyRequests = "too many requests"
      case codeRefused = "code refused"
      case rejected
      case enrolmentRefused = "enrolment refused"
      case unreachable
      case unknownTopic = "unknown topic"
      case unknownChannel = "unknown channel"
      case tooManySubscriptions = "too many subscriptions"
      case unavailable
    }
    private let value: Value

    /// A certificate, a key or a name is invalid.
    public static let badConfiguration = Code(value: .badConfiguration)
    /// `start()` was not called yet.
    public static let notStarted = Code(value: .notStarted)
    /// `stop()` was called.
    public static let stopped = Code(value: .stopped)
    /// The service does not accept the device any more; the description gives the reason.
    public static let refused = Code(value: .refused)
    /// The service has no such topic.
    public static let tokenRefused = Code(value: .tokenRefused)
    /// Too many topics, or too many pending requests.
    public static let tooManyRequests = Code(value: .tooManyRequests)
    /// The service rejected the enrolment code: it is unknown, used or expired.
    public static let codeRefused = Code(value: .codeRefused)
    /// The operator rejected the device.
    public static let rejected = Code(value: .rejected)
    /// The service issues no certificate, now or in this way; the description gives the reason.
    public static let enrolmentRefused = Code(value: .enrolmentRefused)
    /// The service could not be reached, or its answer was invalid.
    public static let unreachable = Code(value: .unreachable)

    /// The service has no such topic, or the device does not list it as one that it wants.
    public static let unknownTopic = Code(value: .unknownTopic)
    /// The app has no such channel in this environment.
    public static let unknownChannel = Code(value: .unknownChannel)
    /// The device would have more than `Limits.subscriptionsPerDevice` subscriptions.
    public static let tooManySubscriptions = Code(value: .tooManySubscriptions)
    /// The service could not store the change, and applied nothing: try again later.
    public static let unavailable = Code(value: .unavailable)

    public var description: String { value.rawValue }
  }

  public var code: Code
  /// A readable description of the error.
  public var description: String

  init(_ code: Code, _ description: String) {
    self.code = code
    self.description = description
  }
}
