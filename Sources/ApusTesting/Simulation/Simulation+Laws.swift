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
    let generation = generation
    func look(_ attempts: Int) {
      timeline.after(seconds: 4) { [self] in
        guard let link = isCurrent(), !link.isCut, self.generation == generation, areUp else {
          return
        }
        let isTakenIn =
          link.toService.inFlightBytes == 0 && link.toService.unreadBytes == 0
          && !link.toPeer.hasEnded && areServing
          && parts.allSatisfy { $0.server.service?.isSettled == true }
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
      for part in parts { part.checkLimits() }
      watchClock()
    }
  }

  /// A device that has been online and acknowledging for a minute has everything accepted before.
  private func checkOnline() {
    guard !isCalm else { return }
    let since = timeline.now - min(timeline.now, Self.onlineSeconds * Timeline.second)
    guard wasUntroubled(since: since) else { return }
    for device in devices {
      for app in device.states.indices where device.isAttentive(app, since: since) {
        oracle.expect(device: device.index, app: app, acceptedBefore: since)
      }
    }
  }

  private static let onlineSeconds: UInt64 = 60

  /// Checks a provider that has waited for an answer since then, over that connection. A cut between its node and the
  /// one that decides is no reason to wait: the answer is 503.
  func checkPromptness(since time: UInt64, over link: SimulatedLink?) {
    let quiet = timeline.now - min(timeline.now, Self.longestAnswer)
    guard time < quiet, upSince < quiet, wasUntroubledButForLinks(since: quiet, generation),
      areServing, !network.isDown, let link, link.isServiceOpen, !link.isServiceGone,
      !link.isCut, link.toService.inFlightBytes == 0
    else { return }
    oracle.violated(
      .promptness,
      "connection \(link.number) of a provider has had no answer for "
        + "\((timeline.now - time) / Timeline.second) s")
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
    parts.flatMap { part in
      part.disk.mailboxRows().map { SimulationPayload.serial(of: $0.value.span) ?? -1 }
    }
  }

  /// Whether the service has run since then, and could answer every request in time and correctly.
  func wasUntroubled(since time: UInt64) -> Bool {
    upSince < time && wasUntroubled(since: time, generation)
  }

  /// Whether the service of that generation could answer every request in time and correctly since then.
  func wasUntroubled(since time: UInt64, _ generation: Int) -> Bool {
    wasUntroubledButForLinks(since: time, generation) && linksCutUntil < time
  }

  private func wasUntroubledButForLinks(since time: UInt64, _ generation: Int) -> Bool {
    areUp && self.generation == generation
      // After a fault, each worker asks within a second for what it needs to accept notifications.
      && max(
        troubledUntil, diskTroubledUntil, diskFaultsUntil + Timeline.second, disksSlowUntil)
        < time
  }
}
