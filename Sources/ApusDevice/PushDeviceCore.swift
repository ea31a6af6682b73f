import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

/// The part of a `PushDevice` on its loop.
final class PushDeviceCore: DeviceConnectionDelegate, @unchecked Sendable {
  typealias TokenContinuation = CheckedContinuation<DeviceToken, any Error>

  static let dialect = CourierALPN.apus

  private(set) var connection: DeviceConnection?
  private let acknowledgesAutomatically: Bool
  private let keepIdentity: (@Sendable (DeviceIdentity) throws -> Void)?
  private let makeContext: (DeviceIdentity) throws(TLSError) -> TLSContext
  private let notifications: AsyncStream<ReceivedNotification>.Continuation
  private let events: AsyncStream<DeviceEvent>.Continuation
  /// The names for the hashes of all topics that were listed or requested.
  private var names: [TopicHash: String] = [:]
  private var waiting: [TopicHash: [(request: TokenRequest, continuation: TokenContinuation)]] = [:]
  private var channels = ChannelWaiters()
  private var whenStopped: [() -> Void] = []
  private var isOver = false

  init(
    loop: EventLoop, configuration: DeviceConfiguration, context: TLSContext, renewal: RenewalPlan?,
    notifications: AsyncStream<ReceivedNotification>.Continuation,
    events: AsyncStream<DeviceEvent>.Continuation
  ) {
    acknowledgesAutomatically = configuration.acknowledgesAutomatically
    keepIdentity = configuration.keepIdentity
    makeContext = configuration.context
    self.notifications = notifications
    self.events = events
    let connection = DeviceConnection(
      shared: DeviceLoop(loop: loop),
      configuration: .init(
        endpoint: configuration.endpoint, alternatives: configuration.otherAddresses,
        context: context,
        client: .init(
          dialect: Self.dialect,
          keepAliveMilliseconds: UInt64(configuration.keepAliveSeconds) * 1000), renewal: renewal),
      baseToken: configuration.baseToken,
      seed: randomBytes(8).reduce(0) { $0 << 8 | UInt64($1) }, delegate: self)
    self.connection = connection
    setTopics(configuration.topics)
  }

  // MARK: Operations

  func setTopics(_ topics: DeviceTopics) {
    connection?.setTopics(
      CourierTopics(
        enabled: topics.enabled.map(hash), ignored: topics.ignored.map(hash),
        opportunistic: topics.opportunistic.map(hash), paused: topics.paused.map(hash),
        nonWaking: topics.nonWaking.map(hash)))
  }

  /// Bounds the table of names: if an application keeps listing new topics, old ones appear as their hash.
  private static let nameLimit = 4 * Limits.courierFilterTopics

  private func hash(_ topic: String) -> TopicHash {
    let hash = TopicHash(of: Array(topic.utf8).span)
    if names.count < Self.nameLimit { names[hash] = topic }
    return hash
  }

  func requestToken(
    _ topic: String, _ request: TokenRequest, _ continuation: TokenContinuation
  ) {
    guard !isOver else { return continuation.resume(throwing: PushDevice.stopped) }
    guard !request.isCancelled else {
      return continuation.resume(throwing: CancellationError())
    }
    let hash = hash(topic)
    guard connection?.requestToken(hash) == true else {
      return continuation.resume(
        throwing: DeviceError(.tooManyRequests, "too many token requests are pending"))
    }
    waiting[hash, default: []].append((request, continuation))
  }

  func cancel(_ request: TokenRequest) {
    // The cancellation may arrive before the request, or after its answer.
    request.isCancelled = true
    for (topic, requests) in waiting {
      guard let index = requests.firstIndex(where: { $0.request === request }) else { continue }
      let continuation = waiting[topic]?.remove(at: index).continuation
      if waiting[topic]?.isEmpty == true { waiting[topic] = nil }
      continuation?.resume(throwing: CancellationError())
      return
    }
  }

  // MARK: Channels

