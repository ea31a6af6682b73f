package import ApusModel

/// The mailbox rules: every decision about the devices that one worker owns.
///
/// A value in the sense that matters: verbs go in, and what is to be done comes out in `verdicts`, `dirty` and `drains`,
/// which the driver empties after each turn. It touches no socket, no disk and no clock.
package struct Shard {
  /// Answers for providers.
  package var verdicts: [Verdict] = []
  /// Connected devices whose sessions may have something to send.
  package var dirty: [Device] = []
  /// Devices whose stored notifications are to be fetched; handed out once what they had pending is written.
  package var drains: [Device] = []
  package private(set) var counts = [UInt64](repeating: 0, count: DeliveryState.allCases.count)

  private var group: CommitGroup
  private let unregisterGraceMilliseconds: Int64
  /// The number of the group that gathers; groups are written in order.
  private var gatheringGroup: UInt64 = 1
  /// Devices whose drain waits for a group.
  private var drainWaiters: [(group: UInt64, device: Device)] = []
  private var released: [Delivery] = []
  private var freeDeliveries: [Delivery] = []
  private var freeNotifications: [Notification] = []

  /// Objects kept for reuse.
  private static let poolLimit = 4096

  package init(lingerMilliseconds: UInt64, unregisterGraceMilliseconds: Int64) {
    group = CommitGroup(lingerMilliseconds: lingerMilliseconds)
    self.unregisterGraceMilliseconds = unregisterGraceMilliseconds
  }

  // MARK: Reuse

  /// A notification to fill.
  package mutating func takeNotification() -> Notification {
    freeNotifications.popLast() ?? Notification()
  }

  /// Gives a notification back that never became a delivery.
  package mutating func release(_ notification: Notification) {
    if freeNotifications.count < Self.poolLimit { freeNotifications.append(notification) }
  }

  private mutating func takeDelivery(_ notification: Notification, _ device: Device) -> Delivery {
    guard let delivery = freeDeliveries.popLast() else {
      return Delivery(notification: notification, device: device)
    }
    delivery.notification = notification
    delivery.device = device
    return delivery
  }

  private mutating func releaseIfFree(_ delivery: Delivery) {
    guard delivery.isFree else { return }
    release(delivery.notification)
    delivery.answer = nil
    delivery.storage = .none
    delivery.isUrgent = false
    delivery.isLastFromStorage = false
    if freeDeliveries.count < Self.poolLimit { freeDeliveries.append(delivery) }
  }

  package mutating func count(_ state: DeliveryState) { counts[Int(state.rawValue)] &+= 1 }

  // MARK: From providers

  /// Takes an admitted notification for `device`, or refuses it.
  ///
  /// The provider's answer comes through `verdicts`: at once for what is not to be stored, else when the notification
  /// is durable or the device acknowledged it, whichever is first.
  package mutating func submit(
    _ notification: Notification, answer: Answer, device: Device, nowMilliseconds: Int64,
    loopMilliseconds: UInt64
  ) {
    let standing = device.registration.standing(
      of: notification.claims, nowMilliseconds: nowMilliseconds,
      graceMilliseconds: unregisterGraceMilliseconds)
    let state: TopicState
    switch standing {
    case .active(let current): state = current
    case .dead(let since):
      return refuse(notification, answer, Rejection(.unregistered, timestampMilliseconds: since))
    case .unknown:
      // A base token addresses any topic of the device, but only one that the device has.
      let isBaseToken = notification.claims.generation == 0
      return refuse(
        notification, answer,
        isBaseToken
          ? Rejection(.deviceTokenNotForTopic)
          : Rejection(.unregistered, timestampMilliseconds: nowMilliseconds))
    }
    count(.received)
    if state == .ignored {
      return finishAtOnce(notification, answer, .discardedDisabled)
    }
    let delivery = takeDelivery(notification, device)
    delivery.answer = answer
    deliver(delivery, state: state, loopMilliseconds: loopMilliseconds)
  }

  private mutating func deliver(
    _ delivery: Delivery, state: TopicState, loopMilliseconds: UInt64
  ) {
    let device = delivery.device
    let offer = state.flows ? device.session?.offer(delivery, state: state) : nil
    let mayBeStored = delivery.notification.mayBeStored
    switch offer {
    case .queued?:
      mark(dirty: device)
      if mayBeStored {
        group.put(delivery, urgent: false, nowMilliseconds: loopMilliseconds)
      } else {
        answer(delivery)
      }
    case .held?:
      count(.storedPowerConsiderations)
      store(delivery, loopMilliseconds: loopMilliseconds)
    case .overflow?, nil:
      guard mayBeStored else {
        answer(delivery)
        count(.discardedNotStored)
        return releaseIfFree(delivery)
      }
      count(.storedDeviceOffline)
      if device.session != nil {
        device.overflowOrders[delivery.notification.claims.topic] = delivery.notification.order
      }
      store(delivery, loopMilliseconds: loopMilliseconds)
    }
  }

  /// Writes with the next group, behind everything older of the same device that still gathers.
  private mutating func store(_ delivery: Delivery, loopMilliseconds: UInt64) {
    if let session = delivery.device.session {
      session.forEach(of: delivery.notification.claims.topic) { group.promote($0) }
    }
    group.put(delivery, urgent: true, nowMilliseconds: loopMilliseconds)
  }

  private mutating func refuse(
    _ notification: Notification, _ answer: Answer, _ rejection: Rejection
  ) {
    verdicts.append(Verdict(answer: answer, rejection: rejection))
    release(notification)
  }

  private mutating func finishAtOnce(
    _ notification: Notification, _ answer: Answer, _ state: DeliveryState
  ) {
    verdicts.append(Verdict(answer: answer, rejection: nil))
    count(state)
    release(notification)
  }

  private mutating func answer(_ delivery: Delivery, rejection: Rejection? = nil) {
    guard let answer = delivery.answer else { return }
    verdicts.append(Verdict(answer: answer, rejection: rejection))
    delivery.answer = nil
  }

  private mutating func mark(dirty device: Device) {
    guard !device.isDirty else { return }
    device.isDirty = true
    dirty.append(device)
  }

  // MARK: From devices

  /// A device connected; whoever held its place before was disconnected first.
  package mutating func connect(_ device: Device, slot: Int32) {
    device.session = DeviceSession()
    device.connectionSlot = slot
  }

  /// A filter arrived: `lists` has the state of each topic that it names.
  package mutating func filter(
    _ device: Device, lists: [TopicKey: TopicState], nowMilliseconds: Int64
  ) {
    let change = device.registration.apply(lists: lists, nowMilliseconds: nowMilliseconds)
    if !change.isEmpty { recordChanged(device) }
    for topic in change.closed { withdraw(topic, from: device) }
    if device.session?.filterReceived(opensTopics: !change.opened.isEmpty) == true {
      requestDrain(device)
    }
    mark(dirty: device)
  }

  /// What waited for a topic stays in the store, if it may be stored at all.
  private mutating func withdraw(_ topic: TopicKey, from device: Device) {
    for delivery in device.session?.withdraw(topic) ?? [] { leaveSession(delivery) }
  }

  /// The app asks for its token; the generation to mint it with.
  ///
  /// The token may leave once `device.durableRecordVersion` has reached `device.recordVersion`: a token that the
  /// service itself forgets would be called dead.
  package mutating func generationForToken(
    of topic: TopicKey, on device: Device, nowMilliseconds: Int64
  ) -> UInt16 {
    let (generation, changed) = device.registration.generationForToken(
      of: topic, nowMilliseconds: nowMilliseconds, graceMilliseconds: unregisterGraceMilliseconds)
    if changed { recordChanged(device) }
    return generation
  }

  /// The device's record is to be written.
  package mutating func recordChanged(_ device: Device) {
    device.recordVersion += 1
    group.record(device)
  }

  /// Set state (0x14).
  package mutating func setActive(_ active: Bool, _ device: Device) {
    device.session?.setActive(active)
    mark(dirty: device)
  }

  /// A keep-alive: the radio is awake anyway.
  package mutating func keepAlive(_ device: Device) {
    device.session?.wake()
    mark(dirty: device)
  }

  /// The device answered for a notification; `status` 0 means taken.
  ///
  /// An id that is unknown, or was answered before, is ignored. One that was refused is not sent again: "a poison
  /// message must not loop".
  package mutating func acknowledge(_ device: Device, messageID: UInt32, status: UInt8) {
    guard let delivery = device.session?.acknowledge(messageID) else { return }
    if status != 0 {
      count(.refusedByDevice)
    } else {
      count(delivery.notification.isFromStorage ? .deliveredFromStorage : .delivered)
    }
    forget(delivery)
    mark(dirty: device)
  }

  /// Ends a notification's time in memory and in the store.
  private mutating func forget(_ delivery: Delivery) {
    answer(delivery)
    switch delivery.storage {
    case .gathering: group.cancel(delivery)
    case .sealed, .durable:
      if !isSlotTaken(byNewerThan: delivery) {
        group.delete(delivery.notification.claims.topic, of: delivery.device)
      }
    case .none, .superseded: break
    }
    releaseIfFree(delivery)
  }

  private func isSlotTaken(byNewerThan delivery: Delivery) -> Bool {
    guard let session = delivery.device.session else { return false }
    var taken = false
    session.forEach(of: delivery.notification.claims.topic) { other in
      guard other.notification.order > delivery.notification.order else { return }
      switch other.storage {
      case .sealed, .durable: taken = true
      case .gathering: taken = taken || other.isUrgent
      case .none, .superseded: break
      }
    }
    return taken || delivery.device.hasOverflow(of: delivery)
  }

  /// The connection is over: what was not acknowledged goes back to the store.
  ///
  /// One slot for each app: of several the newest stays, the others count as replaced.
  package mutating func disconnect(_ device: Device) {
    guard var session = device.session else { return }
    let left = session.close()
    device.session = nil
    device.connectionSlot = -1
    for (index, delivery) in left.enumerated() {
      let topic = delivery.notification.claims.topic
      let newer = left[(index + 1)...].contains {
        $0.notification.claims.topic == topic && $0.notification.mayBeStored
      }
      if newer, delivery.storage == .gathering, !delivery.isUrgent {
        group.cancel(delivery)
        answer(delivery)
        count(.replaced)
        releaseIfFree(delivery)
      } else {
        leaveSession(delivery)
      }
    }
    device.overflowOrders.removeAll()
  }

  /// A notification leaves its session unacknowledged: the store keeps it, or nobody does.
  private mutating func leaveSession(_ delivery: Delivery) {
    switch delivery.storage {
    case .gathering:
      count(.storedDeviceOffline)
      group.promote(delivery)
    case .sealed, .durable: break
    case .superseded: count(.replaced)
    case .none: count(.discardedNotStored)
    }
    releaseIfFree(delivery)
  }

  // MARK: Draining

  private mutating func requestDrain(_ device: Device) {
    guard device.pendingWrites > 0 else { return drains.append(device) }
    // The drain must find what is on its way to the disk. It waits for the group that gathers now, not for a moment
    // without pending writes: under a steady flow of pushes there is none.
    device.session?.forEach { group.promote($0) }
    group.record(device)
    drainWaiters.append((gatheringGroup, device))
  }

  /// The device's stored notifications, oldest first, expired ones removed; `more` when not all were fetched.
  package mutating func drained(_ device: Device, _ stored: [Notification], more: Bool) {
    guard device.session != nil else {
      for notification in stored { release(notification) }
      return
    }
    var deliveries: [Delivery] = []
    for notification in stored {
      let topic = notification.claims.topic
      if let order = device.overflowOrders[topic], order <= notification.order {
        device.overflowOrders[topic] = nil
      }
      // Came while the drain was under way and is queued behind it.
      if device.session?.holds(order: notification.order) == true {
        release(notification)
        continue
      }
      notification.isFromStorage = true
      let delivery = takeDelivery(notification, device)
      delivery.storage = .durable
      deliveries.append(delivery)
    }
    device.session?.drained(deliveries, more: more)
    mark(dirty: device)
  }

  /// A stored notification was found to be past its time.
  package mutating func expired(_ topic: TopicKey, of device: Device) {
    count(.expired)
    group.delete(topic, of: device)
  }

  /// To be called when everything ready was sent: fetches what waits in the store alone.
  package mutating func continueDrain(_ device: Device) {
    if device.session?.beginFurtherDrain() == true { requestDrain(device) }
  }

  // MARK: The store

  /// Whether a group is to be sealed as soon as the store can take one.
  package func isGroupDue(nowMilliseconds: UInt64) -> Bool {
    group.isDue(nowMilliseconds: nowMilliseconds)
  }

  package var isGroupEmpty: Bool { group.isEmpty }

  /// Closes the group that gathered and returns its number; its entries are to be written in this order.
  package mutating func sealGroup(
    into entries: inout [GroupEntry], nowMilliseconds: UInt64, all: Bool = false
  ) -> UInt64 {
    collectReleased { group, collect in
      group.seal(into: &entries, nowMilliseconds: nowMilliseconds, all: all, released: collect)
    }
    gatheringGroup += 1
    return gatheringGroup - 1
  }

  /// Drops what was acknowledged before its group was sealed.
  package mutating func trimGroup() {
    collectReleased { group, collect in group.trim(collect) }
  }

  /// Runs `body` on the group and frees what it let go; the list keeps its memory.
  private mutating func collectReleased(
    _ body: (inout CommitGroup, (Delivery) -> Void) -> Void
  ) {
    var list = released
    released = []
    body(&group) { list.append($0) }
    for delivery in list { releaseIfFree(delivery) }
    list.removeAll(keepingCapacity: true)
    released = list
  }

  /// The group of that number was written, or could not be. Groups end in the order in which they were sealed.
  package mutating func committed(_ entries: [GroupEntry], number: UInt64, succeeded: Bool) {
    for entry in entries {
      entry.device.pendingWrites -= 1
      switch entry.kind {
      case .put:
        if let delivery = entry.delivery { written(delivery, succeeded: succeeded) }
      case .delete: break
      case .record(let version):
        if succeeded { entry.device.durableRecordVersion = version }
        mark(dirty: entry.device)
      }
    }
    guard !drainWaiters.isEmpty else { return }
    for waiter in drainWaiters where waiter.group <= number && waiter.device.session != nil {
      drains.append(waiter.device)
    }
    drainWaiters.removeAll { $0.group <= number }
  }

  private mutating func written(_ delivery: Delivery, succeeded: Bool) {
    delivery.groupReferences -= 1
    guard succeeded else {
      // The provider keeps the notification: it was not accepted. A copy that is in flight may still arrive.
      delivery.storage = .none
      answer(delivery, rejection: Rejection(.serviceUnavailable))
      return releaseIfFree(delivery)
    }
    delivery.storage = .durable
    answer(delivery)
    if let session = delivery.device.session {
      session.forEach(of: delivery.notification.claims.topic) { other in
        if other.notification.order < delivery.notification.order, other.storage == .durable {
          other.storage = .superseded
        }
      }
    }
    releaseIfFree(delivery)
  }
}
