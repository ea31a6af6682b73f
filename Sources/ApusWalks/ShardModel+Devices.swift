package import ApusCore
package import ApusModel

extension ShardModel {
  // MARK: Devices

  package func connect(_ device: Device) {
    if device.session != nil { disconnect(device) }
    shard.connect(device, slot: 1)
    unanswered[device.key] = [:]
    filtered.remove(device.key)
  }

  package func disconnect(_ device: Device) {
    var left: [Delivery] = []
    device.session?.forEach { left.append($0) }
    let poison = noteLost(device, left)
    left.removeAll { poison.contains($0.notification.order) }
    // The retention of each app: an older one is answered as replaced by a newer one.
    var newer: [TopicKey: [UInt64]] = [:]
    var replaced: [Delivery] = []
    for older in left.sorted(by: { $0.notification.order > $1.notification.order }) {
      let topic = older.notification.claims.topic
      if newer[topic]?.count ?? 0 >= retention(topic) {
        replaced.append(older)
        successors[older.notification.order] = newer[topic]?.first
      } else if older.notification.mayBeStored {
        newer[topic, default: []].append(older.notification.order)
      }
    }
    let cancelled = replaced.filter { $0.storage == .gathering && !$0.isUrgent }
      .map(\.notification.order)
    let orders = Set(left.filter { $0.storage == .durable }.map(\.notification.order))
    // These end with their session. Those that the disk kept come back when it has been read, unless a newer one that
    // has ended had their slot: then they are deleted.
    let ended = cancelled + left.filter { $0.storage == .inDoubt }.map(\.notification.order)
    let before = count(.discardedUnacknowledged)
    shard.disconnect(device, loopMilliseconds: loopMilliseconds)
    if count(.discardedUnacknowledged) - before != UInt64(poison.count) {
      fault("\(poison) were sent once too often, and are not set aside")
    }
    unanswered[device.key] = nil
    filtered.remove(device.key)
    live.subtract(ended)
    takeVerdicts(allowed: orders.union(poison), "disconnect")
  }

  /// Counts an ended connection for each notification in flight; returns those for which it was the last one allowed.
  private func noteLost(_ device: Device, _ session: [Delivery]) -> Set<UInt64> {
    var poison: Set<UInt64> = []
    for order in (unanswered[device.key] ?? [:]).values {
      ends[order, default: 0] += 1
      if ends[order] == Limits.unacknowledgedEnds { poison.insert(order) }
    }
    live.subtract(poison)
    return poison
  }

  package func retention(_ topic: TopicKey) -> Int { shard.slots.retentions[topic.app] ?? 1 }

  package func filter(_ device: Device, _ lists: [TopicKey: TopicState]) {
    shard.filter(device, lists: lists, nowMilliseconds: wallMilliseconds)
    if device.session != nil { filtered.insert(device.key) }
    takeVerdicts(allowed: [], "filter")
  }

  package func filterAll(_ device: Device, _ state: TopicState = .enabled) {
    filter(device, Dictionary(uniqueKeysWithValues: Self.topics.map { ($0, state) }))
  }

