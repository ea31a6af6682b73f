import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust
import ApusWire

/// What the devices ask of their worker.
protocol DeviceHost: DormantHost {
  /// Tells the device of a connection that nothing is stored for it.
  func nothingStored(at slot: Int32)
  /// Ends the connection of a device that was retired.
  func deviceRetired(at slot: Int32)
}

/// Carries out what the shard decides: reads and writes the store, and says which connections have something to send.
final class ShardDriver: @unchecked Sendable {
  let context: WorkerContext
  /// Strong; `dismantle` ends the cycle.
  var host: (any DeviceHost)? { didSet { memory.host = host } }
  let order: AcceptanceOrder
  let memory: DeviceMemory
  /// The channels of the devices.
  let subscriptions: Subscriptions
  private let memoryTotal: MemoryTotal
  var shard: Shard
  private var sealed: [(number: UInt64, entries: [GroupEntry])] = []
  private var freeEntryLists: [[GroupEntry]] = []
  var group: WriteGroup
  /// Memory for `write`.
  var record: [UInt8] = []
  var writeOrder: [WritePlace] = []
  private var lingerTimer: LoopTimer?
  private var gatheringTimer: LoopTimer?
  private var gathering = Gathering()
  private(set) var isStopping = false
  private var hasPausedProviders = false
  var ledger = WorkerLedger(
    writer: LedgerWriter(
      worker: 0, mode: .off, bounds: LedgerBounds(milliseconds: 0, bytes: 0),
      continuing: LedgerStart()))
  private var feedback = FeedbackNotes()
  /// Retired devices whose tokens and stored notifications are still to be dealt with.
  var retirements = RetirementQueue()

  /// - Parameter cacheByteCount: bytes of what is remembered of devices that are not connected.
  init(_ context: WorkerContext, cacheByteCount: Int) {
    self.context = context
    memory = DeviceMemory(context, byteCount: cacheByteCount)
    subscriptions = Subscriptions(context)
    order = context.shared.order
    memoryTotal = context.shared.memory
    shard = Shard(
      lingerMilliseconds: context.configuration.lingerMilliseconds,
      unregisterGraceMilliseconds: context.configuration.unregisterGraceSeconds * 1000,
      memoryBytes: context.configuration.memoryMegabytes << 20)
    let configuration = context.configuration
    shard.requestLimit =
      configuration.requestsPerTokenPerSecond > 0
      ? RateLimit(
        capacity: configuration.requestsPerToken, refill: configuration.requestsPerTokenPerSecond)
      : nil
    group = context.store.makeGroup()
    // The timer only has to begin a turn: every turn ends in `sealIfDue`.
    lingerTimer = LoopTimer(loop: context.loop) {}
    gatheringTimer = LoopTimer(loop: context.loop) {}
    shard.slots.retentions = context.trust.directory.retentions
    retirements.append(context.trust.directory.retirements.keys.filter(context.owns))
  }

  /// Nothing lingers any more: every group is written at once. True when nothing is left to write.
  func stop() -> Bool {
    isStopping = true
    lingerTimer?.stop()
    memory.stopReadingAhead()
    return isQuiet
  }

  func dismantle() {
    host = nil
    memory.stopReadingAhead()
    (lingerTimer, gatheringTimer) = (nil, nil)
  }

  // MARK: From providers

  func takeNotification() -> Notification {
    if shard.pool.freeNotificationCount == 0, let more = context.shared.notificationPool.take() {
      shard.pool.adopt(more)
    }
    return shard.pool.takeNotification()
  }

  /// Leaves to the other workers what this one will not need soon.
  private func returnSurplus() {
    while shard.pool.freeNotificationCount >= Self.mostFreeNotifications {
      context.shared.notificationPool.put(shard.pool.surrender(NotificationPool.batchCount))
    }
  }

  private static let mostFreeNotifications = 4 * NotificationPool.batchCount

  /// Returns the verdict where it is there at once; else it comes by `takeVerdicts`. Both clocks are the caller's, who
  /// knows them.
  func submit(
    _ notification: consuming Notification, _ answer: Answer, nowMilliseconds: Int64,
    loopMilliseconds: UInt64
  ) -> Verdict? {
    // Numbered by the device's owner, so that the order of acceptance is the order in which the shard decides.
    guard let order = order.next() else { return unavailable(notification, answer) }
    notification.order = order
    guard let device = device(toJudge: notification.claims) else {
      return unavailable(notification, answer)
    }
    let isLasting = notification.mayBeStored
    let verdict = shard.decide(
      notification, answer: answer, device: device, nowMilliseconds: nowMilliseconds,
      loopMilliseconds: loopMilliseconds)
    guard let verdict, isLasting || verdict.rejection != nil, context.isLeaseLapsed else {
      return verdict
    }
    // It goes by what this process remembers, and another one may know better by now.
    return Verdict(answer: answer, rejection: Rejection(.serviceUnavailable))
  }

