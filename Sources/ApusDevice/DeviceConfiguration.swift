public import ApusModel

/// The settings of a device: its service, its identity, and its topics.
public struct DeviceConfiguration: Sendable {
  /// A host name, or an IP address.
  public var host: String
  public var port: UInt16
  /// Other addresses of the same service: more nodes, or a spare machine. When an address fails, the device tries the
  /// next one at once; when all have failed, it waits. It stays with the one that works, or goes to the one that the
  /// service names.
  public var alternatives: [DeviceAddress]
  /// The name that the service's certificate must contain, at all addresses; nil: the host of each.
  public var serverName: String?
  /// The certificates of the authorities that may issue the service's certificate, as PEM; nil for the authorities of
  /// the operating system.
  public var authorityPEM: String?
  /// The device's own certificate as PEM, followed by the certificates up to its authority.
  public var certificatePEM: String
  /// The certificate's private key as PEM, not encrypted.
  public var keyPEM: String
  /// The topics of the device's apps.
  public var topics: DeviceTopics
  /// The last base token from the service, if the application stored it; see `DeviceEvent.connected`. Without it the
  /// device only cannot tell whether the token changed.
  public var baseToken: DeviceToken?
  /// Most notifications in `PushDevice.notifications` that wait for the application.
  public var notificationBuffer: Int
  /// False: the application acknowledges each notification with `PushDevice.acknowledge(_:)`.
  public var acknowledgesAutomatically: Bool
  /// Seconds of silence after which the connection is probed; 0: never. Set it below the idle timeout of NATs and
  /// firewalls in the network, which may be a few minutes.
  public var keepAliveSeconds: Int
  /// How the certificate is renewed.
  public var renewal: DeviceRenewal
  /// Stores a new identity before it is used. Called on the device's own thread during its work. If it throws, the
  /// device continues with the old identity and tries again later. Nil: the identity is not stored, and the application
  /// gets it only from `DeviceEvent.renewed`.
  public var keepIdentity: (@Sendable (DeviceIdentity) throws -> Void)?

  public init(
    host: String, port: UInt16 = 5223, authorityPEM: String?, certificatePEM: String,
    keyPEM: String, topics: DeviceTopics
  ) {
    self.host = host
    self.port = port
    self.authorityPEM = authorityPEM
    self.certificatePEM = certificatePEM
    self.keyPEM = keyPEM
    self.topics = topics
    alternatives = []
    serverName = nil
    baseToken = nil
    notificationBuffer = 1024
    acknowledgesAutomatically = true
    keepAliveSeconds = 900
    renewal = .sameKey
    keepIdentity = nil
  }
}

extension DeviceConfiguration: CustomStringConvertible {
  /// Service, device and number of topics; never the key.
  public var description: String {
    let identity = DeviceIdentity(certificatePEM: certificatePEM, keyPEM: keyPEM)
    let others = alternatives.map { ", or \($0.host), port \($0.port)" }.joined()
    return "\(host), port \(port)\(others), \(identity), topics: \(topics.count)"
  }
}

/// Where a service listens for devices.
public struct DeviceAddress: Sendable, Hashable {
  /// A host name, or an IP address without brackets.
  public var host: String
  public var port: UInt16

  public init(host: String, port: UInt16 = 5223) {
    self.host = host
    self.port = port
  }
}

extension DeviceAddress {
  /// Reads `push.example.com:5223` or `[2001:db8::1]:5223`; nil for anything else.
  init?(_ text: String) {
    guard let place = HostPort(text), place.port > 0,
      place.host.utf8.count <= Self.hostBytes
    else { return nil }
    self.init(host: place.host, port: place.port)
  }

  /// A name has at most as many (RFC 1035, section 2.3.4).
  private static let hostBytes = 253
}

extension DeviceAddress: CustomStringConvertible {
  /// `push.example.com:5223`, or `[2001:db8::1]:5223`.
  public var description: String {
    HostPort(host: host, port: port).description
  }
}

extension DeviceConfiguration {
  package var endpoint: DeviceConnection.Endpoint { .host(host, port: port) }

  /// The other addresses, with the name that the certificate must contain at each.
  package var otherAddresses: [DeviceConnection.Alternative] {
    alternatives.map {
      .init(endpoint: .host($0.host, port: $0.port), serverName: serverName ?? $0.host)
    }
  }
}

/// How a device renews its certificate in the last third of its life.
public enum DeviceRenewal: Sendable, Hashable {
  /// No renewal: once the certificate has expired, the device must enrol again and is then a different device.
  case never
  /// With the existing key.
  case sameKey
  /// With a new ECDSA key each time. The identity must then be stored: the service refuses the old certificate once the
  /// new key has connected.
  case newKey
}

/// The topics of a device's apps, in lists that control delivery. A topic has the name of its app: `com.example.app`.
///
/// A topic in no list counts as uninstalled: the service stops delivering it, and later tells its provider that the
/// token is inactive. If a topic is in several lists, the most restrictive one applies: ignored, paused, opportunistic,
/// non-waking, enabled.
public struct DeviceTopics: Sendable, Hashable {
  /// Delivered immediately.
  public var enabled: [String]
  /// Not delivered: the app is installed, but its user wants no notifications.
  public var ignored: [String]
  /// Delivered when the connection is in use anyway.
  public var opportunistic: [String]
  /// Stored, and delivered once the topic is no longer paused.
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
