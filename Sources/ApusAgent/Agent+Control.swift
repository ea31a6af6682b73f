import ApusLog
import ApusLoop
import ApusWire

// What local programs may ask for.

extension Agent: ControlHost {
  func answer(_ request: ControlRequest, _ client: ControlClient) throws(AgentFault) -> JSONValue? {
    switch request {
    case .status: return status(client)
    case .tokens:
      let topics = dispatcher.rules.keys.sorted().filter { permissions.mayRead($0, client.user) }
      return .members([
        "op": .string("tokens"),
        "tokens": .array(
          topics.map { topic in
            .members([
              "topic": .string(topic), "token": tokens[topic].map(JSONValue.string) ?? .null,
            ])
          }),
      ])
    case .history(let count): return history(count, client)
    case .register(let topic): return try register(topic, client)
    case .unregister(let topic): return try unregister(topic, client)
    case .subscribe(let topic):
      guard permissions.mayRead(topic, client.user) else { throw Self.refusal(client, topic) }
      guard dispatcher.rules[topic]?.forward != nil else {
        throw AgentFault(
          "the notifications of \(topic) are not forwarded: register it, or add `forward` to agent.conf"
        )
      }
      client.send(
        .members([
          "op": .string("subscribed"), "topic": .string(topic),
          "token": tokens[topic].map(JSONValue.string) ?? .null,
        ]))
      dispatcher.reader.subscribe(client, to: topic)
      updateConnection()
      return nil
    case .unsubscribe(let topic):
      dispatcher.reader.unsubscribe(client, from: topic)
      updateConnection()
      return .members(["op": .string("unsubscribed"), "topic": .string(topic)])
    case .acknowledge(let id, let topic): return try acknowledge(id, topic, client)
    }
  }

  func clientLeft(_ client: ControlClient) {
    dispatcher.reader.remove(client)
    for topic in Array(tokenWaiters.keys) {
      tokenWaiters[topic]?.removeAll { $0 === client }
      if tokenWaiters[topic]?.isEmpty == true { tokenWaiters[topic] = nil }
    }
    updateConnection()
  }

  private static func refusal(_ client: ControlClient, _ topic: String) -> AgentFault {
    AgentFault("agent.conf does not allow user \(client.user) the topic \(topic)")
  }

  // MARK: Topics

  private func register(_ topic: String, _ client: ControlClient) throws(AgentFault) -> JSONValue? {
    let isConfigured = configuration.rule(for: topic) != nil
    let isAllowed =
      isConfigured
      ? permissions.mayRead(topic, client.user) : permissions.mayRegister(topic, client.user)
    guard isAllowed else {
      log(.debug, "registration refused", .text("topic", topic), .number("user", client.user))
      throw Self.refusal(client, topic)
    }
    if !isConfigured, try registrations.add(topic, user: client.user) {
      save("registrations", registrations.text)
      log(.info, "registered", .text("topic", topic), .number("user", client.user))
      useRules()
    }
    if tokens[topic] != nil { return registered(topic) }
    unknownTopics.remove(topic)
    if tokenWaiters[topic]?.contains(where: { $0 === client }) != true {
      tokenWaiters[topic, default: []].append(client)
    }
    updateConnection()
    return nil
  }

  func registered(_ topic: String) -> JSONValue {
    .members([
      "op": .string("registered"), "topic": .string(topic),
      "token": tokens[topic].map(JSONValue.string) ?? .null,
    ])
  }

  private func unregister(_ topic: String, _ client: ControlClient) throws(AgentFault) -> JSONValue
  {
    let everybody = permissions.isAdministrator(client.user)
    guard registrations.remove(topic, user: everybody ? nil : client.user) else {
      throw AgentFault("user \(client.user) has not registered \(topic)")
    }
    save("registrations", registrations.text)
    log(.info, "unregistered", .text("topic", topic), .number("user", client.user))
    useRules()
    updateConnection()
    return .members(["op": .string("unregistered"), "topic": .string(topic)])
  }

  private func acknowledge(
    _ id: String, _ topic: String?, _ client: ControlClient
  ) throws(AgentFault) -> JSONValue {
    func isMeant(_ other: some StringProtocol, of otherTopic: some StringProtocol) -> Bool {
      other == id && (topic == nil || otherTopic == topic ?? "")
        && permissions.mayRead(String(otherTopic), client.user)
    }
    let arrivals = dispatcher.deliveries.values.map(\.arrival)
      .filter { isMeant($0.id, of: $0.topic) }
    // What was acknowledged before is no error.
    let isKnown =
      !arrivals.isEmpty
      || dispatcher.file.record.newest(.max).contains { isMeant($0.id, of: $0.topic) }
    guard isKnown else { throw AgentFault("there is no notification \(id)") }
    for arrival in arrivals {
      dispatcher.acknowledged(arrival, by: "user \(client.user), process \(client.process)")
    }
    return .members(["op": .string("acknowledged"), "id": .string(id)])
  }

  // MARK: Reports

  private func status(_ client: ControlClient) -> JSONValue {
    .members([
      "op": .string("status"), "state": .string(state.name), "detail": .string(state.text),
      "service": .string(configuration.serviceText),
      "device": deviceID.map(JSONValue.string),
      "certificate_expires": certificateEnd.map(JSONValue.integer),
      "network": .string(network),
      "keep_alive_seconds": .integer(Int64(search.intervalSeconds)),
      "keep_alive_settled": .bool(search.isSettled),
      "topics": .integer(Int64(dispatcher.rules.count)),
      "paused": .array(dispatcher.pausedTopics().sorted().map(JSONValue.string)),
      "open": .integer(Int64(dispatcher.deliveries.count)),
      "running": .integer(Int64(dispatcher.commands.count)),
      "programs": .integer(Int64(server.clients.count)),
      "connections": .integer(Int64(connectedCount)),
    ])
  }

  private func history(_ count: Int, _ client: ControlClient) -> JSONValue {
    let entries = dispatcher.file.record.newest(dispatcher.file.record.capacity)
      .lazy.filter { self.permissions.mayRead(String($0.topic), client.user) }
      .prefix(count)
    return .members([
      "op": .string("history"),
      "notifications": .array(
        entries.map { entry in
          .members([
            "id": .string(String(entry.id)), "topic": .string(String(entry.topic)),
            "seconds": .integer(entry.seconds),
            "outcome": .string(entry.outcome ?? "open"),
          ])
        }),
    ])
  }
}