  /// Nil where the store cannot tell, which is logged.
  private func device(toJudge claims: TokenClaims) -> Device? {
    do {
      return try memory.recall(judging: claims)
    } catch {
      context.logUnreadable(.record, of: claims.device, error)
      return nil
    }
  }

  private func unavailable(_ notification: consuming Notification, _ answer: Answer) -> Verdict {
    shard.pool.release(notification)
    return Verdict(answer: answer, rejection: Rejection(.serviceUnavailable))
  }

  /// Tries again what the store refused, and finds the tokens whose grace is over.
  func secondPassed() {
    order.refill()
    ledgerSecondPassed()
    shard.retry()
    while let dropped = shard.nextDropped(nowMilliseconds: context.wallMilliseconds) {
      do {
        shard.graceIsOver(
          dropped.topic, of: try memory.recall(dropped.device),
          nowMilliseconds: context.wallMilliseconds)
      } catch {
        // The next push to the token finds it dead.
        context.logUnreadable(.record, of: dropped.device.id, error)
      }
    }
    purgeRetired()
    subscriptions.secondPassed()
  }

  func takeVerdicts() -> [Verdict] { shard.verdicts }

  /// Whether a decision waits to be carried out.
  var hasWork: Bool {
    !shard.verdicts.isEmpty || !shard.drains.isEmpty || (!shard.dirty.isEmpty && !isGathering)
  }

  func clearVerdicts() { shard.verdicts.removeAll(keepingCapacity: true) }

  /// A push to a dead token, which its topic's feedback list will name.
  func noteDead(_ token: DeadToken) { shard.deadTokens.append(token) }

  // MARK: From devices

  func filter(_ device: Device, lists: [TopicKey: TopicState]) {
    shard.filter(device, lists: lists, nowMilliseconds: context.wallMilliseconds)
  }

  func generationForToken(of topic: TopicKey, on device: Device) -> UInt16 {
    shard.generationForToken(of: topic, on: device, nowMilliseconds: context.wallMilliseconds)
  }

  func acknowledge(_ device: Device, messageID: UInt32, status: UInt8) {
    guard
      let accepted = shard.acknowledge(
        device, messageID: messageID, status: status,
        loopMilliseconds: context.loop.nowMilliseconds)
    else { return }
    context.latencies.delivery.add(milliseconds: context.wallMilliseconds - accepted)
  }

  func acknowledgeWaiting(_ device: Device, messageID: UInt32, status: UInt8) -> Bool {
    shard.acknowledgeWaiting(device, messageID: messageID, status: status)
  }

  func setPower(_ power: PowerState, _ device: Device) {
    shard.setPower(power, device, loopMilliseconds: context.loop.nowMilliseconds)
  }

  func keepAlive(_ device: Device) {
    shard.radioIsInUse(device, loopMilliseconds: context.loop.nowMilliseconds)
  }

  /// A time that a session waits for has come.
  func deadlineReached(_ device: Device) {
    shard.deadlineReached(device, loopMilliseconds: context.loop.nowMilliseconds)
  }

  func nextToSend(_ device: Device) -> Delivery? {
    shard.nextToSend(
      device, nowSeconds: context.wallSeconds, loopMilliseconds: context.loop.nowMilliseconds)
  }

  /// Everything ready was sent: goes on with what waits in the store alone.
  func continueDrain(_ device: Device) { shard.continueDrain(device) }

  // MARK: The turn's end

  /// Fetches what is to be drained, and calls `write` with the slot of each connection that has something to send.
  func work(write: (Int32) -> Void) {
    while !shard.drains.isEmpty {
      let devices = shard.drains
      shard.drains.removeAll(keepingCapacity: true)
      for device in devices {
        if device.retiredMilliseconds != nil { purge(device) } else { drain(device) }
      }
    }
    guard mayWakeConnections() else { return }
    for device in shard.dirty {
      device.isDirty = false
      guard device.session != nil, device.connectionSlot >= 0 else { continue }
      write(device.connectionSlot)
    }
    shard.dirty.removeAll(keepingCapacity: true)
    shard.joinedCount = 0
  }

