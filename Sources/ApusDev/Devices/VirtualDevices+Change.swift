import ApusWire
import ApusModel

/// Changes to a virtual device; nil members stay unchanged.
struct DeviceChange: Sendable {
  var name: String?
  var language: String?
  var online: Bool?
  var power: PowerState?
  var notifications: Bool?
  var apps: [(bundle: String, state: VirtualDevice.App)] = []

  static let powers = PowerState.allCases.map { ($0.text, $0) }

  init() {}

  init(_ reader: inout FieldReader) throws(InputFault) {
    name = try reader.string("name", maximumBytes: 64)
    language = try reader.string("language", maximumBytes: 35)
    if let language, !Self.isLanguage(language) {
      throw reader.fault("language", "must be a language such as en, de or pt-BR")
    }
    online = try reader.bool("online")
    power = try reader.choice("power", Self.powers)
    notifications = try reader.bool("notifications")
    guard var members = try reader.object("apps") else { return }
    for member in members.all() {
      let state = try members.choice(
        member.key, VirtualDevice.App.allCases.map { ($0.rawValue, $0) })
      apps.append((member.key, try members.required(state, member.key)))
    }
    try members.finish()
  }

  /// A language tag of BCP 47, limited to what is safe in file names and headers.
  static func isLanguage(_ text: String) -> Bool {
    1...35 ~= text.utf8.count
      && text.utf8.allSatisfy { byte in
        byte &- 0x30 < 10 || (byte | 0x20) &- 0x61 < 26 || byte == UInt8(ascii: "-")
          || byte == UInt8(ascii: "_")
      }
  }
}

extension VirtualDevices {
  /// Changes a device; `done` is called once the service has applied the change.
  func change(
    _ device: VirtualDevice, _ change: DeviceChange, _ done: @escaping () -> Void
  ) throws(DevProblem) {
    for (bundle, _) in change.apps where !apps.contains(bundle) {
      throw DevProblem(.invalid, "the service has no app \"\(bundle)\"", field: "apps.\(bundle)")
    }
    book.forgetAdoptions()
    if let name = change.name { device.name = name }
    if let language = change.language {
      device.language = language
      book.setLanguage(language, of: device.id)
    }
    if let notifications = change.notifications { device.notifications = notifications }
    for (bundle, state) in change.apps {
      device.apps[bundle] = state
      guard state == .removed else { continue }
      for link in device.links.values { link.forget(VirtualDevice.topics(of: bundle)) }
      device.activities.remove(app: bundle)
    }
    if let power = change.power {
      device.power = power
      for link in device.allLinks { link.setPower(power) }
    }
    if change.notifications != nil || !change.apps.isEmpty { device.sayTopics() }
    for (bundle, state) in change.apps where state == .installed {
      requestTokens(of: bundle, for: device)
    }
    let links = device.allLinks
    if let online = change.online, online != device.isOnline {
      device.isOnline = online
      guard online else { return each(links.map { link in { link.stop($0) } }, done) }
      for link in links { link.start() }
    }
    each(links.map { link in { link.settle($0) } }, done)
    activities.settle(device)
  }

  /// The device for a token that the service did not issue, and its token for the topic; nil if there is none.
  func adopt(
    _ token: String, topic: String, environment: Environment, reload: () -> Void,
    _ done: @escaping (DeviceToken?) -> Void
  ) {
    // A legacy sender without a certificate names no topic.
    let topic = topic.isEmpty ? apps.sorted().first ?? "" : topic
    let bundle = apps.contains(topic) ? topic : DeviceBook.bundle(of: topic)
    let device: VirtualDevice
    do {
      try addApp(bundle, reload: reload)
      device = try owner(of: token)
    } catch {
      return done(nil)
    }
    guard let link = device.links[environment] else { return done(nil) }
    // Requesting a token would install the app again.
    guard device.apps[bundle] == .installed else { return done(link.deadTokens[topic]) }
    link.requestToken(topic) { [book] found in
      if let found {
        book.add(token, of: device.id)
        book.adopt(.init(token: token, topic: topic, environment: environment), as: found)
      }
      done(found)
    }
  }

  /// The device that had the token before, or a new one; beyond the limit, an existing one.
  private func owner(of token: String) throws -> VirtualDevice {
    if let known = book.owner(of: token).flatMap({ device($0.device) }) { return known }
    let adopted = all.filter { $0.id.hasPrefix(Self.adoptedPrefix) }
    guard all.count < Self.capacity || adopted.isEmpty else {
      let sum = token.utf8.reduce(0) { ($0 &* 31 &+ Int($1)) & 0xffff }
      return adopted[sum % adopted.count]
    }
    return try add(
      id: "\(Self.adoptedPrefix)\(adopted.count + 1)", name: "Token \(token.prefix(8))…",
      language: DeviceBook.defaultLanguage)
  }

  private static var adoptedPrefix: String { "adopted-" }
}
