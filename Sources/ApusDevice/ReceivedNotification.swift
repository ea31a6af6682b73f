public import ApusModel
import ApusWire

/// A notification as the device got it.
public struct ReceivedNotification: Sendable, Hashable {
  /// The topic by name, such as `com.example.app`; for one that the device never listed, the 40 hexadecimal digits of
  /// its SHA-1.
  public let topic: String
  /// The token that the provider addressed.
  public let token: DeviceToken
  /// `apns-id`. Nil from a service that does not tell.
  public let apnsID: NotificationID?
  /// The JSON text as the provider sent it.
  public let payload: [UInt8]
  /// Nil from a service that does not tell.
  public let priority: Priority?
  /// Nil where the provider named none.
  public let pushType: PushType?
  /// Unix seconds until which the service would have kept it; nil for no time.
  public let expirationSeconds: Int64?
  /// Unix milliseconds at which the service accepted it.
  public let sentMilliseconds: Int64?
  /// Whether it waited at the service, or was sent before.
  public let isFromStorage: Bool
  /// Notifications of one id replace each other on the screen.
  public let collapseID: String?
  /// What the service knows it by until it is acknowledged.
  package let messageID: UInt32

  init(_ fields: CourierNotification, topic: String, payload: [UInt8], collapseID: String?) {
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
    messageID = fields.messageID
  }
}

/// What happens to the connection of a device.
public enum DeviceEvent: Sendable, Hashable {
  /// The service believes the device, and calls it by this token, which is good for no topic. `isNewToken`: it is not
  /// the one from before, and each app must ask for its own token again. `serverMilliseconds`: the service's clock,
  /// Unix time.
  case connected(baseToken: DeviceToken, isNewToken: Bool, serverMilliseconds: UInt64)
  /// There is no connection. The reason is for people. The device connects again after this many milliseconds; nil:
  /// it was stopped.
  case disconnected(reason: String, retryMilliseconds: UInt64?)
  /// Nothing waited for the device.
  case nothingStored
  /// The device has a new certificate, and perhaps a new key: to be kept for its next start.
  case renewed(DeviceIdentity)
  /// The certificate was not renewed, or could not be kept. The reason is for people; the device tries again.
  case notRenewed(reason: String)
}

/// Why something was not done.
public struct DeviceError: Error, Sendable, Hashable, CustomStringConvertible {
  public struct Code: Sendable, Hashable {
    private enum Value {
      case badConfiguration, notStarted, stopped, tokenRefused, tooManyRequests
      case codeRefused, rejected, enrolmentRefused, unreachable
    }
    private let value: Value

    /// A certificate, a key or a name cannot be used.
    public static let badConfiguration = Code(value: .badConfiguration)
    /// `start()` was not called yet.
    public static let notStarted = Code(value: .notStarted)
    /// `stop()` was called.
    public static let stopped = Code(value: .stopped)
    /// The service has no such topic.
    public static let tokenRefused = Code(value: .tokenRefused)
    /// Too many topics, or too many requests for tokens that wait for their answers.
    public static let tooManyRequests = Code(value: .tooManyRequests)
    /// The service does not take the one-time code: it was never made, is used up, or past its time.
    public static let codeRefused = Code(value: .codeRefused)
    /// The operator has refused the device.
    public static let rejected = Code(value: .rejected)
    /// The service gives no certificate, now or in this way; the description says why.
    public static let enrolmentRefused = Code(value: .enrolmentRefused)
    /// The service could not be asked, or what it answered is of no use.
    public static let unreachable = Code(value: .unreachable)
  }

  public var code: Code
  /// What was wrong, for people.
  public var description: String

  init(_ code: Code, _ description: String) {
    self.code = code
    self.description = description
  }
}
