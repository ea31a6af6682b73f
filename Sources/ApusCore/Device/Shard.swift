package import ApusModel

/// The mailbox rules: every decision about the devices that one worker owns.
///
/// Calls go in, and results come out in `verdicts`, `dirty` and `drains`, which the driver empties after each turn. It
/// touches no socket, no disk and no clock.
///
/// Noncopyable for speed: across modules a nonmutating call would copy the value and retain every field.
package struct Shard: ~Copyable {
  /// Answers for providers.
  package var verdicts: [Verdict] = []
  /// Connected devices whose sessions may have something to send.
  package var dirty: [Device] = []
  /// How often a device in `dirty` was marked again.
  package var joinedCount = 0
  /// Devices whose stored notifications are to be read; listed once their pending writes are done.
  package var drains: [Device] = []
  /// Tokens found dead, for the feedback list; the driver empties it.
  package var deadTokens: [DeadToken] = []
  package private(set) var deadTokenPushes = DeadTokenPushes()
  package var ledger = ShardLedger()
  /// The slots of the store, and how many an app has.
  package var slots = SlotAssignment()
  /// Notifications and deliveries for reuse.
  package var pool = DeliveryPool()
  package internal(set) var sessions = SessionCounts()
  /// The memory of its notifications; a driver of several shards passes on the total.
  package var memory: DeliveryMemory
  /// The limit on requests to one device token; nil for none.
  package var requestLimit: RateLimit? = RateLimit(
    capacity: Limits.requestsPerToken, refill: Limits.requestsPerTokenPerSecond)
  /// Of the tokens of apps that had none: see `Registration.generationForToken`.
  package var firstGeneration: UInt16 = 1
  /// False for a canary of the simulation: see `Registration.apply` and `invalidate`.
  package var renewsListedTokens = true

  var group: CommitGroup
  let unregisterGraceMilliseconds: Int64
  /// The number of the gathering group; groups are written in order.
  var gatheringGroup: UInt64 = 1
  /// Devices whose drain waits for a group.
  var drainWaiters: [(group: UInt64, device: Device)] = []
  /// Topics that devices dropped, in order of time: their tokens die when the grace is over.
  var graces = GraceQueue()
  /// Slots whose content is unknown after a failed write.
  var doubts: [SlotInDoubt] = []
  /// Devices with an operation to retry after the disk failed.
  var retries: [Device] = []
  var released: [Delivery] = []

  package init(
    lingerMilliseconds: UInt64, unregisterGraceMilliseconds: Int64,
    memoryBytes: Int = Limits.memoryMegabytes << 20
  ) {
    memory = DeliveryMemory(limitBytes: memoryBytes)
    group = CommitGroup(lingerMilliseconds: lingerMilliseconds)
    self.unregisterGraceMilliseconds = unregisterGraceMilliseconds
  }

  // MARK: Reuse

  mutating func takeDelivery(_ notification: Notification, _ device: Device) -> Delivery {
    let delivery = pool.takeDelivery(notification, device)
    memory.take(delivery.byteCount)
    return delivery
  }

  mutating func releaseIfFree(_ delivery: Delivery) {
    guard delivery.isFree else { return }
    memory.give(delivery.byteCount)
    pool.release(delivery)
  }

  // MARK: From providers

  /// Accepts an admitted notification for `device`, or rejects it.
  ///
  /// The provider's answer comes through `verdicts`: at once if it is not stored, else when it is durable or the
  /// device has acknowledged it, whichever is first.
  package mutating func submit(
    _ notification: consuming Notification, answer: Answer, device: Device,
    nowMilliseconds: Int64, loopMilliseconds: UInt64
  ) {
    let verdict = decide(
      notification, answer: answer, device: device, nowMilliseconds: nowMilliseconds,
      loopMilliseconds: loopMilliseconds)
    if let verdict { verdicts.append(verdict) }
  }

  /// The same for a caller that can use the verdict directly: the result is the verdict if the notification ends, or
  /// is rejected, before it is queued anywhere; nil if it comes through `verdicts`.
  package mutating func decide(
    _ notification: consuming Notification, answer: Answer, device: Device,
    nowMilliseconds: Int64, loopMilliseconds: UInt64
  ) -> Verdict? {
    let standing = device.standing(
      of: notification.claims, nowMilliseconds: nowMilliseconds,
      graceMilliseconds: unregisterGraceMilliseconds)
    let state: TopicState
    switch standing {
    case .active(let current): state = current
    case .dead(let since):
      deadTokenPushes.count(
        notification.claims, deadSince: since, nowMilliseconds: nowMilliseconds)
      invalidate(notification.claims, of: device)
      return refuseDead(notification, answer, sinceMilliseconds: since)
    case .unknown:
      // A base token addresses any topic that the device has listed.
      guard notification.claims.generation != 0 else {
        return refuse(notification, answer, Rejection(.deviceTokenNotForTopic))
      }
      return refuseDead(notification, answer, sinceMilliseconds: nowMilliseconds)
    }
    if !takeRequest(notification.claims.topic, device, loopMilliseconds) {
      guard !notification.interface.refusesFloods else {
        return refuse(notification, answer, Rejection(.tooManyRequests))
      }
      verdicts.append(Verdict(answer: answer, notice: .flood))
    }
    if state == .ignored {
      ledger.record(.received, notification)
      return finishAtOnce(notification, answer, .discardedDisabled)
    }
    // It can neither be sent now nor be stored: no object is needed.
    if !notification.mayBeStored, !state.flows || device.session == nil {
      ledger.record(.received, notification)
      return finishAtOnce(
        notification, answer, .discardedNotStored, cause: reasonToWait(device, nil))
    }
    let delivery = takeDelivery(notification, device)
    delivery.answer = answer
    deliver(delivery, state: state, loopMilliseconds: loopMilliseconds)
    return nil
  }

  /// Whether the limit allows another request for the app's token; counts it.
  @inline(__always)
  private func takeRequest(
    _ topic: TopicKey, _ device: Device, _ loopMilliseconds: UInt64
  ) -> Bool {
    guard let requestLimit else { return true }
    return device.requests.take(
      requestLimit, of: topic, atMilliseconds: Int64(loopMilliseconds))
  }

  /// Ends a notification that must not be stored, for an offline device and without any other result: it needs not
  /// even an object. False if it must be submitted; then nothing was done.
  ///
  /// `facts` are the notification's. Its ids and its order are only for the ledger. An abridged device has no times,
  /// which are needed to tell whether a topic that is no longer listed is still within its grace.
  package mutating func discard(
    _ facts: NotificationFacts, claims: TokenClaims, device: Device, nowMilliseconds: Int64,
    loopMilliseconds: UInt64
  ) -> Bool {
    guard device.session == nil,
      case .active(let state) = device.standing(
        of: claims, nowMilliseconds: nowMilliseconds,
        graceMilliseconds: unregisterGraceMilliseconds),
      state != .ignored, !device.isAbridged || state != .unlisted,
      takeRequest(claims.topic, device, loopMilliseconds)
    else { return false }
    ledger.notePassing(
      .discardedNotStored, facts, causeCode: LedgerCause.deviceAway.rawValue)
    return true
  }

  private mutating func deliver(
    _ delivery: Delivery, state: TopicState, loopMilliseconds: UInt64
  ) {
    delivery.device.session?.queueBytes = memory.queueBytes
    let offer =
      state.flows
      ? delivery.device.session?.offer(
        delivery, state: state, nowMilliseconds: loopMilliseconds) : nil
    settle(delivery, offer, state: state, loopMilliseconds: loopMilliseconds)
  }

  /// Carries out the session's decision; `offer` is nil without a session, or if the topic is not delivered.
  mutating func settle(
    _ delivery: Delivery, _ offer: DeviceSession.Offer?, state: TopicState,
    loopMilliseconds: UInt64
  ) {
    let device = delivery.device
    let notification = delivery.notification
    let mayBeStored = notification.mayBeStored
    switch offer {
    case .heldBack?: return holdBack(delivery)
    case .refused(let reason)?: return refuse(delivery, reason)
    default: break
    }
    ledger.record(.received, notification)
    switch offer {
    case .queued?:
      let isDurableReplaced = replaceOlder(by: delivery)
      mark(dirty: device)
      if notification.priority == .immediate, state == .enabled {
        radioIsInUse(device, loopMilliseconds: loopMilliseconds)
      }
      if !mayBeStored {
        answer(delivery)
      } else if isDurableReplaced || !delivery.replacedAnswers.isEmpty {
        store(delivery, loopMilliseconds: loopMilliseconds)
      } else {
        group.put(delivery, urgent: false, nowMilliseconds: loopMilliseconds)
      }
    case .held?:
      _ = replaceOlder(by: delivery)
      ledger.record(.storedPowerConsiderations, notification)
      store(delivery, loopMilliseconds: loopMilliseconds)
      if device.session?.isHeldFull == true {
        sendHeldEarly(device, loopMilliseconds: loopMilliseconds)
      }
    default:
      guard mayBeStored else {
        answer(delivery)
        ledger.record(.discardedNotStored, notification, cause: reasonToWait(device, offer))
        return releaseIfFree(delivery)
      }
      ledger.record(.storedDeviceOffline, notification, cause: reasonToWait(device, offer))
      store(delivery, loopMilliseconds: loopMilliseconds)
    }
  }

  /// Ends waiting notifications that are replaced. Returns whether one of them is stored or being stored.
  ///
  /// A stored one is removed by the group that writes the newer one: written apart, a crash could leave neither.
  private mutating func replaceOlder(by newer: Delivery) -> Bool {
    guard newer.notification.mayReplace else { return false }
    var isDurableReplaced = false
    while let older = newer.device.session?.takeReplaced(by: newer.notification) {
      switch older.storage {
      case .gathering:
        group.cancel(older)
        if newer.notification.mayBeStored { inherit(older, to: newer) } else { answer(older) }
      // If it is being written, its own group answers.
      case .sealed, .durable:
        isDurableReplaced = true
        newer.replaced = older.storedFacts
        emptySlot(older.notification.slot, order: older.notification.order, older.device)
      // If the store kept it, it is removed with the group that writes the newer one.
      case .inDoubt:
        isDurableReplaced = true
        older.device.unwrittenOrders.insert(older.notification.order)
      case .superseded: ledger.endSuperseded(older)
      case .none: break
      }
      older.hasEnded = true
      ledger.record(.replaced, older.notification)
      releaseIfFree(older)
    }
    return isDurableReplaced
  }

  /// The provider of a replaced notification gets its answer together with the newer one's.
  mutating func inherit(_ older: Delivery, to newer: Delivery) {
    guard newer.storage != .durable else { return answer(older) }
    if let answer = older.answer { newer.replacedAnswers.append(answer) }
    newer.replacedAnswers += older.replacedAnswers
    if let replaced = older.replaced { newer.replaced = replaced }
    older.answer = nil
    older.replacedAnswers.removeAll()
  }

  /// Why a notification is not sent now; `offer` is nil if its topic is not delivered.
  private func reasonToWait(_ device: Device, _ offer: DeviceSession.Offer?) -> LedgerCause {
    guard let session = device.session else { return .deviceAway }
    if offer == nil { return .topicHeldBack }
    return session.hasRoom ? .deviceIdle : .queueFull
  }

  /// Writes it with the next group, after all older notifications of the same device that still gather.
  mutating func store(_ delivery: Delivery, loopMilliseconds: UInt64) {
    if delivery.device.lingeringWrites > 0, let session = delivery.device.session {
      session.forEach(of: delivery.notification.claims.topic) { group.promote($0) }
    }
    group.put(delivery, urgent: true, nowMilliseconds: loopMilliseconds)
  }

  private mutating func refuse(
    _ notification: consuming Notification, _ answer: Answer, _ rejection: Rejection
  ) -> Verdict {
    pool.release(notification)
    return Verdict(answer: answer, rejection: rejection)
  }

  /// The app was removed: rejected at once, or reported by the feedback list.
  private mutating func refuseDead(
    _ notification: consuming Notification, _ answer: Answer, sinceMilliseconds: Int64
  ) -> Verdict {
    deadTokens.append(
      DeadToken(
        claims: notification.claims, token: notification.token,
        sinceMilliseconds: sinceMilliseconds))
    guard !notification.interface.refusesDeadTokens else {
      return refuse(
        notification, answer, Rejection(.unregistered, timestampMilliseconds: sinceMilliseconds))
    }
    ledger.record(.received, notification)
    return finishAtOnce(notification, answer, .discardedTokenUnregistered)
  }

  private mutating func finishAtOnce(
    _ notification: consuming Notification, _ answer: Answer, _ state: DeliveryState,
    cause: LedgerCause = .none
  ) -> Verdict {
    ledger.record(state, notification, cause: cause)
    pool.release(notification)
    return Verdict(answer: answer, rejection: nil)
  }

  mutating func answer(_ delivery: Delivery, rejection: Rejection? = nil) {
    if !delivery.replacedAnswers.isEmpty {
      for answer in delivery.replacedAnswers {
        verdicts.append(Verdict(answer: answer, rejection: rejection))
      }
      delivery.replacedAnswers.removeAll()
    }
    guard let answer = delivery.answer else { return }
    verdicts.append(Verdict(answer: answer, rejection: rejection))
    delivery.answer = nil
  }

  mutating func mark(dirty device: Device) {
    guard !device.isDirty else {
      joinedCount += 1
      return
    }
    device.isDirty = true
    dirty.append(device)
  }
}
