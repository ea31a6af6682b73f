import ApusCore
import ApusModel

/// A shard between a store that is a dictionary and devices that are arrays, driven as a worker drives it, with a
/// ledger of its own about every notification. What contradicts the ledger is noted in `faults`.
final class ShardModel {
  struct Slot: Hashable {
    var device: DeviceKey
    var topic: TopicKey

    struct Topic: Hashable {
      var topic: TopicKey
      var environment: Environment
    }

    var counted: Topic { Topic(topic: topic, environment: device.environment) }
  }

  struct Letter {
    var slot: Slot
    var mayBeStored: Bool
    var expirationSeconds: Int64
    var priority: Priority
    var payloadBytes: Int
    /// Empty for none.
    var collapseID = ""
    var isBackground = false
    /// Nil until the provider was answered.
    var isAccepted: Bool?

    var isReplaceable: Bool { isBackground || !collapseID.isEmpty }
  }

  struct Write {
    var slot: Slot
    /// Nil for a deletion.
    var order: UInt64?
  }

  struct Group {
    var number: UInt64
    var entries: [GroupEntry]
    var writes: [Write]
    var counters: [TopicCounters]
    /// Whether the disk has it, though the shard has not heard so.
    var isOnDisk = false
  }

  var shard = Shard(lingerMilliseconds: 20, unregisterGraceMilliseconds: 60_000)
  private(set) var devices: [Device]
  var faults: [String] = []

  /// Every notification that was counted as received, by its place in the order.
  var letters: [UInt64: Letter] = [:]
  /// Those whose end the ledger has not seen.
  var live: Set<UInt64> = []
  /// What a crash would leave.
  var store: [Slot: UInt64] = [:]
  /// The group that is being written: one at a time.
  var sealed: Group?
  /// What each device was sent and has not answered.
  var unanswered: [DeviceKey: [UInt32: UInt64]] = [:]
  /// Which devices have sent a filter on this connection.
  var filtered: Set<DeviceKey> = []
  /// Retired devices that are not purged yet.
  var purging: Set<DeviceKey> = []
  /// Which newer notification took the place of one that waited: its answer is the older one's too.
  var heirs: [UInt64: UInt64] = [:]
  /// What the shard's events say: every notification's states, in order.
  var states: [UInt64: [DeliveryState]] = [:]
  /// Those that have come to be, by the events, and not to an end.
  var pending: Set<UInt64> = []
  /// Lost their slot to a group that is written, of which the shard has not heard.
  var overwritten: Set<UInt64> = []
  /// The counters that a crash would leave.
  var durable: [Slot.Topic: TopicCounters] = [:]

  var loopMilliseconds: UInt64 = 1_000
  var wallMilliseconds: Int64 = 1_700_000_000_000
  var lastOrder: UInt64 = 100
  var wallSeconds: Int64 { wallMilliseconds / 1000 }

  init(devices count: Int = 2) {
    devices = (0..<count).map { index in
      Device(
        key: DeviceKey(
          id: DeviceID(UInt64(index / 2 + 1)),
          environment: index % 2 == 0 ? .production : .development),
        registration: Registration())
    }
  }

  /// The service is killed and started again: what was written is all that there is.
  func crash() {
    if let sealed, sealed.isOnDisk { noteDurable(sealed.counters) }
    shard = Shard(lingerMilliseconds: 20, unregisterGraceMilliseconds: 60_000)
    devices = devices.map { old in
      let device = Device(key: old.key, registration: old.registration)
      device.retiredMilliseconds = old.retiredMilliseconds
      return device
    }
    for counters in durable.values { shard.counters.restore(counters) }
    sealed = nil
    overwritten = []
    unanswered = [:]
    filtered = []
    live = Set(store.values)
    pending = live
    for order in live { letters[order]?.isAccepted = true }
    for device in devices where device.retiredMilliseconds != nil {
      shard.purge(device)
      purging.insert(device.key)
    }
  }

  static let topics = [
    TopicKey(app: AppID(1)), TopicKey(app: AppID(1), suffix: .voip), TopicKey(app: AppID(2)),
    TopicKey(app: AppID(3)),
  ]

  func fault(_ text: String) { faults.append(text) }

  func inSession() -> [UInt64: Delivery] {
    var found: [UInt64: Delivery] = [:]
    for device in devices {
      device.session?.forEach { found[$0.notification.order] = $0 }
    }
    return found
  }

  /// Notes what a newer notification took the place of: what waited before, and is gone before its time.
  func noteReplaced(_ before: [UInt64: Delivery], _ expected: UInt64) {
    let after = inSession()
    var found: UInt64 = 0
    for order in before.keys.sorted() where after[order] == nil {
      guard let older = letters[order] else { continue }
      let heir = after.keys.filter { newer in
        guard newer > order, let letter = letters[newer], letter.slot == older.slot else {
          return false
        }
        return letter.isBackground && older.isBackground
          || !letter.collapseID.isEmpty && letter.collapseID == older.collapseID
      }.min()
      guard let heir, live.remove(order) != nil else { continue }
      found += 1
      heirs[order] = heir
    }
    if found != expected { fault("\(found) were replaced, \(expected) were counted") }
  }

