package import ApusModel

/// The delivery side of one device's connection: what is sent, what is awaited, what is held back.
///
/// ```
/// awaitingFilter --filter--> draining --drained--> serving --overflow emptied--> draining
/// ```
///
/// Notifications wait in `ready` for a place in the window and in `held` for a better moment (`DeviceSession+Power`).
/// When `ready` has `Limits.courierQueueFrames`, or takes `queueBytes`, the next ones are not accepted yet: they wait
/// in `backlog`, and their providers for the answer. A wait that is over crowds `ready`, up to
/// `Limits.courierCrowdedFrames`. What finds no place at all, and what finds `held` full, waits in the store alone, as
/// for a device that is away; `needsDrain` remembers it.
package struct DeviceSession {
  /// Can transition to: `awaitingFilter` → `draining` → `serving` → `draining`.
  package enum Phase: Equatable, Sendable {
    /// Nothing is delivered before the first filter.
    case awaitingFilter
    /// What is stored is being fetched; newer notifications queue behind it.
    case draining
    case serving
  }

  package private(set) var phase = Phase.awaitingFilter
  /// A connection that never says otherwise counts as active.
  package internal(set) var power = PowerState.active
  package private(set) var needsDrain = false
  var ready = DeliveryQueue()
  var held = DeliveryQueue()
  /// When the burst is due that takes along what is held; nil while nothing is.
  var burstMilliseconds: UInt64?
  private var backlog = Backlog()
  private var inFlight: [Delivery] = []
  /// Bytes of payload that were sent and are not acknowledged yet.
  private(set) var inFlightBytes = 0
  /// Bytes that `ready` may take before providers are held back. The shard sets it from what the service has left.
  var queueBytes = Int.max

  package init() {}

  /// That of a device for which nothing waits, behind its filter; see `isQuiet`.
  package init(quiet power: PowerState) {
    phase = .serving
    self.power = power
  }

  /// Whether its power state says all about it: nothing is on its way, and nothing waits anywhere.
  package var isQuiet: Bool {
    phase == .serving && !needsDrain && inFlight.isEmpty && ready.count == 0 && held.count == 0
      && backlog.count == 0 && burstMilliseconds == nil
  }

  package var inFlightCount: Int { inFlight.count }
  package var queuedCount: Int { ready.count + held.count }
  /// Whether something waits that an acknowledgement may let go.
  var awaitsWindow: Bool { ready.count + backlog.count > 0 }

  // MARK: Filter and drain

  /// A filter arrived; true when a drain is to begin.
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

  /// The stored notifications, oldest first, go before everything that came meanwhile.
  ///
  /// `more` says that not all of them fitted. `state` gives the state of a topic.
  package mutating func drained(
    _ stored: [Delivery], more: Bool, nowMilliseconds: UInt64, state: (TopicKey) -> TopicState
  ) {
    phase = .serving
    needsDrain = needsDrain || more
    noteWaiting(nowMilliseconds: nowMilliseconds)
    var isLast = !more
    for delivery in stored.reversed() {
      guard maySendNow(delivery, state: state(delivery.notification.claims.topic)) else {
        hold(delivery, nowMilliseconds: nowMilliseconds)
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

  /// Whether everything in memory is on its way and the store holds more.
  package mutating func beginFurtherDrain() -> Bool {
    guard phase == .serving, needsDrain, ready.count == 0 else { return false }
    needsDrain = false
    phase = .draining
    return true
  }

  /// Whether a notification of that order is already in the session.
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
    /// Waits for the device to wake, or for the radio to be in use anyway.
    case held
    /// There is no room: it is not accepted yet.
    case heldBack
    /// There is no room, and the device makes no progress: it is not accepted (429).
    case refused
    /// There is no room anywhere, or no later for what may not be stored.
    case overflow
  }

  /// Decides about a notification of a topic whose notifications flow.
  package mutating func offer(
    _ delivery: Delivery, state: TopicState, nowMilliseconds: UInt64
  ) -> Offer {
    // Behind what waits already, so that the order of acceptance stays.
    if backlog.count == 0, hasRoom {
      return take(delivery, state: state, nowMilliseconds: nowMilliseconds)
    }
    switch backlog.entry(of: delivery.notification, nowMilliseconds: nowMilliseconds) {
    case .wait:
      backlog.append(delivery, nowMilliseconds: nowMilliseconds)
      return .heldBack
    case .crowdIn: return take(delivery, state: state, nowMilliseconds: nowMilliseconds)
    case .refuse: return .refused
    }
  }

  private mutating func take(
    _ delivery: Delivery, state: TopicState, nowMilliseconds: UInt64
  ) -> Offer {
    if maySendNow(delivery, state: state) {
      guard hasSpace else {
        needsDrain = true
        return .overflow
      }
      noteWaiting(nowMilliseconds: nowMilliseconds)
      delivery.place = .ready
      ready.append(delivery)
      return .queued
    }
    // "Try once if connected and active": what may not be stored has no later.
    guard delivery.notification.mayBeStored else { return .overflow }
    guard !isHeldFull else {
      needsDrain = true
      return .overflow
    }
    hold(delivery, nowMilliseconds: nowMilliseconds)
    return .held
  }

  /// Whether the queue takes another notification at once.
  var hasRoom: Bool {
    ready.count < Limits.courierQueueFrames && (ready.byteCount < queueBytes || ready.count == 0)
  }
  /// Whether it takes one of those whose wait is over.
  private var hasSpace: Bool {
    ready.count < Limits.courierCrowdedFrames
      && (ready.byteCount / Limits.crowdedQueueShares < queueBytes || ready.count == 0)
  }
  /// Whether those that wait for a better moment are as many as they may be.
  var isHeldFull: Bool {
    held.count >= Limits.courierQueueFrames
      || held.count > 0 && held.byteCount >= queueBytes
  }

  /// To be called before something is put into an empty queue: from now on the device is expected to acknowledge.
  mutating func noteWaiting(nowMilliseconds: UInt64) {
    guard ready.count == 0, inFlight.isEmpty else { return }
    backlog.noteProgress(nowMilliseconds: nowMilliseconds)
  }

  /// The next notification that was held back and for which there is room now.
  package mutating func takeHeldBack() -> Delivery? { hasRoom ? backlog.popFirst() : nil }

  /// Offers what was held back and is to wait no longer.
  package mutating func offerHeldBack(
    _ delivery: Delivery, state: TopicState, nowMilliseconds: UInt64
  ) -> Offer {
    take(delivery, state: state, nowMilliseconds: nowMilliseconds)
  }

  /// The next notification that was held back for as long as may be, and whether it is to be refused.
  package mutating func takeOverdue(
    nowMilliseconds: UInt64
  ) -> (delivery: Delivery, isRefused: Bool)? {
    backlog.popOverdue(hasSpace: hasSpace, nowMilliseconds: nowMilliseconds).map {
      ($0.delivery, $0.entry == .refuse)
    }
  }

  /// The next notification that was held back, whether there is room or not; for the end.
  package mutating func takeFirstHeldBack() -> Delivery? { backlog.popFirst() }

  package var heldBackCount: Int { backlog.count }

  /// When `takeOverdue` or `burstIsDue` has something to do; nil where nothing waits for a time.
  package var deadlineMilliseconds: UInt64? {
    guard let overdue = backlog.deadlineMilliseconds(hasSpace: hasSpace) else {
      return burstMilliseconds
    }
    return min(burstMilliseconds ?? overdue, overdue)
  }

  /// The waiting notification whose place a newer one takes, if there is one: one with the same collapse id anywhere in
  /// the queue, and of background pushes one that waits for a better moment, of which the device would keep only
  /// the newest. What is in flight stays: the device replaces what it shows.
  ///
  /// What may not be stored never replaces what may: if the device left before it acknowledged, neither would come.
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

  /// What becomes of the notification that has waited longest.
  enum Next {
    /// Nothing waits, or the window is full.
    case nothing
    /// It is in flight from now on.
    case send(Delivery)
    /// Its time is over, and the session has it no more.
    case expired(Delivery)
  }

  /// Looks at it once: each of these objects is in no cache of the processor when its turn comes.
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

  /// What is on the wire takes memory a second time.
  private var windowBytes: Int { max(1, min(Limits.courierWindowBytes, queueBytes)) }

  /// Whether the next notification may be sent beside what is in flight: a suspect is sent by itself, so that whatever
  /// becomes of the connection is its doing.
  private func mayGoAlong(_ next: Delivery) -> Bool {
    guard let first = inFlight.first else { return true }
    return !first.isSuspect && !next.isSuspect
  }

  /// The connection is over: takes out a notification that was in flight once too often.
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

  /// The device answered for `messageID`; nil for an id that is unknown or was answered before.
  package mutating func acknowledge(
    _ messageID: UInt32, nowMilliseconds: UInt64
  ) -> Delivery? {
    guard let index = inFlight.firstIndex(where: { $0.notification.messageID == messageID })
    else { return nil }
    backlog.noteProgress(nowMilliseconds: nowMilliseconds)
    return takeInFlight(at: index)
  }

  /// Takes back what waits for a topic to which nothing may be sent any more; what is in flight stays so.
  package mutating func withdraw(_ topic: TopicKey) -> [Delivery] {
    let taken =
      ready.remove { $0.notification.claims.topic == topic }
      + held.remove { $0.notification.claims.topic == topic }
    for delivery in taken { delivery.place = .none }
    return taken
  }

  /// Calls `body` for every notification in the session that has the slot of `topic` in the store.
  package func forEach(of topic: TopicKey, _ body: (Delivery) -> Void) {
    for delivery in inFlight where delivery.notification.claims.topic == topic { body(delivery) }
    ready.forEach { if $0.notification.claims.topic == topic { body($0) } }
    held.forEach { if $0.notification.claims.topic == topic { body($0) } }
  }

  /// Calls `body` for every notification in the session.
  package func forEach(_ body: (Delivery) -> Void) {
    inFlight.forEach(body)
    ready.forEach(body)
    held.forEach(body)
  }

  /// Whether a notification waits for a better moment.
  package var holdsSome: Bool { held.count > 0 }

  /// The connection is over: everything unacknowledged, in the order of acceptance.
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
