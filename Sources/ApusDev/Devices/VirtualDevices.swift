import ApusCore
import ApusDevice
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTrust
import ApusWire
import Glibc

/// All virtual devices. Confined to their loop.
final class VirtualDevices: @unchecked Sendable {
  struct Settings: Sendable {
    var data: DataDirectory
    /// The addresses to which devices of each environment connect.
    var listeners: [Environment: SocketAddress]
    var team: String
    /// Whether identities are saved for the next run.
    var keepsIdentities: Bool
    /// The clock of Live Activities.
    var clock: ServiceClock
  }

  let loop: EventLoop
  let book: DeviceBook
  let settings: Settings
  let activities: ActivityHost
  private let shared: DeviceLoop
  private let authority: CertificateAuthority
  private let authorityPEM: [UInt8]
  private let record: @Sendable (PushRecorder.Note) -> Void
  private(set) var all: [VirtualDevice] = []
  /// Bundle ids of the service's apps.
  private(set) var apps: Set<String>

  /// Maximum number of devices; each has a connection for each environment.
  static let capacity = 256

  init(
    loop: EventLoop, book: DeviceBook, settings: Settings, apps: [String],
    record: @escaping @Sendable (PushRecorder.Note) -> Void
  ) throws {
    self.loop = loop
    self.book = book
    self.settings = settings
    self.record = record
    self.apps = Set(apps)
    shared = DeviceLoop(loop: loop)
    authority = try settings.data.issuer(.devices)
    authorityPEM = try Files.read(settings.data.clientAuthorityFile)
    activities = ActivityHost(loop: loop, clock: settings.clock, book: book, record: record)
    activities.devices = { [unowned self] in all }
    activities.makeLink = { [unowned self] environment in
      try makeLink(environment, context(of: newIdentity("activity")))
    }
  }

  func device(_ id: String) -> VirtualDevice? { all.first { $0.id == id } }

  // MARK: Making devices

  /// Makes a device with all apps installed, and connects it.
  func add(
    id: String, name: String, language: String, environments: [Environment] = Environment.allCases
  ) throws -> VirtualDevice {
    guard all.count < Self.capacity else {
      throw DevProblem(.conflict, "there are already \(Self.capacity) devices")
    }
    guard device(id) == nil else {
      throw DevProblem(.conflict, "the device \"\(id)\" already exists")
    }
    let identity = try identity(id, name)
    guard let deviceID = identity.deviceID else {
      throw DevProblem(.failed, "the device's certificate cannot be read")
    }
    let context = try context(of: identity)
    let device = VirtualDevice(
      id: id, name: name, language: language, identity: identity, deviceID: deviceID,
      clock: settings.clock)
    for app in apps { device.apps[app] = .installed }
    for environment in environments { link(device, environment, context) }
    all.append(device)
    book.setLanguage(language, of: id)
    device.sayTopics()
    for link in device.links.values { link.start() }
    for app in apps { requestTokens(of: app, for: device) }
    return device
  }

  private func context(of identity: DeviceIdentity) throws -> TLSContext {
    try TLSContext(
      client: TLSClientConfiguration(
        trustRoots: .authorities(PEM: authorityPEM),
        identity: TLSIdentity(
          certificateChainPEM: Array(identity.certificatePEM.utf8),
          privateKeyPEM: Array(identity.keyPEM.utf8)),
        applicationProtocols: ["\(CourierALPN.apus.name)"], serverName: "localhost"))
  }

  private func link(
    _ device: VirtualDevice, _ environment: Environment, _ context: TLSContext
  ) {
    guard let link = makeLink(environment, context) else { return }
    let (id, book) = (device.id, book)
    link.onToken = { _, token in book.add(token.hex, of: id) }
    link.onReceived = { [unowned self, unowned device] in received($0, device) }
    link.onSubscribed = { [record] in record(.event(.device(id))) }
    device.links[environment] = link
  }

