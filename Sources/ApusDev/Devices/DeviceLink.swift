import ApusDevice
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

/// A virtual device's connection to the courier listener of one environment. Confined to the loop of the devices.
final class DeviceLink: DeviceConnectionDelegate {
  let environment: Environment
  private(set) var isConnected = false
  /// By topic, including suffixes.
  private(set) var tokens: [String: DeviceToken] = [:]
  /// Tokens of removed apps, which providers may still use.
  private(set) var deadTokens: [String: DeviceToken] = [:]
  /// Called for each notification.
  var onReceived: ((ReceivedNotification) -> Void)?
  var onToken: ((_ topic: String, DeviceToken) -> Void)?
  /// Called when the subscriptions to channels have changed.
  var onSubscribed: (() -> Void)?
  private(set) var channels = DeviceChannels()

  private let makeConnection: (DeviceLink) -> DeviceConnection
  private var connection: DeviceConnection?
  private var names: [TopicHash: String] = [:]
  private var waiting: [TopicHash: [(DeviceToken?) -> Void]] = [:]
  private var whenConnected: [() -> Void] = []
  private var whenStopped: [() -> Void] = []
  private var isWanted = false

  /// A topic that no app has. The service's negative response confirms that it has handled all earlier messages.
  private static let nobody = TopicHash(of: Array("apus dev: is everything said?".utf8).span)

  init(_ environment: Environment, makeConnection: @escaping (DeviceLink) -> DeviceConnection) {
    self.environment = environment
    self.makeConnection = makeConnection
  }

  private var isMade: Bool { connection != nil }

  private func made() -> DeviceConnection {
    if let connection { return connection }
    let made = makeConnection(self)
    connection = made
    return made
  }

  private func hash(_ topic: String) -> TopicHash {
    let bytes = Array(topic.utf8)
    let hash = TopicHash(of: bytes.span)
    names[hash] = topic
    return hash
  }

  // MARK: Actions

  func start() {
    isWanted = true
    made().start()
  }

  /// `done` is called once the service knows that the device is offline.
  func stop(_ done: @escaping () -> Void) {
    guard isWanted, let connection else { return done() }
    isWanted = false
    guard connection.stage != .idle else { return done() }
    whenStopped.append(done)
    connection.stop()
  }

  func setTopics(enabled: [String], ignored: [String]) {
    made().setTopics(CourierTopics(enabled: enabled.map(hash), ignored: ignored.map(hash)))
  }

  func setPower(_ power: PowerState) { made().setPower(power) }

  /// Subscribes to these channels, by topic, and to no others.
  func setChannels(_ wanted: [String: Set<String>]) {
    guard let change = channels.change(to: wanted), made().subscribe(change) != nil else { return }
    channels.want(wanted)
  }

  /// `done` gets the token, or nil if the service has none.
  func requestToken(_ topic: String, _ done: @escaping (DeviceToken?) -> Void) {
    if let token = tokens[topic] { return done(token) }
    let hash = hash(topic)
    waiting[hash, default: []].append(done)
    if !made().requestToken(hash) { answer(hash, nil) }
  }

  /// Calls `done` when the service has handled all earlier messages; at once without a connection.
  func settle(_ done: @escaping () -> Void) {
    guard isWanted else { return done() }
    let ask = { [self] in
      waiting[Self.nobody, default: []].append { _ in done() }
      if !made().requestToken(Self.nobody) { answer(Self.nobody, nil) }
    }
    if isConnected { ask() } else { whenConnected.append(ask) }
  }

  private func answer(_ topic: TopicHash, _ token: DeviceToken?) {
    for done in waiting.removeValue(forKey: topic) ?? [] { done(token) }
  }

  /// Marks the tokens of a removed app as invalid; the next registration gives new ones.
  func forget(_ topics: [String]) {
    for topic in topics {
      if let token = tokens.removeValue(forKey: topic) { deadTokens[topic] = token }
    }
  }

  // MARK: The connection

  func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64
  ) {
    isConnected = true
    let calls = whenConnected
    whenConnected = []
    for call in calls { call() }
  }

  func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?
  ) {
    isConnected = false
    guard retryMilliseconds == nil else { return }
    let calls = whenStopped
    whenStopped = []
    for call in calls { call() }
  }

  func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>, channelID: Span<UInt8>
  ) -> DeviceVerdict {
    onReceived?(
      ReceivedNotification(
        environment: environment, topic: names[notification.topic] ?? "",
        id: notification.id, payload: payload.copied(),
        collapseID: collapseID.isEmpty ? nil : collapseID.text,
        isFromStorage: notification.storage.contains(.fromStorage),
        channel: channelID.isEmpty
          ? nil : String(decoding: Base64.encode(channelID), as: UTF8.self)))
    return .acknowledge
  }

  func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for topic: TopicHash
  ) {
    if let token, let name = names[topic] {
      tokens[name] = token
      onToken?(name, token)
    }
    answer(topic, token)
  }

  func deviceConnection(
    _ connection: DeviceConnection, confirmed confirmation: CourierChannelConfirmation
  ) {
    guard let subscriptions = confirmation.subscriptions else { return }
    channels.confirm(subscriptions)
    onSubscribed?()
  }

  /// A notification that a link received.
  struct ReceivedNotification {
    var environment: Environment
    var topic: String
    var id: NotificationID?
    var payload: [UInt8]
    var collapseID: String?
    var isFromStorage: Bool
    /// The id of the channel of a broadcast.
    var channel: String?
  }
}