  /// Whether the acceptance of `order` is due when those are accepted.
  private func isAllowed(_ order: UInt64, _ allowed: Set<UInt64>) -> Bool {
    var next: UInt64? = order
    while let order = next {
      if allowed.contains(order) || letters[order]?.mayBeStored == false { return true }
      next = heirs[order]
    }
    return false
  }

  func count(_ state: DeliveryState) -> UInt64 { shard.counters.states[Int(state.rawValue)] }

  // MARK: Providers

  /// The notification's place in the order; nil when it was refused.
  @discardableResult
  func submit(
    _ device: Device, _ topic: TopicKey, priority: Priority = .immediate,
    expiresInSeconds: Int64 = 86_400, payloadBytes: Int = 10, generation: UInt16 = 0,
    collapseID: String = "", isBackground: Bool = false
  ) -> UInt64? {
    lastOrder += 1
    let order = lastOrder
    let notification = take()
    fill(
      notification, order,
      Letter(
        slot: Slot(device: device.key, topic: topic), mayBeStored: expiresInSeconds > 0,
        expirationSeconds: expiresInSeconds > 0 ? wallSeconds + expiresInSeconds : 0,
        priority: priority, payloadBytes: payloadBytes, collapseID: collapseID,
        isBackground: isBackground))
    notification.claims.generation = generation
    let received = count(.received)
    letters[order] = Letter(
      slot: Slot(device: device.key, topic: topic), mayBeStored: expiresInSeconds > 0,
      expirationSeconds: notification.expirationSeconds, priority: priority,
      payloadBytes: payloadBytes, collapseID: collapseID, isBackground: isBackground)
    let before = inSession()
    let replaced = count(.replaced)
    let isIgnored = device.registration[topic]?.state == .ignored
    shard.submit(
      notification, answer: Answer(worker: 1, slot: UInt32(order), generation: 7), device: device,
      nowMilliseconds: wallMilliseconds, loopMilliseconds: loopMilliseconds)
    guard count(.received) > received else {
      letters[order] = nil
      if shard.verdicts.count != 1 || shard.verdicts.first?.rejection == nil {
        fault("a notification that was not received was not refused")
      }
      shard.verdicts.removeAll()
      return nil
    }
    live.insert(order)
    noteReplaced(before, count(.replaced) - replaced)
    takeVerdicts(allowed: isIgnored ? [order] : [], "submit")
    return order
  }

  /// A notification out of the pool, which nobody else may hold.
  func take() -> Notification {
    let notification = shard.takeNotification()
    var held = false
    for device in devices {
      device.session?.forEach { if $0.notification === notification { held = true } }
    }
    let written = sealed?.entries.contains { $0.delivery?.notification === notification } ?? false
    if held || written { fault("a notification is given out that is in use") }
    return notification
  }

  func fill(_ notification: Notification, _ order: UInt64, _ letter: Letter) {
    notification.order = order
    notification.claims = TokenClaims(
      device: letter.slot.device.id, topic: letter.slot.topic,
      environment: letter.slot.device.environment, generation: 0)
    notification.expirationSeconds = letter.expirationSeconds
    notification.priority = letter.priority
    notification.isFromStorage = false
    notification.isBackground = letter.isBackground
    notification.collapseID.set(Array(letter.collapseID.utf8).span)
    let payload = [UInt8](repeating: UInt8(truncatingIfNeeded: order), count: letter.payloadBytes)
    notification.payload.set(payload.span)
  }

  /// Accepting answers are due for `allowed` alone, and for what is not to be stored.
  func takeVerdicts(allowed: Set<UInt64>, _ verb: String) {
    for verdict in shard.verdicts {
      let order = UInt64(verdict.answer.slot)
      guard let letter = letters[order] else {
        fault("\(verb): an answer to nobody")
        continue
      }
      if letter.isAccepted != nil { fault("\(verb): \(order) is answered twice") }
      letters[order]?.isAccepted = verdict.rejection == nil
      if verdict.rejection == nil, !isAllowed(order, allowed) {
        fault("\(verb): \(order) is accepted, and neither stored nor acknowledged")
      }
    }
    shard.verdicts.removeAll()
  }

  // MARK: Devices

  func connect(_ device: Device) {
    shard.connect(device, slot: 1)
    unanswered[device.key] = [:]
    filtered.remove(device.key)
  }

  func disconnect(_ device: Device) {
    var left: [Delivery] = []
    device.session?.forEach { left.append($0) }
    // One slot for each app: an older one is answered as replaced by a newer.
    let replaced = left.filter { older in
      left.contains {
        $0.notification.mayBeStored && $0.notification.order > older.notification.order
          && $0.notification.claims.topic == older.notification.claims.topic
      }
    }
    for older in replaced {
      heirs[older.notification.order] =
        left.filter {
          $0.notification.mayBeStored
            && $0.notification.claims.topic == older.notification.claims.topic
        }.map(\.notification.order).max()
    }
    let cancelled = replaced.filter { $0.storage == .gathering && !$0.isUrgent }
      .map(\.notification.order)
    let orders = Set(left.filter { $0.storage == .durable }.map(\.notification.order))
    shard.disconnect(device, loopMilliseconds: loopMilliseconds)
    unanswered[device.key] = nil
    filtered.remove(device.key)
    live.subtract(cancelled)
    takeVerdicts(allowed: orders, "disconnect")
  }

