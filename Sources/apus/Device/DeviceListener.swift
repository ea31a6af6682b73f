import ApusCommand
import ApusDevice
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTrust
import ApusWire

/// A device that shows its notifications. Confined to its loop, which it stops when it is done.
final class DeviceListener: DeviceConnectionDelegate {
  /// Why it ended early; nil if it did not.
  private(set) var failure: CommandFailure?

  private let loop: EventLoop
  private let shared: DeviceLoop
  private let invocation: Invocation
  private let couriers: [HostPort]
  private let configuration: DeviceConnection.Configuration
  private let topics: [String]
  private let channels: ListenedChannels?
  private let names: [TopicHash: String]
  private let log: Log
  private let isJSON: Bool
  /// The app's texts by key.
  private let strings: [String: String]
  /// Saves a renewed identity and makes its TLS context.
  private let renewal: ((DeviceIdentity) throws -> TLSContext)?
  /// The number of notifications after which it ends; nil for no limit.
  private let limit: Int?
  private let activities: ListenedActivities
  private var connection: DeviceConnection?
  private var tokens: [TopicHash: DeviceToken] = [:]
  private var received = 0
  private var wasConnected = false
  private var isStopping = false

  init(
    loop: EventLoop, topics: [String], channels: ListenedChannels?, couriers: [HostPort],
    invocation: Invocation,
    configuration: DeviceConnection.Configuration, strings: [String: String],
    renewal: ((DeviceIdentity) throws -> TLSContext)? = nil
  ) {
    self.loop = loop
    self.renewal = renewal
    self.strings = strings
    self.topics = topics
    self.channels = channels
    self.invocation = invocation
    self.couriers = couriers
    self.configuration = configuration
    shared = DeviceLoop(loop: loop)
    let listed = topics + (channels.map { [$0.topic] } ?? [])
    let hashes = listed.map { (Self.hash($0), $0) }
    names = Dictionary(hashes) { first, _ in first }
    log = Log(invocation)
    let isJSON = invocation.isOn(ApusOptions.json)
    self.isJSON = isJSON
    activities = ListenedActivities(loop: loop, strings: strings) { line in
      if isJSON { Output.json(line.json) } else { Output.standard(line.text) }
    }
    limit = invocation[ApusOptions.count]
  }

  private static func hash(_ topic: String) -> TopicHash {
    let bytes = Array(topic.utf8)
    return TopicHash(of: bytes.span)
  }

  private var hashes: [TopicHash] { topics.map(Self.hash) }

  func start() {
    let connection = DeviceConnection(
      shared: shared, configuration: configuration, seed: randomID().low, delegate: self)
    self.connection = connection
    connection.setTopics(CourierTopics(enabled: Array(names.keys)))
    requestTokens()
    if let channels { _ = connection.subscribe(channels.request) }
    connection.start()
  }

  /// Disconnects, then stops the loop.
  func stop() {
    isStopping = true
    activities.stop()
    if let limit, received < limit, failure == nil {
      failure = CommandFailure(.failed, "stopped after \(received) of \(limit) notifications")
    }
    connection?.stop()
  }

  private func requestTokens() {
    // It fails for more topics than a filter can have; the command line has checked this limit.
    for hash in hashes { _ = connection?.requestToken(hash) }
  }

  private func fail(_ failure: CommandFailure) {
    if self.failure == nil { self.failure = failure }
    stop()
  }

  // MARK: The connection

