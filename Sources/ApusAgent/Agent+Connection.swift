package import ApusDevice
import ApusLog
import ApusLoop
package import ApusModel
package import ApusTLS
package import ApusWire

// The connection: topics, tokens, notifications, and how long it may be silent.

extension Agent: DeviceConnectionDelegate, DispatcherHost {
  /// Sends the service what changed: topics, and how often it hears from the agent.
  func updateConnection() {
    guard let connection else { return }
    let paused = dispatcher.pausedTopics()
    var topics = CourierTopics()
    for topic in dispatcher.rules.keys.sorted() {
      if paused.contains(topic) {
        topics.paused.append(Self.hash(topic))
      } else {
        topics.enabled.append(Self.hash(topic))
      }
    }
    if topics != sentTopics {
      sentTopics = topics
      connection.setTopics(topics)
    }
    for topic in dispatcher.rules.keys.sorted()
    where tokens[topic] == nil && !unknownTopics.contains(topic) {
      _ = connection.requestToken(Self.hash(topic))
    }
    let interval = UInt64(search.intervalSeconds) * 1000
    connection.keepAliveMilliseconds =
      dispatcher.deliveries.isEmpty ? interval : min(interval, Self.holdingMilliseconds)
  }

  // MARK: Events

  package func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64
  ) {
    connectedCount += 1
    log(
      .info, "connected", .text("device", deviceID ?? ""), .text("network", network),
      .text(
        "service",
        connection.hintedAddress ?? services[connection.addressIndex].description),
      .number("keep_alive_s", search.intervalSeconds))
    state = .connected
    if isNewToken, connectedCount > 1 { tokens = [:] }
    unknownTopics = []
    if let lost = lostAfterSeconds {
      // The network and the service are fine: it was the silence that ended the connection.
      lostAfterSeconds = nil
      if connection.addressIndex == addressIndex, search.lost(afterSeconds: lost) {
        searchChanged()
      }
    }
    addressIndex = connection.addressIndex
    updateConnection()
  }

  package func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?
  ) {
    if case .stopped = reason { return loop.stop() }
    let isRefused = retryMilliseconds == nil && state != .stopping
    log(
      isRefused ? .error : .notice, "disconnected", .text("reason", "\(reason)"),
      .number("retry_ms", retryMilliseconds ?? (isRefused ? Self.refusedRetryMilliseconds : 0)))
    if state != .stopping { state = .connecting("\(reason)") }
    if isRefused {
      after(Self.refusedRetryMilliseconds) { [weak self] in self?.connection?.start() }
    }
    guard let silence = connection.lostAfterMilliseconds else { return }
    // Only a full interval of silence says something about it, not a probe after a change of the network.
    let seconds = Int(clamping: (silence + 500) / 1000)
    lostAfterSeconds = seconds >= search.intervalSeconds ? seconds : nil
  }

  package func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>, channelID: Span<UInt8>
  ) -> DeviceVerdict {
    guard let topic = names[notification.topic] else { return .decline }
    return dispatcher.receive(
      Arrival(
        notification, topic: topic, payload: payload.copied(),
        collapseID: collapseID.isEmpty ? nil : collapseID.text))
  }

  package func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for hash: TopicHash
  ) {
    guard let topic = names[hash] else { return }
    let waiting = tokenWaiters.removeValue(forKey: topic) ?? []
    if let token {
      tokens[topic] = token.hex
      for client in waiting { client.send(registered(topic)) }
      return
    }
    unknownTopics.insert(topic)
    log(.warning, "the service has no app of this topic", .text("topic", topic))
    for client in waiting {
      client.refuse(AgentFault("the service has no app of the topic \(topic)"))
    }
    // Otherwise a program could fill the list with topics that never existed.
    if registrations.remove(topic, user: nil) {
      save("registrations", registrations.text)
      useRules()
      updateConnection()
    }
  }

  package func deviceConnection(
    _ connection: DeviceConnection, renewed identity: DeviceIdentity
  ) -> TLSContext? { keep(identity) }

  package func deviceConnection(_ connection: DeviceConnection, notRenewed reason: String) {
    log(.warning, "certificate not renewed", .text("reason", reason))
  }

  package func deviceConnection(
    _ connection: DeviceConnection, answeredAfterMilliseconds silence: UInt64
  ) {
    let changed = search.answered(afterSeconds: Int(clamping: silence / 1000))
    guard changed || !unknownTopics.isEmpty else { return }
    unknownTopics = []
    if changed { searchChanged() } else { updateConnection() }
  }

  private func searchChanged() {
    networks.remember(search, of: network)
    save("networks", networks.text)
    log(
      .info, "keep-alive changed", .number("keep_alive_s", search.intervalSeconds),
      .text("network", network), .truth("settled", search.isSettled))
    updateConnection()
  }

  // MARK: The network and the clock

  func networkChanged(_ name: String) {
    if name != network {
      network = name
      search = networks.search(name, bounds: configuration.keepAlive)
      lostAfterSeconds = nil
      updateConnection()
    }
    verify("the network changed")
  }

  /// Something happened that the connection may not have survived.
  package func verify(_ reason: String) {
    guard state != .stopping else { return }
    log(.debug, "checks the connection", .text("reason", reason), .text("network", network))
    connection?.verify(answerMilliseconds: Self.verifyMilliseconds)
  }

  // MARK: The dispatcher

  func acknowledge(_ arrival: Arrival) { connection?.acknowledge(arrival.messageID) }

  func dispatcherChanged() { updateConnection() }
}