  /// Tells the other workers what the notifications here take, and learns what all take.
  func shareMemoryFigures() {
    shard.memory.learn(usedBytes: memoryTotal.adding(shard.memory.takeUnreported()))
  }

  /// Whether memory is too scarce to read more from a provider connection that has so many notifications undecided.
  func mustPause(undecided count: Int) -> Bool {
    guard count >= shard.memory.undecidedCount else { return false }
    hasPausedProviders = true
    return true
  }

  /// Whether a provider connection was not read because memory was scarce, since this was last asked.
  func takePauses() -> Bool {
    defer { hasPausedProviders = false }
    return hasPausedProviders
  }

  /// Whether notifications for devices wait for more of them.
  var isGathering: Bool { gathering.isOn }

  private func mayWakeConnections() -> Bool {
    let action = gathering.turnEnds(
      devices: shard.dirty.count, joined: shard.joinedCount,
      nowMilliseconds: context.loop.nowMilliseconds)
    if action == .beginToWait {
      gatheringTimer?.start(afterMilliseconds: Gathering.milliseconds)
    }
    return action == .send
  }

  // MARK: Group commit

  /// Seals the group that gathered when the previous one is written; sets the timer for what lingers.
  func sealIfDue() {
    returnSurplus()
    gatherLedger()
    for dead in shard.deadTokens {
      feedback.add(dead, token: dead.token ?? context.sealer.seal(dead.claims))
    }
    shard.deadTokens.removeAll(keepingCapacity: true)
    guard sealed.isEmpty else { return }
    shard.trimGroup()
    let now = context.loop.nowMilliseconds
    let isOtherDue = isLedgerDue || feedback.isDue(loopMilliseconds: now)
    guard !shard.isGroupEmpty || isOtherDue else { return }
    if isStopping || isOtherDue || shard.isGroupDue(nowMilliseconds: now) {
      seal()
    } else if lingerTimer?.isActive == false {
      lingerTimer?.start(afterMilliseconds: context.configuration.lingerMilliseconds)
    }
  }

  /// Whether everything that gathered is durable.
  var isQuiet: Bool {
    sealed.isEmpty && shard.isGroupEmpty && feedback.isEmpty && isLedgerQuiet
  }

  private func seal() {
    let isDoubtful = !settleDoubts()
    var entries = freeEntryLists.popLast() ?? []
    let number = shard.sealGroup(
      into: &entries, nowMilliseconds: context.loop.nowMilliseconds, all: isStopping)
    orderPuts(of: entries)
    loadStored(for: entries)
    let count = entries.count
    shard.slots.assign(&entries)
    write(entries, hasEvictions: entries.count > count)
    writeFeedback()
    writeLedger(entries)
    sealed.append((number, entries))
    let loop = context.loop
    guard !isDoubtful else {
      // The store may be back by now, and would take what contradicts what it has kept.
      group = context.store.makeGroup()
      return loop.perform { self.committed(.unavailable) }
    }
    context.store.commit(renewing: &group) { [self] error in
      loop.perform { self.committed(error) }
    }
  }

  private func writeFeedback() {
    let now = context.loop.nowMilliseconds
    guard feedback.isDue(loopMilliseconds: now) else { return }
    do {
      try feedback.seal(into: &group, store: context.store)
    } catch {
      _ = feedback.committed(succeeded: false, loopMilliseconds: now)
      context.log.limited(.error, .feedbackUnreadable, atMilliseconds: now) {
        [.text("reason", "\(error)")]
      }
    }
  }

  private func committed(_ error: StoreError?) {
    if let error {
      context.log.limited(.error, .groupRefused, atMilliseconds: context.loop.nowMilliseconds) {
        [.text("reason", "\(error)")]
      }
    }
    context.reportDead(
      feedback.committed(
        succeeded: error == nil, loopMilliseconds: context.loop.nowMilliseconds))
    ledgerCommitted(succeeded: error == nil)
    var (number, entries) = sealed.removeFirst()
    shard.committed(
      entries, number: number, succeeded: error == nil, isInDoubt: error?.isInDoubt ?? false)
    entries.removeAll(keepingCapacity: true)
    freeEntryLists.append(entries)
  }
}
