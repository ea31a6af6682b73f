package import ApusModel

/// The delivery side of one device's connection: what is sent, what is awaited, what is held back.
///
/// ```
/// awaitingFilter --filter--> draining --drained--> serving --overflow emptied--> draining
/// ```
///
/// Notifications wait in `ready` for a place in the window and in `held` for a better moment. The number of both is
/// bounded by `Limits.courierQueueFrames`; what does not fit waits in the store alone, and `needsDrain` remembers it.
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
  package private(set) var isActive = true
  package private(set) var needsDrain = false
  private var ready = DeliveryQueue()
  private var held = DeliveryQueue()
  private var inFlight: [Delivery] = []
  private var inFlightBytes = 0
  private var sentSinceWake = false

  package init() {}

  package var inFlightCount: Int { inFlight.count }
  package var queuedCount: Int { ready.count + held.count }

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
  /// `more` says that not all of them fitted.
  package mutating func drained(_ stored: [Delivery], more: Bool) {
    phase = .serving
    needsDrain = needsDrain || more
    stored.last?.isLastFromStorage = !more
    for delivery in stored.reversed() {
      delivery.place = .ready
      ready.prepend(delivery)
    }
  }

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
  }

  // MARK: New notifications

  package enum Offer: Equatable, Sendable {
    /// Will be sent as soon as the window allows.
    case queued
    /// Waits for the device to wake, or for the radio to be in use anyway.
    case held
    /// There is no room; it must wait in the store.
    case overflow
  }

  /// Decides about a notification of a topic whose notifications flow.
  package mutating func offer(_ delivery: Delivery, state: TopicState) -> Offer {
    guard ready.count + held.count < Limits.courierQueueFrames else {
      needsDrain = true
      return .overflow
    }
    if maySendNow(delivery.notification.priority, state: state) {
      delivery.place = .ready
      ready.append(delivery)
      if delivery.notification.priority == .immediate, state == .enabled { wake() }
      return .queued
    }
    // "Try once if connected and active": what may not be stored has no later.
    guard delivery.notification.mayBeStored else { return .overflow }
    delivery.place = .held
    held.append(delivery)
    return .held
  }

  /// Priority 10 goes at once, 5 and opportunistic topics when the device is awake, 1 when it is active.
  private func maySendNow(_ priority: Priority, state: TopicState) -> Bool {
    if isActive { return true }
    return priority == .immediate && state != .opportunistic
  }

  // MARK: Power

  /// Set state (0x14).
  package mutating func setActive(_ active: Bool) {
    isActive = active
    if active { releaseHeld(includingWhenActive: true) }
  }

  /// The radio is awake: a keep-alive came, or an immediate notification goes out.
  package mutating func wake() {
    if held.count > 0 { releaseHeld(includingWhenActive: isActive) }
  }

  private mutating func releaseHeld(includingWhenActive: Bool) {
    var staying = DeliveryQueue()
    while let delivery = held.popFirst() {
      if delivery.notification.priority == .whenActive, !includingWhenActive {
        staying.append(delivery)
      } else {
        delivery.place = .ready
        ready.append(delivery)
      }
    }
    held = staying
  }

  // MARK: Sending and acknowledgements

  /// The next notification to send, which is in flight from then on; nil when the window is full or nothing waits.
  package mutating func nextToSend() -> Delivery? {
    guard phase == .serving, inFlight.count < Limits.courierWindowFrames,
      inFlightBytes < Limits.courierWindowBytes, let delivery = ready.popFirst()
    else { return nil }
    delivery.place = .inFlight
    inFlight.append(delivery)
    inFlightBytes += delivery.notification.payload.count
    return delivery
  }

  /// Takes the next notification to send out of the session if its time is over.
  package mutating func takeExpired(nowSeconds: Int64) -> Delivery? {
    guard let first = ready.first, first.notification.isExpired(atSeconds: nowSeconds) else {
      return nil
    }
    first.place = .none
    return ready.popFirst()
  }

  /// The device answered for `messageID`; nil for an id that is unknown or was answered before.
  package mutating func acknowledge(_ messageID: UInt32) -> Delivery? {
    guard let index = inFlight.firstIndex(where: { $0.notification.messageID == messageID })
    else { return nil }
    let delivery = inFlight.remove(at: index)
    inFlightBytes -= delivery.notification.payload.count
    delivery.place = .none
    return delivery
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

  /// The connection is over: everything unacknowledged, in the order of acceptance.
  package mutating func close() -> [Delivery] {
    var all = inFlight
    ready.forEach { all.append($0) }
    held.forEach { all.append($0) }
    for delivery in all { delivery.place = .none }
    self = DeviceSession()
    return all.sorted { $0.notification.order < $1.notification.order }
  }
}

/// First in, first out, on one array whose memory stays.
struct DeliveryQueue {
  private var items: [Delivery] = []
  private var head = 0

  var count: Int { items.count - head }
  var first: Delivery? { head < items.count ? items[head] : nil }

  mutating func append(_ delivery: Delivery) { items.append(delivery) }

  mutating func prepend(_ delivery: Delivery) { items.insert(delivery, at: head) }

  mutating func popFirst() -> Delivery? {
    guard head < items.count else { return nil }
    let delivery = items[head]
    head += 1
    if head == items.count {
      items.removeAll(keepingCapacity: items.count <= 64)
      head = 0
    } else if head >= 64 {
      items.removeFirst(head)
      head = 0
    }
    return delivery
  }

  func contains(where matches: (Delivery) -> Bool) -> Bool {
    items[head...].contains(where: matches)
  }

  func forEach(_ body: (Delivery) -> Void) { items[head...].forEach(body) }

  mutating func remove(where matches: (Delivery) -> Bool) -> [Delivery] {
    let taken = items[head...].filter(matches)
    if !taken.isEmpty {
      items = items[head...].filter { !matches($0) }
      head = 0
    }
    return taken
  }
}
