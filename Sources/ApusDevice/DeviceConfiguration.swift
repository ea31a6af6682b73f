public import ApusModel

/// Which service a device belongs to, and who it is.
public struct DeviceConfiguration: Sendable {
  /// A host name, or an address.
  public var host: String
  public var port: UInt16
  /// The name that the service's certificate must have; nil: the host.
  public var serverName: String?
  /// The certificates of the authorities that the service's certificate may come from, as PEM.
  public var authorityPEM: String
  /// The device's own certificate as PEM, and behind it those that lead to its authority.
  public var certificatePEM: String
  /// The certificate's private key as PEM, not encrypted.
  public var keyPEM: String
  /// What the device wants to get.
  public var topics: DeviceTopics
  /// What the service called the device last, if the application kept it: `DeviceEvent.connected` has it. Without it
  /// nothing is lost but the news whether it changed.
  public var baseToken: DeviceToken?
  /// Notifications that may wait in `PushDevice.notifications` for the application.
  public var notificationBuffer: Int
  /// False: the application acknowledges each notification itself, by `PushDevice.acknowledge(_:)`.
  public var acknowledgesAutomatically: Bool
  /// Seconds of silence after which the connection is probed; 0: never. Below the time for which the network on the way
  /// remembers a quiet connection, which may be some minutes.
  public var keepAliveSeconds: Int
  /// How the certificate is followed by another in time.
  public var renewal: DeviceRenewal
  /// Keeps a new identity, before anything is done with it: it is called on the device's own thread, in the middle of
  /// its work. Where it throws, the device goes on with the old identity and tries again later. Nil: nobody keeps it,
  /// and the application finds it in `DeviceEvent.renewed` alone.
  public var keepIdentity: (@Sendable (DeviceIdentity) throws -> Void)?

  public init(
    host: String, port: UInt16 = 5223, authorityPEM: String, certificatePEM: String,
    keyPEM: String, topics: DeviceTopics
  ) {
    self.host = host
    self.port = port
    self.authorityPEM = authorityPEM
    self.certificatePEM = certificatePEM
    self.keyPEM = keyPEM
    self.topics = topics
    serverName = nil
    baseToken = nil
    notificationBuffer = 1024
    acknowledgesAutomatically = true
    keepAliveSeconds = 900
    renewal = .sameKey
    keepIdentity = nil
  }
}

/// How a device's certificate is followed by another, in the last third of its life.
public enum DeviceRenewal: Sendable, Hashable {
  /// Not at all: once it has expired, the device must enrol anew, and is then another device.
  case never
  /// With the key that it has.
  case sameKey
  /// With a new ECDSA key each time. The identity must then be kept: with the new key's first connection the old one is
  /// on its way out.
  case newKey
}

/// What a device wants to get, topic by topic. A topic is named like an app: `com.example.app`.
///
/// A topic that stands in no list counts as uninstalled: the service stops delivering it, and after a while its
/// provider is told that the token is dead. Where a topic stands in several, the most restrictive one counts: ignored,
/// paused, opportunistic, non-waking, enabled.
public struct DeviceTopics: Sendable, Hashable {
  /// Delivered at once.
  public var enabled: [String]
  /// Not delivered; the app is there, and its user wants no notifications.
  public var ignored: [String]
  /// Delivered when the connection is in use anyway.
  public var opportunistic: [String]
  /// Kept, and delivered once the topic is no longer paused.
  public var paused: [String]
  /// Delivered without waking the device.
  public var nonWaking: [String]

  public init(
    enabled: [String] = [], ignored: [String] = [], opportunistic: [String] = [],
    paused: [String] = [], nonWaking: [String] = []
  ) {
    self.enabled = enabled
    self.ignored = ignored
    self.opportunistic = opportunistic
    self.paused = paused
    self.nonWaking = nonWaking
  }

  var count: Int {
    enabled.count + ignored.count + opportunistic.count + paused.count + nonWaking.count
  }

  var all: [String] { enabled + ignored + opportunistic + paused + nonWaking }
}
