package import ApusModel

/// The delivery side of one device's connection: what is sent, awaited and held.
///
/// ```
/// awaitingFilter --filter--> draining --drained--> serving --overflow emptied--> draining
/// ```
///
/// Notifications wait in `ready` for the window and in `held` for a better moment (`DeviceSession+Power`). When
/// `ready` has `Limits.courierQueueFrames` notifications or `queueBytes` bytes, further ones are not accepted yet:
/// they wait in `backlog`, and their providers for the answer. When such a wait is over they crowd into `ready`, up to
/// `Limits.courierCrowdedFrames`. When `held` is full, the shard has it sent early (`releaseHeld`). Only what is
/// accepted for a device that counts as unresponsive and whose crowded queue is full is just stored, as for an offline
/// device; `needsDrain` records that.
package struct DeviceSession {
  /// Transitions: `awaitingFilter` → `draining` → `serving` → `draining`.
  package enum Phase: Equatable, Sendable {
    /// Nothing is delivered before the first filter.
    case awaitingFilter
    /// Stored notifications are being read; newer ones queue behind them.
    case draining
    case serving
  }

  package private(set) var phase = Phase.awaitingFilter
  /// A connection that never reports its state counts as active.
  package internal(set) var power = PowerState.active
  package private(set) var needsDrain = false
  var ready = DeliveryQueue()
  var held = DeliveryQueue()
  /// When the held notifications are due as a burst; nil if none are held.
  var burstMilliseconds: UInt64?
  private var backlog = Backlog()
  private var inFlight: [Delivery] = []
  /// Those of the session that are in the store, and some that were: a write finds the one that it supersedes here,
  /// instead of looking through the whole queue.
  private var durable: [Delivery] = []
  /// Bytes of payload sent and not yet acknowledged.
  private(set) var inFlightBytes = 0
  /// The bytes that `ready` may take before providers are held back. The shard sets it from the memory left in the
  /// service.
  var queueBytes = Int.max

  package init() {}

  /// The session of a device with nothing pending, after its filter; see `isQuiet`.
  package init(quiet power: PowerState) {
    phase = .serving
    self.power = power
  }

  /// Whether its power state is its whole state: nothing is in flight or waiting.
  package var isQuiet: Bool {
    phase == .serving && !needsDrain && inFlight.isEmpty && ready.count == 0 && held.count == 0
      && backlog.count == 0 && burstMilliseconds == nil
  }

  package var inFlightCount: Int { inFlight.count }
  package var queuedCount: Int { ready.count + held.count }
  /// Whether notifications wait that an acknowledgement may release.
  var awaitsWindow: Bool { ready.count + backlog.count > 0 }

  // MARK: Filter and drain

  /// A filter arrived. Returns whether a drain must begin.
  package mutating func filterReceived(opensTopics: Bool) -> Bool {
    switch phase {
    case .awaitingFilter:
      phase = .draining
      return true
    case .draining:
      if opensTopics { needsDrain = true }
      return false
    case .serving:
      guard opensTopics else { return false }
      phase = .draining
      return true
    }
  }

  /// Queues the stored notifications, oldest first, before everything that arrived since.
  ///
  /// `more`: not all of them fitted. `state` returns the state of a topic.
  package mutating func drained(
    _ stored: [Delivery], more: Bool, nowMilliseconds: UInt64, state: (TopicKey) -> TopicState
  ) {
    phase = .serving
    needsDrain = needsDrain || more
    noteWaiting(nowMilliseconds: nowMilliseconds)
    var isLast = !more
    for delivery in stored.reversed() {
      guard maySendNow(delivery, state: state(delivery.notification.claims.topic)) else {
        hold(delivery, isFirst: true, nowMilliseconds: nowMilliseconds)
        continue
      }
      delivery.isLastFromStorage = isLast
      isLast = false
      delivery.place = .ready
      ready.prepend(delivery)
    }
  }

  /// The store may hold more than the last drain found.
  mutating func drainAgain() { needsDrain = true }

  /// Begins another drain if everything ready was sent and the store holds more. Returns whether it did.
  package mutating func beginFurtherDrain() -> Bool {
    guard phase == .serving, needsDrain, ready.count == 0 else { return false }
    needsDrain = false
    phase = .draining
    return true
  }

  /// Whether a notification of that order is in the session.
  package func holds(order: UInt64) -> Bool {
    inFlight.contains { $0.notification.order == order }
      || ready.contains { $0.notification.order == order }
      || held.contains { $0.notification.order == order }
      || backlog.holds(order: order)
  }

  // MARK: New notifications

  package enum Offer: Equatable, Sendable {
    /// Will be sent as soon as the window allows.
    case queued
    /// Waits until the device wakes, or its radio is in use anyway.
    case held
    /// No room: not accepted yet.
    case heldBack
    /// No room: rejected for this reason.
    case refused(Reason)
    /// As for an offline device: it is unresponsive and the crowded queue is full; or the notification must not be
    /// stored and cannot be sent now.
    case overflow
  }

  /// Decides on a notification whose topic may be delivered.
  package mutating func offer(
    _ delivery: Delivery, state: TopicState, nowMilliseconds: UInt64
  ) -> Offer {
    // Queued after those that already wait, to keep the order of acceptance.
    if backlog.count == 0, hasRoom {
      return take(delivery, state: state, nowMilliseconds: nowMilliseconds)
    }
    let entry = backlog.entry(
      of: delivery.notification, hasSpace: hasSpace, nowMilliseconds: nowMilliseconds)
    switch entry {
    case .wait:
      backlog.append(delivery, nowMilliseconds: nowMilliseconds)
      return .heldBack
    case .enter: return take(delivery, state: state, nowMilliseconds: nowMilliseconds)
    case .refuse(let reason): return .refused(reason)
    }
  }

  private mutating func take(
    _ delivery: Delivery, state: TopicState, nowMilliseconds: UInt64
  ) -> Offer {
    // The backlog lets it in without space only if the device is unresponsive.
    guard hasSpace else {
      needsDrain = true
      return .overflow
    }
    if maySendNow(delivery, state: state) {
      noteWaiting(nowMilliseconds: nowMilliseconds)
      delivery.place = .ready
      ready.append(delivery)
      return .queued
    }
    // A notification that must not be stored gets one attempt ("Sending notification requests to APNs").
    guard delivery.notification.mayBeStored else { return .overflow }
    hold(delivery, nowMilliseconds: nowMilliseconds)
    return .held
  }

  /// Whether the queue takes another notification at once.
  var hasRoom: Bool {
    ready.count < Limits.courierQueueFrames && (ready.byteCount < queueBytes || ready.count == 0)
  }
  /// Whether it takes one whose wait is over.
  private var hasSpace: Bool {
    ready.count < Limits.courierCrowdedFrames
      && (ready.byteCount / Limits.crowdedQueueShares < queueBytes || ready.count == 0)
  }
  /// Whether the list of held notifications is full, so that they have to be sent.
  var isHeldFull: Bool {
    held.count >= Limits.courierQueueFrames
      || held.count > 0 && held.byteCount >= queueBytes
  }

  /// Call it before adding to an empty queue: from now on an acknowledgement is due.
  mutating func noteWaiting(nowMilliseconds: UInt64) {
    guard ready.count == 0, inFlight.isEmpty else { return }
    backlog.noteProgress(nowMilliseconds: nowMilliseconds)
  }

  /// The next held-back notification, if there is room now.
  package mutating func takeHeldBack() -> Delivery? { hasRoom ? backlog.popFirst() : nil }

  /// Offers a notification whose time in the backlog is over.
  package mutating func offerHeldBack(
    _ delivery: Delivery, state: TopicState, nowMilliseconds: UInt64
  ) -> Offer {
    take(delivery, state: state, nowMilliseconds: nowMilliseconds)
  }

  /// The next held-back notification whose wait is over, and for what reason to refuse it, if so.
  package mutating func takeOverdue(
    nowMilliseconds: UInt64
  ) -> (delivery: Delivery, refusal: Reason?)? {
    backlog.popOverdue(hasSpace: hasSpace, nowMilliseconds: nowMilliseconds)
  }

  /// The next held-back notification, whether there is room or not; for closing the session.
  package mutating func takeFirstHeldBack() -> Delivery? { backlog.popFirst() }

  package var heldBackCount: Int { backlog.count }

  /// When `takeOverdue` or `burstIsDue` will have something to do; nil if nothing is timed.
  package var deadlineMilliseconds: UInt64? {
    guard let overdue = backlog.deadlineMilliseconds(hasSpace: hasSpace) else {
      return burstMilliseconds
    }
    return min(burstMilliseconds ?? overdue, overdue)
  }

  /// Removes and returns the waiting notification that a newer one replaces, if any: one with the same collapse id
  /// anywhere in the queue; for background pushes, of which a device keeps only the newest, one that is held.
  /// Notifications in flight stay: the device replaces what it shows.
  ///
  /// One that must not be stored never replaces one that may: if the device left before acknowledging it, neither
  /// would arrive.
  package mutating func takeReplaced(by newer: Notification) -> Delivery? {
    let topic = newer.claims.topic
    func isReplaceable(_ older: Notification) -> Bool {
      older.claims.topic == topic && older.order < newer.order
        && (newer.mayBeStored || !older.mayBeStored)
    }
    func isCollapsed(_ delivery: Delivery) -> Bool {
      let older = delivery.notification
      return !newer.collapseID.isEmpty && isReplaceable(older)
        && newer.collapseID.equals(older.collapseID)
    }
    func isOlderBackground(_ delivery: Delivery) -> Bool {
      newer.isBackground && delivery.notification.isBackground
        && isReplaceable(delivery.notification)
    }
    let found =
      ready.removeFirst(where: isCollapsed)
      ?? held.removeFirst { isCollapsed($0) || isOlderBackground($0) }
    found?.place = .none
    return found
  }

  // MARK: Sending and acknowledgements

  /// The next step for the notification that has waited longest.
  enum Next {
    /// Nothing waits, or the window is full.
    case nothing
    /// It is now in flight.
    case send(Delivery)
    /// It has expired and was removed from the session.
    case expired(Delivery)
  }

  /// Accesses the delivery once: each of these objects is outside the processor's caches when its turn comes.
  mutating func next(nowSeconds: Int64) -> Next {
    guard let delivery = ready.first else { return .nothing }
    let notification = delivery.notification
    if notification.isExpired(atSeconds: nowSeconds) {
      ready.removeFirst()
      delivery.place = .none
      return .expired(delivery)
    }
    guard phase == .serving, inFlight.count < Limits.courierWindowFrames,
      inFlightBytes < windowBytes, mayGoAlong(delivery)
    else { return .nothing }
    ready.removeFirst()
    delivery.place = .inFlight
    inFlight.append(delivery)
    inFlightBytes += notification.payload.count
    return .send(delivery)
  }

  /// Frames on the wire use memory a second time.
  private var windowBytes: Int { max(1, min(Limits.courierWindowBytes, queueBytes)) }

  /// Whether the next notification may be sent beside those in flight. A suspect is sent alone, so that a connection
  /// that ends identifies it as the cause.
  private func mayGoAlong(_ next: Delivery) -> Bool {
    guard let first = inFlight.first else { return true }
    return !first.isSuspect && !next.isSuspect
  }

  /// The connection ended: removes a notification that was in flight too often.
  mutating func takePoison() -> Delivery? {
    guard
      let index = inFlight.firstIndex(where: {
        $0.unacknowledgedEnds + 1 >= Limits.unacknowledgedEnds
      })
    else { return nil }
    return takeInFlight(at: index)
  }

  private mutating func takeInFlight(at index: Int) -> Delivery {
    let delivery = inFlight.remove(at: index)
    inFlightBytes -= delivery.notification.payload.count
    delivery.place = .none
    return delivery
  }

  /// Whether the device has been sent it, and has not answered.
  package func isInFlight(_ messageID: UInt32) -> Bool {
    inFlight.contains { $0.notification.messageID == messageID }
  }

  /// Whether everything that the store has for the device is in the session.
  package var holdsAllStored: Bool { phase == .serving && !needsDrain }

  /// The device has it already. Nil if nothing with this id waits to be sent.
  mutating func takeWaiting(_ messageID: UInt32) -> Delivery? {
    let isMeant = { (delivery: Delivery) in delivery.notification.messageID == messageID }
    let taken = ready.removeFirst(where: isMeant) ?? held.removeFirst(where: isMeant)
    taken?.place = .none
    return taken
  }

  /// The device acknowledged `messageID`. Nil if the id is unknown or was acknowledged before.
  package mutating func acknowledge(
    _ messageID: UInt32, nowMilliseconds: UInt64
  ) -> Delivery? {
    guard let index = inFlight.firstIndex(where: { $0.notification.messageID == messageID })
    else { return nil }
    backlog.noteProgress(nowMilliseconds: nowMilliseconds)
    return takeInFlight(at: index)
  }

  /// Removes what waits for a topic that must receive nothing more; notifications in flight stay.
  package mutating func withdraw(_ topic: TopicKey) -> [Delivery] {
    let taken =
      ready.remove { $0.notification.claims.topic == topic }
      + held.remove { $0.notification.claims.topic == topic }
    for delivery in taken { delivery.place = .none }
    return taken
  }

  /// Calls `body` for every notification in the session that has a slot of `topic` in the store.
  package func forEach(of topic: TopicKey, _ body: (Delivery) -> Void) {
    for delivery in inFlight where delivery.notification.claims.topic == topic { body(delivery) }
    ready.forEach { if $0.notification.claims.topic == topic { body($0) } }
    held.forEach { if $0.notification.claims.topic == topic { body($0) } }
  }

  /// `delivery` is in the store now.
  mutating func becameDurable(_ delivery: Delivery) {
    durable.removeAll { !$0.isDurableInSession }
    if delivery.isDurableInSession { durable.append(delivery) }
  }

  /// A newer notification has the slot of the one with `order`. False if that is not in the session.
  mutating func supersede(_ order: UInt64) -> Bool {
    let index = durable.firstIndex { $0.isDurableInSession && $0.notification.order == order }
    guard let index else { return false }
    durable.remove(at: index).storage = .superseded
    return true
  }

  /// Calls `body` for every notification in the session.
  package func forEach(_ body: (Delivery) -> Void) {
    inFlight.forEach(body)
    ready.forEach(body)
    held.forEach(body)
  }

  /// Whether notifications are held.
  package var holdsSome: Bool { held.count > 0 }

  /// The connection ended: everything unacknowledged, in the order of acceptance.
  package mutating func close() -> [Delivery] {
    var all = inFlight
    for delivery in inFlight { delivery.unacknowledgedEnds += 1 }
    ready.forEach { all.append($0) }
    held.forEach { all.append($0) }
    for delivery in all { delivery.place = .none }
    self = DeviceSession()
    return all.sorted { $0.notification.order < $1.notification.order }
  }
}
