package import ApusModel

/// The mailbox rules: every decision about the devices that one worker owns.
///
/// A value in the sense that matters: verbs go in, and what is to be done comes out in `verdicts`, `dirty` and
/// `drains`, which the driver empties after each turn. It touches no socket, no disk and no clock.
///
/// Noncopyable for speed: across modules a nonmutating call would copy the value and retain every field.
package struct Shard: ~Copyable {
  /// Answers for providers.
  package var verdicts: [Verdict] = []
  /// Connected devices whose sessions may have something to send.
  package var dirty: [Device] = []
  /// How often one of those was to be marked again.
  package var joinedCount = 0
  /// Devices whose stored notifications are to be fetched; handed out once what they had pending is written.
  package var drains: [Device] = []
  /// Tokens found dead, for the feedback list; the driver empties it.
  package var deadTokens: [DeadToken] = []
  package private(set) var deadTokenPushes = DeadTokenPushes()
  /// What became of which notification, in order; the driver empties it.
  package var events: [LedgerEvent] = []
  /// Lines for the ledger that are true once the group which was just sealed is written; the driver empties it.
  package var groupEvents: [LedgerEvent] = []
  /// Those that were written with their group and came true; the driver empties it.
  package var writtenEvents: [LedgerEvent] = []
  var traces = SupersededTraces()
  package var counters = DeliveryCounters()
  package internal(set) var sessions = SessionCensus()
  /// What its notifications take; a driver of several shards passes on what all take.
  package var memory: DeliveryMemory
  /// Requests to one device token; nil for no limit.
  package var requestLimit: RateLimit? = RateLimit(
    capacity: Limits.requestsPerToken, refill: Limits.requestsPerTokenPerSecond)
  /// Whether `events` is filled. The counters count anyway.
  package var recordsEvents = true

  var group: CommitGroup
  let unregisterGraceMilliseconds: Int64
  /// The number of the group that gathers; groups are written in order.
  var gatheringGroup: UInt64 = 1
  /// Devices whose drain waits for a group.
  var drainWaiters: [(group: UInt64, device: Device)] = []
  /// Topics that devices dropped, in the order of time: their tokens die when the grace is over.
  var graces = GraceQueue()
  /// Slots of which nobody knows what a write that failed has left there.
  var doubts: [SlotInDoubt] = []
  /// Devices for which a disk that failed is to be asked again.
  var retries: [Device] = []
  var released: [Delivery] = []
  /// Memory for `takeDurableCounters`.
  var forecasts: [StoreForecast] = []
  var forecastSlots: [SlotKey: NotificationFacts?] = [:]
  /// How many notifications of an app wait for a device, where it is more than one: at most
  /// `Limits.retainedNotifications`.
  package var retentions: [AppID: Int] = [:]
  /// Memory for `assignSlots`.
  var slotTables: [SlotKey: SlotTable] = [:]
  private var freeDeliveries: [Delivery] = []
  private var freeNotifications: [Notification] = []

  /// Deliveries kept for reuse.
  private static let poolLimit = 4096

  package init(
    lingerMilliseconds: UInt64, unregisterGraceMilliseconds: Int64,
    memoryBytes: Int = Limits.memoryMegabytes << 20
  ) {
    memory = DeliveryMemory(limitBytes: memoryBytes)
    group = CommitGroup(lingerMilliseconds: lingerMilliseconds)
    self.unregisterGraceMilliseconds = unregisterGraceMilliseconds
  }

  // MARK: Reuse

  /// A notification to fill.
  package mutating func takeNotification() -> Notification {
    freeNotifications.popLast() ?? Notification()
  }

  /// Gives a notification back that never became a delivery.
  package mutating func release(_ notification: consuming Notification) {
    freeNotifications.append(notification)
  }

  /// Notifications that can be filled without making one.
  package var freeNotificationCount: Int { freeNotifications.count }

  /// Takes over notifications to fill.
  package mutating func adopt(_ notifications: [Notification]) {
    freeNotifications += notifications
  }

  /// Parts with some of those that can be filled: `count` at most.
  package mutating func surrender(_ count: Int) -> [Notification] {
    let first = max(0, freeNotifications.count - count)
    defer { freeNotifications.removeLast(freeNotifications.count - first) }
    return Array(freeNotifications[first...])
  }

  /// Frees what is kept for reuse. A delivery that is kept has its device, which may be no more.
  package mutating func forgetFree() {
    freeDeliveries = []
    freeNotifications = []
  }

  mutating func takeDelivery(_ notification: Notification, _ device: Device) -> Delivery {
    let delivery: Delivery
    if let free = freeDeliveries.popLast() {
      delivery = free
      delivery.notification = notification
      delivery.device = device
    } else {
      delivery = Delivery(notification: notification, device: device)
    }
    memory.take(delivery.byteCount)
    return delivery
  }

  mutating func releaseIfFree(_ delivery: Delivery) {
    guard delivery.isFree else { return }
    memory.give(delivery.byteCount)
    release(delivery.notification)
    delivery.answer = nil
    delivery.storage = .none
    delivery.isUrgent = false
    delivery.isLastFromStorage = false
    delivery.hasEnded = false
    delivery.replaced = nil
    delivery.unacknowledgedEnds = 0
    if freeDeliveries.count < Self.poolLimit { freeDeliveries.append(delivery) }
  }

  // MARK: From providers

  /// Takes an admitted notification for `device`, or refuses it.
  ///
  /// The provider's answer comes through `verdicts`: at once for what is not to be stored, else when the notification
  /// is durable or the device acknowledged it, whichever is first.
  package mutating func submit(
    _ notification: consuming Notification, answer: Answer, device: Device,
    nowMilliseconds: Int64, loopMilliseconds: UInt64
  ) {
    let verdict = decide(
      notification, answer: answer, device: device, nowMilliseconds: nowMilliseconds,
      loopMilliseconds: loopMilliseconds)
    if let verdict { verdicts.append(verdict) }
  }

  /// The same for a caller who waits for the verdict: it is the result where the notification ends, or is refused,
  /// before it has a place anywhere. Nil where it comes through `verdicts`.
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
      return refuseDead(notification, answer, sinceMilliseconds: since)
    case .unknown:
      // A base token addresses any topic of the device, but only one that the device has.
      guard notification.claims.generation != 0 else {
        return refuse(notification, answer, Rejection(.deviceTokenNotForTopic))
      }
      return refuseDead(notification, answer, sinceMilliseconds: nowMilliseconds)
    }
    if !takeRequest(notification.claims.topic, device, loopMilliseconds) {
      guard !notification.interface.refusesFloods else {
        return refuse(notification, answer, Rejection(.tooManyRequests))
      }
      verdicts.append(Verdict(answer: answer, rejection: nil, asksForPause: true))
    }
    if state == .ignored {
      note(.received, notification)
      return finishAtOnce(notification, answer, .discardedDisabled)
    }
    // Neither can be sent now nor may be stored: it needs no place anywhere.
    if !notification.mayBeStored, !state.flows || device.session == nil {
      note(.received, notification)
      return finishAtOnce(
        notification, answer, .discardedNotStored, cause: reasonToWait(device, nil))
    }
    let delivery = takeDelivery(notification, device)
    delivery.answer = answer
    deliver(delivery, state: state, loopMilliseconds: loopMilliseconds)
    return nil
  }

  /// Whether another request for the app's token may come; it is counted then.
  @inline(__always)
  private func takeRequest(
    _ topic: TopicKey, _ device: Device, _ loopMilliseconds: UInt64
  ) -> Bool {
    guard let requestLimit else { return true }
    return device.requests.take(
      requestLimit, of: topic, atMilliseconds: Int64(loopMilliseconds))
  }

  /// Ends a notification that must not be stored, where its device is away and nothing else is to be said: it needs
  /// not even an object. False where it is to be submitted; then nothing was done.
  ///
  /// `facts` are the notification's. Its ids and its order are for the ledger alone. An abridged device has no times,
  /// and only these tell whether a topic that is in no list any more is still in its grace.
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
    notePassing(.discardedNotStored, facts, cause: .deviceAway)
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

  /// Carries out what the session decided; nil where there is none, or where nothing flows.
  mutating func settle(
    _ delivery: Delivery, _ offer: DeviceSession.Offer?, state: TopicState,
    loopMilliseconds: UInt64
  ) {
    let device = delivery.device
    let notification = delivery.notification
    let mayBeStored = notification.mayBeStored
    // Not accepted yet. The connection looks at the time.
    if offer == .heldBack { return mark(dirty: device) }
    if offer == .refused { return refuse(delivery) }
    note(.received, notification)
    switch offer {
    case .queued?:
      let isDurableReplaced = replaceOlder(by: delivery)
      mark(dirty: device)
      if notification.priority == .immediate, state == .enabled {
        radioIsInUse(device, loopMilliseconds: loopMilliseconds)
      }
      if !mayBeStored {
        answer(delivery)
      } else if isDurableReplaced || !delivery.riders.isEmpty {
        store(delivery, loopMilliseconds: loopMilliseconds)
      } else {
        group.put(delivery, urgent: false, nowMilliseconds: loopMilliseconds)
      }
    case .held?:
      _ = replaceOlder(by: delivery)
      note(.storedPowerConsiderations, notification)
      store(delivery, loopMilliseconds: loopMilliseconds)
      // Rather a burst too early than one that replaces what was accepted.
      if device.session?.isHeldFull == true {
        radioIsInUse(device, loopMilliseconds: loopMilliseconds)
      }
    default:
      guard mayBeStored else {
        answer(delivery)
        note(.discardedNotStored, notification, cause: reasonToWait(device, offer))
        return releaseIfFree(delivery)
      }
      note(.storedDeviceOffline, notification, cause: reasonToWait(device, offer))
      store(delivery, loopMilliseconds: loopMilliseconds)
    }
  }

  /// Ends what waits and is replaced; whether some of it is in the store, or on its way there.
  ///
  /// That is taken out by the group which brings the newer one in: written apart, a crash could leave neither.
  private mutating func replaceOlder(by newer: Delivery) -> Bool {
    guard newer.notification.mayReplace else { return false }
    var isDurableReplaced = false
    while let older = newer.device.session?.takeReplaced(by: newer.notification) {
      switch older.storage {
      case .gathering:
        group.cancel(older)
        if newer.notification.mayBeStored { inherit(older, to: newer) } else { answer(older) }
      // Its own group answers for one that is being written.
      case .sealed, .durable:
        isDurableReplaced = true
        newer.replaced = older.storedFacts
        emptySlot(older.notification.slot, order: older.notification.order, older.device)
      // If the store kept it, that is taken out with the group that brings the newer one in.
      case .inDoubt:
        isDurableReplaced = true
        older.device.unwrittenOrders.insert(older.notification.order)
      case .superseded: endSuperseded(older)
      case .none: break
      }
      older.hasEnded = true
      note(.replaced, older.notification)
      releaseIfFree(older)
    }
    return isDurableReplaced
  }

  /// The provider of a notification that was replaced is answered with that of the newer one.
  mutating func inherit(_ older: Delivery, to newer: Delivery) {
    guard newer.storage != .durable else { return answer(older) }
    if let answer = older.answer { newer.riders.append(answer) }
    newer.riders += older.riders
    if let replaced = older.replaced { newer.replaced = replaced }
    older.answer = nil
    older.riders.removeAll()
  }

  /// Why a notification is not sent now: `offer` is nil where its topic does not flow.
  private func reasonToWait(_ device: Device, _ offer: DeviceSession.Offer?) -> LedgerCause {
    guard let session = device.session else { return .deviceAway }
    if offer == nil { return .topicHeldBack }
    return session.hasRoom ? .deviceIdle : .queueFull
  }

  /// Writes with the next group, behind everything older of the same device that still gathers.
  mutating func store(_ delivery: Delivery, loopMilliseconds: UInt64) {
    if let session = delivery.device.session {
      session.forEach(of: delivery.notification.claims.topic) { group.promote($0) }
    }
    group.put(delivery, urgent: true, nowMilliseconds: loopMilliseconds)
  }

  /// Its device makes no progress: its provider is to come again later.
  mutating func refuse(_ delivery: Delivery) {
    answer(delivery, rejection: Rejection(.tooManyRequests))
    releaseIfFree(delivery)
  }

  private mutating func refuse(
    _ notification: consuming Notification, _ answer: Answer, _ rejection: Rejection
  ) -> Verdict {
    release(notification)
    return Verdict(answer: answer, rejection: rejection)
  }

  /// The app is gone: said at once, or found by the sender in the feedback list.
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
    note(.received, notification)
    return finishAtOnce(notification, answer, .discardedTokenUnregistered)
  }

  private mutating func finishAtOnce(
    _ notification: consuming Notification, _ answer: Answer, _ state: DeliveryState,
    cause: LedgerCause = .none
  ) -> Verdict {
    note(state, notification, cause: cause)
    release(notification)
    return Verdict(answer: answer, rejection: nil)
  }

  mutating func answer(_ delivery: Delivery, rejection: Rejection? = nil) {
    if !delivery.riders.isEmpty {
      for rider in delivery.riders { verdicts.append(Verdict(answer: rider, rejection: rejection)) }
      delivery.riders.removeAll()
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
