import ApusDevice
import ApusModel
import ApusWire

/// What a device shows of one notification.
struct ShownNotification: Sendable {
  var id: NotificationID?
  var topic: String
  var environment: Environment
  var milliseconds: Int64
  var collapseID: String?
  /// Whether it waited at the service.
  var isFromStorage: Bool
  /// Nil where the payload is no JSON object.
  var rendering: Rendering?
}

/// A device that is nowhere but here. Confined to the loop of the devices.
final class VirtualDevice {
  enum App: String, Sendable, CaseIterable { case installed, removed }

  /// Names it in the API.
  let id: String
  var name: String
  let identity: DeviceIdentity
  /// By which the service knows it.
  let deviceID: String
  var language: String
  var isOnline = true
  var power = PowerState.active
  /// Whether its user wants notifications.
  var notifications = true
  /// By bundle id.
  var apps: [String: App] = [:]
  private(set) var shown: [ShownNotification] = []
  /// The number on each app's icon.
  private(set) var badges: [String: Int] = [:]
  var links: [Environment: DeviceLink] = [:]

  /// Notifications that it shows at most, like a phone's own list.
  private static let shownCapacity = 100

  init(id: String, name: String, language: String, identity: DeviceIdentity, deviceID: String) {
    self.id = id
    self.name = name
    self.language = language
    self.identity = identity
    self.deviceID = deviceID
  }

  /// Each suffix is a topic of its own.
  static func topics(of bundle: String) -> [String] {
    TopicSuffix.allCases.map { "\(bundle)\($0.text)" }
  }

  /// Says what it wants to get, in both environments.
  func sayTopics() {
    let installed = apps.filter { $0.value == .installed }.keys.sorted()
    let topics = installed.flatMap(Self.topics)
    for link in links.values {
      link.setTopics(enabled: notifications ? topics : [], ignored: notifications ? [] : topics)
    }
  }

  /// A notification of the same collapse id takes the place of the older one.
  func show(_ notification: ShownNotification) {
    if let id = notification.collapseID {
      shown.removeAll { $0.collapseID == id && $0.topic == notification.topic }
    }
    shown.append(notification)
    if shown.count > Self.shownCapacity { shown.removeFirst() }
    if let badge = notification.rendering?.presentation.badge {
      badges[DeviceBook.bundle(of: notification.topic)] = badge
    }
  }

  func clearShown() {
    shown = []
    badges = [:]
  }

  // MARK: As JSON

  func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.text("id", id)
    writer.text("name", name)
    writer.text("deviceID", deviceID)
    writer.key("online")
    writer.bool(isOnline)
    writer.key("connected")
    writer.beginObject()
    for environment in Environment.allCases {
      writer.key(environment.name)
      writer.bool(links[environment]?.isConnected == true)
    }
    writer.endObject()
    writer.text("power", power.text)
    writer.text("language", language)
    writer.key("notifications")
    writer.bool(notifications)
    writer.key("apps")
    writer.beginObject()
    for (bundle, state) in apps.sorted(by: { $0.key < $1.key }) {
      writer.text(bundle, state.rawValue)
    }
    writer.endObject()
    writer.key("badges")
    writer.beginObject()
    for (bundle, badge) in badges.sorted(by: { $0.key < $1.key }) {
      writer.integer(bundle, Int64(badge))
    }
    writer.endObject()
    writer.key("tokens")
    writeTokens(to: &writer)
    writer.integer("shown", Int64(shown.count))
    writer.endObject()
  }

  private func writeTokens(to writer: inout JSONWriter) {
    writer.beginArray()
    for environment in Environment.allCases {
      for (topic, token) in (links[environment]?.tokens ?? [:]).sorted(by: { $0.key < $1.key }) {
        writer.beginObject()
        writer.text("topic", topic)
        writer.text("environment", environment.name)
        writer.text("token", token.hex)
        writer.endObject()
      }
    }
    writer.endArray()
  }
}

extension PowerState {
  /// As the API calls it.
  var text: String {
    switch self {
    case .active: "active"
    case .idle: "idle"
    case .lowPower: "lowPower"
    }
  }
}
