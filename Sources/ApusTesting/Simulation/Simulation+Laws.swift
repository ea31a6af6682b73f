import ApusModel
import ApusServer
import ApusStore

// What must hold at any time, and at the end.

extension Simulation {
  /// Something was acknowledged: calls `completion` when it can no longer return. A service that has ended a connection
  /// still reads input, but ignores it.
  func settle(isCurrent: @escaping () -> SimulatedLink?, completion: @escaping () -> Void) {
    // A process that was taken over from, and has not noticed, hears of it and can remove nothing.
    guard cluster?.hasFenced != true else { return }
    let generation = server.generation
    func look(_ attempts: Int) {
      timeline.after(seconds: 4) { [self] in
        guard let link = isCurrent(), !link.isCut, server.generation == generation,
          server.state == .up
        else { return }
        let isTakenIn =
          link.toService.inFlightBytes == 0 && link.toService.unreadBytes == 0
          && !link.toPeer.hasEnded && server.isServing && server.service?.isSettled == true
          && cluster?.isAtRest(for: link) ?? true
        if isTakenIn { completion() } else if attempts > 1 { look(attempts - 1) }
      }
    }
    look(5)
  }

  func watchClock() {
    timeline.after(seconds: 1) { [weak self] in
      guard let self else { return }
      oracle.clockMoved()
      broadcasts.secondPassed()
      relay.clockMoved()
      checkOnline()
      checkLimits()
      watchClock()
    }
  }

  /// A device that has been online and acknowledging for a minute has everything accepted before.
  private func checkOnline() {
    guard !isCalm else { return }
    let since = timeline.now - min(timeline.now, Self.onlineSeconds * Timeline.second)
    guard wasUntroubled(since: since, server.generation), server.upSince < since else { return }
    for device in devices {
      for app in device.states.indices where device.isAttentive(app, since: since) {
        oracle.expect(device: device.index, app: app, acceptedBefore: since)
      }
    }
  }

  private static let onlineSeconds: UInt64 = 60

  /// The service runs again: soon every earlier end must be on the disk, or the notification still stored.
  func checkLedgerSoon() {
    let generation = server.generation
    timeline.after(seconds: 5) { [weak self] in
      guard let self, server.generation == generation, server.keepsLedger else { return }
      guard wasUntroubled(since: timeline.now - 4 * Timeline.second, generation) else {
        return checkLedgerSoon()
      }
      for order in ledger.missing(disk.image) {
        oracle.violated(
          .ledger, "the ledger has no end for the notification with order \(order)")
      }
    }
  }

  /// Checks a provider that has waited for an answer since then, over that connection. A cut between its node and the
  /// one that decides is no reason to wait: the answer is 503.
  func checkPromptness(since time: UInt64, over link: SimulatedLink?) {
    let quiet = timeline.now - min(timeline.now, Self.longestAnswer)
    guard time < quiet, server.upSince < quiet,
      wasUntroubledButForLinks(since: quiet, server.generation),
      server.isServing, !network.isDown, let link, link.isServiceOpen, !link.isServiceGone,
      !link.isCut, link.toService.inFlightBytes == 0
    else { return }
    oracle.violated(
      .promptness,
      "connection \(link.number) of a provider has had no answer for "
        + "\((timeline.now - time) / Timeline.second) s")
  }

  private static let turnsPerSecond = 10_000

  /// Laws 3 and 4, as far as they are visible from outside.
  private func checkLimits() {
    let count = server.host.turnCount
    // Another machine counts from the beginning.
    let turns = count < countedTurns ? 0 : count - countedTurns
    countedTurns = count
    // A few turns for each event, and there are far fewer than thousands of events a second.
    if turns > Self.turnsPerSecond {
      oracle.violated(.idleness, "the workers took \(turns) turns in a second")
    }
    guard let service = server.service else { return }
    // The sum is expensive.
    if timeline.now / Timeline.second % 60 == 0,
      let topic = service.topicCounters().first(where: { !$0.isBalanced })
    {
      oracle.violated(
        .counters,
        "of app \(topic.topic.app.rawValue) \(topic.accepted) were accepted, "
          + "\(topic.ended) have ended, \(topic.pending) are pending")
    }
    let extent = service.extent()
    // A record and the frame that did not fit into it may be added.
    if extent.unsentBytes > Limits.outputHighWaterBytes + 65_536 {
      oracle.violated(.bounds, "\(extent.unsentBytes) bytes wait for one peer")
    }
    if extent.openRequests > Limits.openRequests {
      oracle.violated(.bounds, "\(extent.openRequests) requests are open")
    }
  }

