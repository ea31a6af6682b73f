import ApusDevice
import ApusLoop
import ApusModel
import ApusWire

/// A notification that a device shows.
struct ShownNotification: Sendable {
  var id: NotificationID?
  var topic: String
  var environment: Environment
  var milliseconds: Int64
  var collapseID: String?
  /// Whether it was delivered from storage.
  var isFromStorage: Bool
  /// Nil if the payload is not a JSON object.
  var rendering: Rendering?
}

extension ShownNotification {
  /// - Parameter milliseconds: the time by the service's clock, as everywhere in the inbox.
  init(
    _ notification: DeviceLink.ReceivedNotification, _ rendering: Rendering?,
    atMilliseconds milliseconds: Int64
  ) {
    self.init(
      id: notification.id, topic: notification.topic, environment: notification.environment,
      milliseconds: milliseconds, collapseID: notification.collapseID,
      isFromStorage: notification.isFromStorage, rendering: rendering)
  }
}

/// A simulated device. Confined to the loop of the devices.
final class VirtualDevice {
  enum App: String, Sendable, CaseIterable { case installed, removed }

  /// The id in the API.
  let id: String
  var name: String
  let identity: DeviceIdentity
  /// The device id in the service.
  let deviceID: String
  var language: String
  var isOnline = true
  var power = PowerState.active
  /// Whether the user allows notifications.
  var notifications = true
  /// App states by bundle id.
  var apps: [String: App] = [:]
  private(set) var shown: [ShownNotification] = []
  /// The number on each app's icon.
  private(set) var badges: [String: Int] = [:]
  var links: [Environment: DeviceLink] = [:]
  var activities = DeviceActivities()
  private let clock: ServiceClock

  /// Maximum number of shown notifications, as on a phone.
  private static let shownCapacity = 100

  init(
    id: String, name: String, language: String, identity: DeviceIdentity, deviceID: String,
    clock: ServiceClock
  ) {
    self.clock = clock
    self.id = id
    self.name = name
    self.language = language
    self.identity = identity
    self.deviceID = deviceID
  }

  /// All topics of an app: each suffix makes another topic.
  static func topics(of bundle: String) -> [String] {
    TopicSuffix.allCases.map { "\(bundle)\($0.text)" }
  }

  /// Its connections and those of its activities.
  var allLinks: [DeviceLink] { links.values + activities.links }

  private var nowSeconds: Int64 { clock.nowMilliseconds / 1000 }

  /// Sends the lists of topics on all connections.
  func sayTopics() {
    let installed = apps.filter { $0.value == .installed }.keys.sorted()
    let topics = installed.flatMap(Self.topics)
    for link in links.values {
      link.setTopics(enabled: notifications ? topics : [], ignored: notifications ? [] : topics)
    }
    activities.sayTopics(notifications: notifications, at: nowSeconds)
  }

  /// Shows a notification. It replaces an older one with the same collapse id.
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
    writer.key("channels")
    writer.beginArray()
    for environment in Environment.allCases {
      links[environment]?.channels.write(to: &writer, environment)
    }
    writer.endArray()
    writer.integer("shown", Int64(shown.count))
    writer.integer("activities", Int64(activities.countOnScreen(at: nowSeconds)))
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
    activities.writeTokens(to: &writer)
    writer.endArray()
  }
}

extension PowerState {
  /// The name in the API.
  var text: String {
    switch self {
    case .active: "active"
    case .idle: "idle"
    case .lowPower: "lowPower"
    }
  }
}
