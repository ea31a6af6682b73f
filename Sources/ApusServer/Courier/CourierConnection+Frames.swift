import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusTrust
import ApusWire

extension CourierConnection {
  // MARK: Filter and tokens

  /// Returns whether the filter counts.
  func filter(_ filter: CourierFilter, _ device: Device) -> Bool {
    // "Filter's token must be the connection's, else ignore and count."
    guard filter.token == nil || filter.token == baseToken else {
      skippedFrames += 1
      return false
    }
    var lists: [TopicKey: TopicState] = [:]
    for list in CourierTopicList.allCases {
      for hash in filter[list] {
        // A topic of no app of this service: nothing can ever be sent under it.
        guard let topic = context.trust.directory.topic(hash) else { continue }
        // "Duplicate hash in several lists: most restrictive wins."
        lists[topic] = max(lists[topic] ?? .enabled, list.state)
      }
    }
    shard.filter(device, lists: lists)
    looksForBroadcasts = true
    if stage == .awaitingFilter { takeUpSubscriptions(device) }
    if stage != .over { stage = .serving }
    return true
  }

  private func takeUpSubscriptions(_ device: Device) {
    do {
      try shard.subscriptions.connect(device.key, slot: connection.slot)
    } catch {
      context.logUnreadable(.record, of: device.key.id, error)
      end(reason: "the service cannot read its store")
    }
  }

  func appToken(_ request: CourierAppTokenRequest, _ device: Device) {
    guard tokenAnswers.count < Limits.courierFilterTopics else {
      return end(reason: "too many token requests at once")
    }
    var answer = CourierAppTokenAnswer(
      status: Self.tokenRefused, token: nil, topic: request.topic, appID: request.appID)
    // "Only for the connection's own base token."
    if request.token == nil || request.token == baseToken,
      let topic = context.trust.directory.topic(request.topic)
    {
      let generation = shard.generationForToken(of: topic, on: device)
      answer.status = 0
      answer.token = context.sealer.seal(
        TokenClaims(
          device: device.key.id, topic: topic, environment: device.key.environment,
          generation: generation))
    }
    tokenAnswers.append((device.recordVersion, answer))
  }

  static let tokenRefused: UInt8 = 1

  // MARK: Smaller frames

  func keepAlive(_ keepAlive: CourierKeepAlive, _ device: Device) {
    let now = Int64(context.loop.nowMilliseconds)
    guard Self.keepAliveLimit.take(from: &keepAlives, atMilliseconds: now) else {
      context.ended.count(.keepAlives)
      return end(reason: "more than one keep-alive per second")
    }
    if let minutes = keepAlive.intervalMinutes, minutes > 0 {
      // Twice the announced interval and a minute, and no longer than a day.
      let seconds = min(UInt64(minutes) * 120 + 60, 86_400)
      let isNew = seconds != idleSeconds
      idleSeconds = seconds
      if isNew { keepSession() }
    }
    CourierKeepAlive.encodeAnswer(to: &output)
    shard.keepAlive(device)
    (radioIsInUse, looksForBroadcasts) = (true, true)
  }

  /// Messages from a device to the service are not for us; each is acknowledged, so that its sender does not repeat it.
  func message(_ fields: Span<UInt8>) throws(CourierFault) {
    let view = try CourierNotificationView(
      decoding: fields, direction: .toServer, extensions: dialect.allowsExtensions)
    CourierAcknowledgement(
      token: baseToken, messageID: view.notification.messageID,
      status: stage == .awaitingFilter ? .tooEarly : .taken
    ).encode(to: &output)
  }

  /// Tells a device that nothing waits for it.
  func nothingStored() {
    CourierNoStorage(token: baseToken).encode(to: &output)
    connection.markDirty()
  }
}

extension CourierTopicList {
  /// The list as the mailbox rules know it.
  var state: TopicState {
    switch self {
    case .enabled: .enabled
    case .ignored: .ignored
    case .opportunistic: .opportunistic
    case .paused: .paused
    case .nonWaking: .nonWaking
    }
  }
}