  func filter(_ device: Device, _ lists: [TopicKey: TopicState]) {
    shard.filter(device, lists: lists, nowMilliseconds: wallMilliseconds)
    if device.session != nil { filtered.insert(device.key) }
    takeVerdicts(allowed: [], "filter")
  }

  func filterAll(_ device: Device, _ state: TopicState = .enabled) {
    filter(device, Dictionary(uniqueKeysWithValues: Self.topics.map { ($0, state) }))
  }

  /// Sends one notification; its place in the order.
  @discardableResult
  func send(_ device: Device) -> UInt64? {
    let bytes = bytesInFlight(device)
    let expired = count(.expired)
    let replaced = count(.replaced)
    let before = inSession()
    guard
      let delivery = shard.nextToSend(
        device, nowSeconds: wallSeconds, loopMilliseconds: loopMilliseconds)
    else {
      expire(before, expired: count(.expired) - expired, replaced: count(.replaced) - replaced)
      return nil
    }
    expire(before, expired: count(.expired) - expired, replaced: count(.replaced) - replaced)
    let notification = delivery.notification
    let order = notification.order
    let topic = notification.claims.topic
    if !filtered.contains(device.key) { fault("\(order) is sent before the filter") }
    if device.registration[topic]?.state.flows != true {
      fault("\(order) is sent to no open topic")
    }
    if notification.claims.device != device.key.id
      || notification.claims.environment != device.key.environment
    {
      fault("\(order) is sent to another device")
    }
    if !live.contains(order) { fault("\(order) is sent after its end") }
    if notification.isExpired(atSeconds: wallSeconds) { fault("\(order) is sent past its time") }
    if let letter = letters[order] {
      let expected = [UInt8](
        repeating: UInt8(truncatingIfNeeded: order), count: letter.payloadBytes)
      if notification.payload.span.copied() != expected { fault("\(order) has another's payload") }
    }
    if device.session?.inFlightCount ?? 0 > 32 { fault("more than 32 are in flight") }
    if bytes >= 131_072 { fault("more than 128 KiB are in flight") }
    if unanswered[device.key]?.updateValue(order, forKey: notification.messageID) != nil {
      fault("\(order) is sent twice on one connection")
    }
    return order
  }

  /// What was found past its time instead of being sent. What was held back may come in, and replace something.
  private func expire(
    _ before: [UInt64: Delivery], expired expected: UInt64, replaced: UInt64
  ) {
    noteReplaced(before.filter { letters[$0.key]?.isReplaceable ?? false }, replaced)
    let after = inSession()
    var found: UInt64 = 0
    for order in before.keys where after[order] == nil && heirs[order] == nil {
      found += 1
      guard let letter = letters[order] else { continue }
      if letter.expirationSeconds == 0 || letter.expirationSeconds > wallSeconds {
        fault("\(order) is dropped before its time")
      }
      live.remove(order)
    }
    if found != expected { fault("\(found) expired, \(expected) were counted") }
    takeVerdicts(allowed: Set(before.keys).subtracting(after.keys), "send")
  }

  /// Says that time has passed to a session that waits for it.
  func deadlineReached(_ device: Device) {
    guard let deadline = device.session?.deadlineMilliseconds, deadline <= loopMilliseconds
    else { return }
    shard.deadlineReached(device, loopMilliseconds: loopMilliseconds)
    takeVerdicts(allowed: [], "deadline")
    if let next = device.session?.deadlineMilliseconds, next <= loopMilliseconds {
      fault("a deadline that stays")
    }
  }

  func bytesInFlight(_ device: Device) -> Int {
    (unanswered[device.key] ?? [:]).values.reduce(0) { $0 + (letters[$1]?.payloadBytes ?? 0) }
  }

  func acknowledge(_ device: Device, messageID: UInt32, status: UInt8 = 0) {
    let counted: [DeliveryState] = [.delivered, .deliveredFromStorage, .refusedByDevice]
    let before = counted.map(count)
    let order = unanswered[device.key]?.removeValue(forKey: messageID)
    let wasStored = order.flatMap { inSession()[$0]?.notification.isFromStorage }
    shard.acknowledge(device, messageID: messageID, status: status)
    var expected = before
    if let order {
      live.remove(order)
      expected[status != 0 ? 2 : wasStored == true ? 1 : 0] += 1
    }
    if counted.map(count) != expected { fault("an acknowledgement is counted otherwise") }
    takeVerdicts(allowed: order.map { [$0] } ?? [], "acknowledge")
  }
}