  func judge() {
    for device in devices {
      if !device.isConnected {
        oracle.violated(.protocols, "device \(device.index) cannot connect")
      }
      if !device.hasAllTokens {
        oracle.violated(.protocols, "device \(device.index) waits for a token")
      }
      if device.subscriber.isWaiting {
        oracle.violated(
          .subscriptions, "device \(device.index) waits for a confirmation of its channels")
      }
    }
    oracle.checkMailbox(waiting)
  }

  /// The serial numbers of stored notifications; the payload is the end of a record.
  var waiting: [Int] {
    disk.mailboxRows().map { SimulationPayload.serial(of: $0.value.span) ?? -1 }
  }

  /// Checks some writes, since counting is expensive, and all writes soon after a disk fault.
  func checkStoredNowAndThen() {
    writeCount += 1
    let isAfterFault =
      disk.faultCount > 0 && timeline.now < disk.troubledUntil + 2 * Timeline.second
    if writeCount % 20 == 0 || isAfterFault { checkStored() }
  }

  /// Compares the stored notifications with the counters next to them, which a crash now would leave together.
  func checkStored() {
    var stored: [FeedbackTopic: Int64] = [:]
    for row in disk.mailboxRows() {
      guard let place = try? MailboxKey(decoding: row.key.span) else { continue }
      stored[FeedbackTopic(topic: place.topic, environment: place.environment), default: 0] += 1
    }
    // Notifications held only by a session are pending as well, while their trace exists.
    for row in (try? disk.image.readSuperseded()) ?? [] {
      let place = FeedbackTopic(topic: row.facts.topic, environment: row.facts.environment)
      stored[place, default: 0] += 1
    }
    let spool = RelayedRecord.Key.prefix
    try? disk.image.scan(.relay, prefix: spool.span) { key, value in
      if let place = try? RelayedRecord.Key(decoding: key),
        let record = try? RelayedRecord(decoding: value)
      {
        let topic = TopicKey(app: place.app, suffix: record.fields.suffix)
        stored[FeedbackTopic(topic: topic, environment: place.environment), default: 0] += 1
      }
      return true
    }
    let counters = ((try? disk.image.readCounters()) ?? []).map(\.counters).added()
    for topic in counters {
      let place = FeedbackTopic(topic: topic.topic, environment: topic.environment)
      let count = stored.removeValue(forKey: place) ?? 0
      let pending = topic.pendingInStore
      if pending != count || !topic.isBalanced {
        oracle.violated(
          .counters,
          "of app \(topic.topic.app.rawValue) \(count) would be stored after a crash, "
            + "\(pending) counted as pending, \(topic.accepted) as accepted, "
            + "\(topic.ended) as ended")
      }
    }
    if !stored.isEmpty { oracle.violated(.counters, "stored notifications are not counted") }
  }

  /// Checks that nothing is pending any more.
  func checkPending() {
    for topic in server.service?.topicCounters() ?? [] where topic.pending != 0 {
      oracle.violated(
        .counters,
        "of app \(topic.topic.app.rawValue) nothing waits, but \(topic.pending) are pending")
    }
    checkStored()
  }

  /// Whether the service could answer every request in time and correctly since then.
  func wasUntroubled(since time: UInt64, _ generation: Int) -> Bool {
    wasUntroubledButForLinks(since: time, generation) && linksCutUntil < time
  }

  private func wasUntroubledButForLinks(since time: UInt64, _ generation: Int) -> Bool {
    server.state == .up && server.generation == generation
      // After a fault, each worker asks within a second for what it needs to accept notifications.
      && max(
        troubledUntil, diskTroubledUntil, disk.troubledUntil + Timeline.second, disk.slowUntil)
        < time
  }
}