  func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64
  ) {
    // A new device token means that the apps' tokens may have changed too.
    if wasConnected, isNewToken {
      tokens = [:]
      requestTokens()
    }
    wasConnected = true
    if isJSON { Output.json(.members(["event": .string("connected")])) }
    log(
      .info, "connected",
      .text(
        "service", connection.hintedAddress ?? couriers[connection.addressIndex].description))
    warnOfClock(serverMilliseconds: serverMilliseconds)
    // Every connection begins with the filter, which leaves these topics out.
    for topic in invocation.all(ApusOptions.unregister) {
      if isJSON {
        Output.json(.members(["event": .string("unregistered"), "topic": .string(topic)]))
      } else {
        Output.standard("\(topic)  unregistered\n")
      }
    }
    if names.isEmpty { stop() }
  }

  func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?
  ) {
    if case .stopped = reason { return loop.stop() }
    if isJSON {
      Output.json(
        .members([
          "event": .string("disconnected"), "reason": .string("\(reason)"),
          "retry_milliseconds": retryMilliseconds.map { .integer(Int64(clamping: $0)) },
        ]))
    }
    guard !isStopping else { return }
    guard wasConnected || connection.connectsAtOnce, let retryMilliseconds else {
      return fail(Self.failure(reason))
    }
    log(
      .warning, "disconnected", .text("reason", "\(reason)"),
      .number("retry_ms", retryMilliseconds))
  }

  private func warnOfClock(serverMilliseconds: UInt64) {
    let ahead = EventLoop.wallClockMilliseconds() - Int64(clamping: serverMilliseconds)
    guard abs(ahead) > Limits.courierNonceSeconds * 1000 else { return }
    log(
      .warning, "the clock of this device differs from the service's: correct it",
      .number("ahead_seconds", ahead / 1000))
  }

  /// The failure of a first connection, or one that waiting does not change. It ends the command: of a first
  /// connection, the cause is usually a wrong option.
  private static func failure(_ reason: DeviceDisconnection) -> CommandFailure {
    switch reason {
    case .refused:
      CommandFailure(
        .failed, "\(reason)",
        remedy: "Did this service's device authority issue the certificate, and is it not revoked?")
    case .tls(.alertReceived):
      CommandFailure(
        .failed, "\(reason)", remedy: "The service rejects the device's certificate.")
    case .tls(.certificateRejected):
      CommandFailure(
        .unavailable, "\(reason)",
        remedy:
          "Is --authority the authority of this service, and does its certificate name the host of --to?"
      )
    default: CommandFailure(.unavailable, "\(reason)")
    }
  }

  // MARK: The certificate

  func deviceConnection(
    _ connection: DeviceConnection, renewed identity: DeviceIdentity
  ) -> TLSContext? {
    do {
      guard let context = try renewal?(identity) else { return nil }
      let expires = identity.expirationSeconds ?? 0
      if isJSON {
        Output.json(.members(["event": .string("renewed"), "expires": .integer(expires)]))
      }
      log(.notice, "certificate renewed", .text("until", Log.timestamp(expires * 1000)))
      return context
    } catch {
      self.deviceConnection(connection, notRenewed: "\(error)")
      return nil
    }
  }

  func deviceConnection(_ connection: DeviceConnection, notRenewed reason: String) {
    log(.warning, "certificate not renewed", .text("reason", reason))
  }

  // MARK: Tokens

  func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for topic: TopicHash
  ) {
    guard let name = names[topic] else { return }
    guard let token else {
      return fail(
        CommandFailure(
          .failed, "the service issues no token for \(name)", remedy: "Is it an app of the service?"
        )
      )
    }
    tokens[topic] = token
    if isJSON {
      Output.json(
        .members([
          "event": .string("token"), "topic": .string(name), "token": .string(token.hex),
        ]))
    } else {
      Output.standard("\(name)  \(token.hex)\n")
    }
    if tokens.count == Set(topics).count { writeTokens() }
  }

  private func writeTokens() {
    guard let path = invocation[ApusOptions.tokenFile] else { return }
    let lines = hashes.compactMap { tokens[$0] }.map { $0.hex + "\n" }
    do throws(FileError) {
      try Files.write(lines.joined(), to: path, isPrivate: true)
    } catch {
      fail(invocation.failure(.failed, about: ApusOptions.tokenFile, "\(error)"))
    }
  }

  // MARK: Channels

  func deviceConnection(
    _ connection: DeviceConnection, confirmed confirmation: CourierChannelConfirmation
  ) {
    guard let channels else { return }
    do throws(CommandFailure) {
      try channels.check(confirmation)
    } catch {
      return fail(error)
    }
    for id in channels.ids {
      if isJSON {
        Output.json(
          .members([
            "event": .string("subscribed"), "topic": .string(channels.topic),
            "channel": .string(id),
          ]))
      } else {
        Output.standard("\(id)  subscribed\n")
      }
    }
  }

  // MARK: Notifications

  func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>, channelID: Span<UInt8>
  ) -> DeviceVerdict {
    // The service keeps the notifications after the last one wanted.
    guard !isStopping else { return .decline }
    let channel = channelID.isEmpty ? nil : ListenedChannels.text(channelID)
    show(
      notification, payload: payload.text, collapseID: collapseID.text, channel: channel)
    if let topic = names[notification.topic] { activities.receive(payload, topic: topic) }
    received += 1
    if received == limit { stop() }
    return .acknowledge
  }

  private func show(
    _ notification: CourierNotification, payload: String, collapseID: String, channel: String?
  ) {
    let topic = names[notification.topic]
    let isFromStorage = notification.storage.contains(.fromStorage)
    let sent = notification.sentNanoseconds.map { Int64(clamping: $0 / 1_000_000) }
    guard isJSON else {
      let time = Log.timestamp(sent ?? EventLoop.wallClockMilliseconds())
      let shown = Presentation(payload: Array(payload.utf8), strings: strings)
      let texts = [
        shown?.title, shown?.subtitle, shown?.body, shown?.actionTitle.map { "[\($0)]" },
        shown?.launchImage.map { "launch image: \($0)" },
      ]
      let card = NotificationCard(
        topic: topic ?? "(unknown topic)", texts: texts.compactMap(\.self), payload: payload,
        isFromStorage: isFromStorage, channel: channel, time: time)
      return Output.standard(card.text(columns: Process.columns))
    }
    Output.json(
      .members([
        "event": .string("notification"), "topic": topic.map(JSONValue.string),
        "token": .string(notification.token.hex),
        "apns_id": (notification.id?.text).map(JSONValue.string),
        "push_type": (notification.pushType?.name.description).map(JSONValue.string),
        "priority": notification.priority.map { .integer(Int64($0.rawValue)) },
        "expiration": notification.expirySeconds.map { .integer(Int64($0)) },
        "collapse_id": collapseID.isEmpty ? nil : .string(collapseID),
        "channel": channel.map(JSONValue.string),
        "sent_milliseconds": sent.map(JSONValue.integer),
        "from_storage": .bool(isFromStorage),
        "payload": JSONValue(text: payload) ?? .string(payload),
      ]))
  }
}