  /// Sends one notification; returns its order.
  @discardableResult
  package func send(_ device: Device) -> UInt64? {
    let bytes = bytesInFlight(device)
    let expired = count(.expired)
    let replaced = count(.replaced)
    let before = takeKnown()
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
    if notification.isFromStorage {
      sentFromStorage.insert(order)
    } else {
      sentFromStorage.remove(order)
    }
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
      let payload = notification.payload
      if payload.span.copied() != expected { fault("\(order) has another's payload") }
    }
    if device.session?.inFlightCount ?? 0 > 32 { fault("more than 32 are in flight") }
    if bytes >= 131_072 { fault("more than 128 KiB are in flight") }
    if unanswered[device.key]?.updateValue(order, forKey: notification.messageID) != nil {
      fault("\(order) is sent twice on one connection")
    }
    return order
  }

  /// Handles notifications found expired instead of being sent. Held-back ones may enter, and replace others or be
  /// replaced at once.
  private func expire(
    _ before: Set<UInt64>, expired expected: UInt64, replaced: UInt64
  ) {
    if expected == 0, replaced == 0, heldBack.isEmpty, sessionCount == before.count {
      takeVerdicts(allowed: [], "send")
      known = before
      return
    }
    let gone = leave(before, expired: expected, replaced: replaced)
    takeVerdicts(allowed: gone, "send")
  }

  /// Records how notifications left the sessions, and where admitted ones went that had been held back. Returns those
  /// that are in no session.
  private func leave(
    _ before: Set<UInt64>, expired expected: UInt64, replaced: UInt64
  ) -> Set<UInt64> {
    let waiting = heldBack
    noteAdmitted()
    let admitted = waiting.subtracting(heldBack)
    let all = before.union(admitted)
    // Only the events tell which of those that a newer one may replace were: others expired, or went to the store.
    let replacements =
      replaced == 0
      ? []
      : noteReplaced(
        all.intersection(noted(.replaced)), before: before, admitted: admitted, replaced)
    let gone = all.subtracting(inSession().keys)
    let expiredNow = noted(.expired)
    var found: UInt64 = 0
    for order in gone where !replacements.contains(order) {
      guard let letter = letters[order] else { continue }
      let wasInSession = before.contains(order)
      if wasInSession, letter.expirationSeconds == 0 || letter.expirationSeconds > wallSeconds {
        fault("\(order) is dropped before its time")
      }
      if wasInSession || expiredNow.contains(order) {
        found += 1
      } else if letter.mayBeStored {
        // Admitted as for an offline device, because its device is stalled: it goes to the store, where it may expire.
        continue
      }
      live.remove(order)
    }
    if found != expected { fault("\(found) expired, \(expected) were counted") }
    return gone
  }

  /// The notifications with that state among the shard's latest events.
  private func noted(_ state: DeliveryState) -> Set<UInt64> {
    Set(shard.ledger.events.lazy.filter { $0.state == state }.map(\.facts.order))
  }

  /// Advances the time for a session that waits for it.
  package func deadlineReached(_ device: Device) {
    guard let deadline = device.session?.deadlineMilliseconds, deadline <= loopMilliseconds
    else { return }
    let before = takeKnown()
    let (expired, replaced) = (count(.expired), count(.replaced))
    shard.deadlineReached(device, loopMilliseconds: loopMilliseconds)
    _ = leave(before, expired: count(.expired) - expired, replaced: count(.replaced) - replaced)
    takeVerdicts(allowed: [], "deadline")
    if let next = device.session?.deadlineMilliseconds, next <= loopMilliseconds {
      fault("a deadline that stays")
    }
  }

  package func bytesInFlight(_ device: Device) -> Int {
    (unanswered[device.key] ?? [:]).values.reduce(0) { $0 + (letters[$1]?.payloadBytes ?? 0) }
  }

  package func acknowledge(_ device: Device, messageID: UInt32, status: UInt8 = 0) {
    let counted: [DeliveryState] = [.delivered, .deliveredFromStorage, .refusedByDevice]
    var expected = counted.map(count)
    let order = unanswered[device.key]?.removeValue(forKey: messageID)
    var before = takeKnown()
    shard.acknowledge(
      device, messageID: messageID, status: status, loopMilliseconds: loopMilliseconds)
    if let order {
      live.remove(order)
      expected[status != 0 ? 2 : sentFromStorage.remove(order) != nil ? 1 : 0] += 1
    }
    if counted.map(count) != expected { fault("an acknowledgement is counted otherwise") }
    takeVerdicts(allowed: order.map { [$0] } ?? [], "acknowledge")
    if let order, before.remove(order) != nil, sessionCount == before.count { known = before }
  }
}