  func change(
    _ change: CourierSubscriptions, _ ticket: ChannelTicket,
    _ continuation: ChannelWaiters.Continuation
  ) {
    guard !isOver else { return continuation.resume(throwing: PushDevice.stopped) }
    guard !ticket.isCancelled else { return continuation.resume(throwing: CancellationError()) }
    guard channels.add(change, ticket, continuation) else {
      return continuation.resume(
        throwing: DeviceError(.tooManyRequests, "too many changes of subscriptions are pending"))
    }
    sendNextChange()
  }

  func cancel(_ ticket: ChannelTicket) {
    // The cancellation may arrive before the request, or after its answer.
    ticket.isCancelled = true
    channels.cancel(ticket)
  }

  private func sendNextChange() {
    channels.sendNext { connection?.subscribe($0) }
  }

  func deviceConnection(
    _ connection: DeviceConnection, confirmed confirmation: CourierChannelConfirmation
  ) {
    channels.confirm(confirmation)
    sendNextChange()
  }

  func stop(_ completion: @escaping () -> Void) {
    guard let connection, !isOver else { return completion() }
    whenStopped.append(completion)
    if connection.stage == .idle { finish() } else { connection.stop() }
  }

  /// Ends everything without further output.
  func cut() { finish() }

  /// Ends the streams and all waiting requests.
  func finish() {
    guard !isOver else { return }
    isOver = true
    failRequests(PushDevice.stopped)
    notifications.finish()
    events.finish()
    connection = nil
    let completions = whenStopped
    whenStopped = []
    for completion in completions { completion() }
  }

  private func failRequests(_ error: DeviceError) {
    channels.fail(error)
    let requests = waiting.values.joined()
    waiting = [:]
    for (_, continuation) in requests { continuation.resume(throwing: error) }
  }

  // MARK: Input from the service

  func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64
  ) {
    events.yield(
      .connected(
        baseToken: token, isNewToken: isNewToken, serverMilliseconds: serverMilliseconds))
  }

  func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?
  ) {
    events.yield(
      .disconnected(reason: reason.description, retryMilliseconds: retryMilliseconds))
    if case .stopped = reason { return finish() }
    if retryMilliseconds == nil { failRequests(DeviceError(.refused, reason.description)) }
  }

  func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>, channelID: Span<UInt8>
  ) -> DeviceVerdict {
    let received = ReceivedNotification(
      notification, topic: names[notification.topic] ?? notification.topic.hex,
      payload: payload.copied(), collapseID: collapseID.isEmpty ? nil : collapseID.text,
      channel: channelID.isEmpty
        ? nil : String(decoding: Base64.encode(channelID), as: UTF8.self))
    guard case .enqueued = notifications.yield(received) else { return .decline }
    return acknowledgesAutomatically ? .acknowledge : .hold
  }

  func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for topic: TopicHash
  ) {
    for (_, continuation) in waiting.removeValue(forKey: topic) ?? [] {
      if let token {
        continuation.resume(returning: token)
      } else {
        let name = names[topic] ?? topic.hex
        continuation.resume(
          throwing: DeviceError(.tokenRefused, "the service has no app of the topic \(name)"))
      }
    }
  }

  func deviceConnection(
    _ connection: DeviceConnection, renewed identity: DeviceIdentity
  ) -> TLSContext? {
    do {
      let context = try makeContext(identity)
      try keepIdentity?(identity)
      events.yield(.renewed(identity))
      return context
    } catch {
      events.yield(.notRenewed(reason: "\(error)"))
      return nil
    }
  }

  func deviceConnection(_ connection: DeviceConnection, notRenewed reason: String) {
    events.yield(.notRenewed(reason: reason))
  }

  func deviceConnectionFoundNothingStored(_ connection: DeviceConnection) {
    events.yield(.nothingStored)
  }
}

extension TopicHash {
  /// 40 lower-case hexadecimal digits.
  fileprivate var hex: String {
    let bytes = (0..<Self.byteCount).map { self[$0] }
    return String(decoding: Hex.encode(bytes.span), as: UTF8.self)
  }
}