  private func makeLink(_ environment: Environment, _ context: TLSContext) -> DeviceLink? {
    guard let address = settings.listeners[environment] else { return nil }
    return DeviceLink(environment) { [shared] link in
      DeviceConnection(
        shared: shared,
        configuration: .init(
          endpoint: .addresses([address]), context: context,
          backoff: .init(firstMilliseconds: 50, maximumMilliseconds: 2000)),
        seed: randomID().low, delegate: link)
    }
  }

  /// The saved identity, or a new one.
  private func identity(_ id: String, _ name: String) throws -> DeviceIdentity {
    let path = "\(settings.data.path)/dev"
    let file = DeviceIdentityFile(path: "\(path)/\(id).pem")
    if settings.keepsIdentities, let (key, certificate) = try file.read(), let certificate {
      return DeviceIdentity(certificatePEM: certificate, keyPEM: key)
    }
    let identity = try newIdentity(name)
    if settings.keepsIdentities {
      try Files.makeDirectory(path)
      try file.write(identity)
    }
    return identity
  }

  private func newIdentity(_ name: String) throws -> DeviceIdentity {
    let key = try PrivateKey.generateP256()
    let certificate = try authority.issueDevice(
      deviceID: DeviceID(randomID().high), name: String(name.prefix(32)), publicKey: key.publicKey,
      validity: Validity(
        now: EventLoop.wallClockMilliseconds() / 1000, days: DataDirectory.ValidityDays.device))
    return DeviceIdentity(certificatePEM: certificate.pem, keyPEM: key.pkcs8PEM)
  }

  /// `done` is called when the device has disconnected.
  func remove(_ id: String, _ done: @escaping () -> Void) {
    guard let device = device(id) else { return done() }
    all.removeAll { $0.id == id }
    book.forget(id)
    book.forgetAdoptions()
    if settings.keepsIdentities { Files.remove("\(settings.data.path)/dev/\(id).pem") }
    // The closure keeps the device alive until its links have stopped.
    each(device.allLinks.map { link in { link.stop($0) } }) {
      withExtendedLifetime(device) { done() }
    }
  }

  /// Runs several asynchronous actions, and calls `done` after the last one has finished.
  func each(_ works: [(@escaping () -> Void) -> Void], _ done: @escaping () -> Void) {
    guard !works.isEmpty else { return done() }
    var left = works.count
    for work in works {
      work {
        left -= 1
        if left == 0 { done() }
      }
    }
  }

  // MARK: Apps

  /// Adds an app to the service and installs it on every device.
  func addApp(_ bundle: String, reload: () -> Void) throws {
    guard !apps.contains(bundle) else { return }
    guard let team = ShortID(settings.team) else { return }
    try settings.data.addApp(bundle, team: team, broadcasts: true)
    reload()
    apps.insert(bundle)
    for device in all {
      device.apps[bundle] = .installed
      device.sayTopics()
      requestTokens(of: bundle, for: device)
    }
  }

  func requestTokens(of bundle: String, for device: VirtualDevice) {
    guard device.apps[bundle] == .installed else { return }
    for link in device.links.values {
      for topic in VirtualDevice.topics(of: bundle) { link.requestToken(topic) { _ in } }
    }
  }

  // MARK: Received notifications

  private func received(
    _ notification: DeviceLink.ReceivedNotification, _ device: VirtualDevice
  ) {
    guard DeviceBook.suffix(of: notification.topic) != .liveActivity else {
      return activities.received(
        notification, device, over: notification.channel.map { .channel($0) } ?? .startToken)
    }
    let rendering = Rendering(
      payload: notification.payload, language: device.language,
      strings: book.strings(of: notification.topic, device.language))
    device.show(.init(notification, rendering, atMilliseconds: activities.nowMilliseconds))
    if let arrival = Arrival(
      notification, on: device.id, rendering, atMilliseconds: activities.nowMilliseconds)
    {
      record(.arrived(arrival))
    }
  }

  /// Ends all connections.
  func stop(_ done: @escaping () -> Void) {
    activities.stop()
    each(all.flatMap(\.allLinks).map { link in { link.stop($0) } }, done)
  }
}
