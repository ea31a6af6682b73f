import ApusCore
import ApusModel

extension ShardModel {
  // MARK: Group commit

  func seal(all: Bool = false, trimming: Bool = true) {
    guard sealed == nil else { return }
    if trimming { shard.trimGroup() }
    var entries: [GroupEntry] = []
    let number = shard.sealGroup(into: &entries, nowMilliseconds: loopMilliseconds, all: all)
    for entry in entries where entry.kind == .put { loadStored(entry.device) }
    var counters: [TopicCounters] = []
    shard.takeDurableCounters(with: entries) { counters.append($0) }
    var writes: [Write] = []
    var seen: Set<ObjectIdentifier> = []
    for entry in entries {
      let slot = Slot(device: entry.device.key, topic: entry.topic)
      switch entry.kind {
      case .record: break
      case .delete: writes.append(Write(slot: slot, order: nil))
      case .put:
        guard let delivery = entry.delivery else {
          fault("a put of nothing")
          continue
        }
        let order = delivery.notification.order
        if !seen.insert(ObjectIdentifier(delivery)).inserted { fault("\(order) is written twice") }
        if letters[order]?.slot != slot { fault("\(order) is written for another") }
        if letters[order]?.mayBeStored != true { fault("\(order) must not be stored") }
        if !live.contains(order) { fault("\(order) is written after its end") }
        writes.append(Write(slot: slot, order: order))
      }
    }
    sealed = Group(number: number, entries: entries, writes: writes, counters: counters)
    takeVerdicts(allowed: [], "seal")
  }

  /// The disk has the group; the shard is told later.
  func write() {
    guard var group = sealed, !group.isOnDisk else { return }
    group.isOnDisk = true
    sealed = group
    for write in group.writes {
      let old = store[write.slot]
      store[write.slot] = write.order
      guard let old, old != write.order, live.contains(old) else { continue }
      guard let order = write.order else {
        fault("a deletion took \(old)")
        continue
      }
      if order < old { fault("\(order) took the slot of \(old), which is newer") }
      overwritten.insert(old)
    }
  }

  func commit(succeeded: Bool = true) {
    if succeeded { write() }
    guard let group = sealed else { return }
    // What is on the disk has not failed.
    let succeeded = group.isOnDisk
    sealed = nil
    let session = inSession()
    for old in overwritten where session[old] == nil { live.remove(old) }
    overwritten = []
    let written = Set(group.writes.compactMap(\.order))
    let open = written.filter { letters[$0]?.isAccepted == nil }
    let eventsBefore = shard.events.count
    shard.committed(group.entries, number: group.number, succeeded: succeeded)
    for event in shard.events[eventsBefore...]
    where event.causeCode == LedgerCause.replacementFailed.rawValue {
      let order = event.facts.order
      if let slot = letters[order]?.slot, store[slot] != order { fault("\(order) is not stored") }
      live.insert(order)
    }
    takeVerdicts(allowed: succeeded ? written : [], "commit")
    for order in open {
      if letters[order]?.isAccepted != succeeded { fault("\(order) is not answered") }
      if !succeeded, session[order] == nil { live.remove(order) }
    }
    if succeeded { noteDurable(group.counters) } else { shard.counters.markAllChanged() }
    checkDurable()
  }

  func noteDurable(_ counters: [TopicCounters]) {
    for counters in counters {
      let topic = Slot.Topic(topic: counters.topic, environment: counters.environment)
      durable[topic] = counters
    }
  }

  /// What a crash would leave is as many notifications as the counters beside them say.
  private func checkDurable() {
    var kept: [Slot.Topic: Int64] = [:]
    for slot in store.keys { kept[slot.counted, default: 0] += 1 }
    for topic in Set(kept.keys).union(durable.keys) {
      let counters = durable[topic]
      if counters?.pending ?? 0 != kept[topic] ?? 0 {
        fault("\(kept[topic] ?? 0) are stored, \(counters?.pending ?? 0) are counted as such")
      }
      if counters?.isBalanced == false { fault("the durable counters are out of balance") }
    }
  }

  /// Reads what is stored for a device that was taken into memory, as its owner does.
  func loadStored(_ device: Device) {
    guard !device.knowsStored else { return }
    var found: [NotificationFacts] = []
    for (slot, order) in store where slot.device == device.key {
      if let facts = facts(order) { found.append(facts) }
    }
    shard.loadStored(found, of: device)
  }

  func facts(_ order: UInt64) -> NotificationFacts? {
    letters[order].map { letter in
      let notification = Notification()
      fill(notification, order, letter)
      return notification.facts
    }
  }

  /// Whether the disk has the notification, and the shard has not heard so.
  func isOnlyOnDisk(_ order: UInt64) -> Bool {
    sealed?.isOnDisk == true && sealed?.writes.contains { $0.order == order } == true
  }

  /// The store comes by its rows, and the device's owner ends those that are past their time.
  func comeBy(_ device: Device) {
    guard device.pendingWrites == 0 else { return }
    loadStored(device)
    let session = inSession()
    for (slot, order) in store where slot.device == device.key {
      guard let letter = letters[order], letter.expirationSeconds <= wallSeconds else { continue }
      expire(order, letter, device, isInSession: session[order] != nil)
    }
    takeVerdicts(allowed: [], "expire")
  }

  /// A device that was not looked at for long is forgotten, and read anew when it is needed.
  func forget(_ device: Device) {
    if device.session == nil, device.pendingWrites == 0 { device.forgetStored() }
  }

  // MARK: Draining

  func drain() {
    while !shard.drains.isEmpty {
      let devices = shard.drains
      shard.drains.removeAll()
      for device in devices { drain(device) }
    }
  }

  private func drain(_ device: Device) {
    if device.retiredMilliseconds != nil { return purge(device) }
    if device.session == nil { fault("a drain without a connection") }
    if !filtered.contains(device.key) { fault("a drain before the filter") }
    loadStored(device)
    var found: [UInt64] = []
    let before = inSession()
    for (slot, order) in store where slot.device == device.key {
      guard device.registration[slot.topic]?.state.flows == true, let letter = letters[order]
      else { continue }
      guard letter.expirationSeconds <= wallSeconds else {
        found.append(order)
        continue
      }
      expire(order, letter, device, isInSession: before[order] != nil)
    }
    found.sort()
    let room = max(1, Limits.courierQueueFrames - (device.session?.queuedCount ?? 0))
    let stored = found.prefix(room).compactMap { order in
      letters[order].map { letter in
        let notification = take()
        fill(notification, order, letter)
        return notification
      }
    }
    shard.drained(
      device, Array(stored), more: found.count > room, loopMilliseconds: loopMilliseconds)
    let after = inSession()
    for order in found.prefix(room) where before[order] == nil && after[order] != nil {
      if !live.contains(order) { fault("\(order) comes from the store after its end") }
    }
    takeVerdicts(allowed: [], "drain")
  }

  private func expire(_ order: UInt64, _ letter: Letter, _ device: Device, isInSession: Bool) {
    let before = count(.expired)
    let notification = Notification()
    fill(notification, order, letter)
    shard.expired(notification, of: device)
    let counted = count(.expired) - before
    // What the shard has not heard to be stored is for the next drain.
    if isInSession || isOnlyOnDisk(order) {
      if counted != 0 { fault("\(order) is counted as expired, and is on its way") }
    } else if live.remove(order) != nil {
      if counted != 1 { fault("\(order) expired without being counted") }
    } else if counted != 0 {
      fault("\(order) expired after its end")
    }
  }

  // MARK: What must hold at any time

  func check() {
    var session: [UInt64: Delivery] = [:]
    var seen: [ObjectIdentifier: UInt64] = [:]
    for device in devices {
      var flight = 0
      device.session?.forEach { delivery in
        let order = delivery.notification.order
        if session.updateValue(delivery, forKey: order) != nil {
          fault("\(order) is in the session twice")
        }
        for object in [ObjectIdentifier(delivery), ObjectIdentifier(delivery.notification)]
        where seen.updateValue(order, forKey: object) != nil {
          fault("an object stands for two notifications")
        }
        if delivery.device !== device { fault("\(order) is in another device's session") }
        if !live.contains(order) { fault("\(order) is in the session after its end") }
        if delivery.place == .inFlight { flight += 1 }
      }
      if flight > 32 || flight != device.session?.inFlightCount ?? 0 { fault("the window") }
      // What a drain brings is bounded by itself, for it may bring one where there is no room.
      if device.session?.queuedCount ?? 0 > 2 * Limits.courierQueueFrames { fault("the queue") }
      if device.pendingWrites < 0 { fault("pending writes below zero") }
    }
    for order in live {
      guard let letter = letters[order] else { continue }
      let isKept =
        letter.isAccepted == nil || session[order] != nil || store[letter.slot] == order
        || overwritten.contains(order)
      if !isKept { live.remove(order) }
    }
    checkLedger()
    // What is gone may stay in the store until its deletion is written, no longer.
    if sealed == nil, shard.isGroupEmpty, !shard.hasRetries {
      for (slot, order) in store where !live.contains(order) {
        fault("\(order) has ended and is still stored at \(slot.topic)")
      }
      for device in devices where device.pendingWrites != 0 {
        fault("\(device.pendingWrites) writes are pending of none")
      }
    }
  }

  /// The events tell each notification's way, the counters what they add up to, and both agree with what came to pass.
  func checkLedger() {
    for event in shard.events {
      let order = event.facts.order
      let known = states[order] ?? []
      let isKept =
        event.causeCode == LedgerCause.replacementFailed.rawValue && known.last == .replaced
      if event.state == .received ? !known.isEmpty && !isKept : !pending.contains(order) {
        fault("\(order) comes to \(event.state) after \(known)")
      }
      if letters[order]?.slot.topic != event.facts.topic { fault("\(order) is noted as another") }
      states[order, default: []].append(event.state)
      if event.state == .received {
        pending.insert(order)
      } else if event.state.isTerminal {
        pending.remove(order)
      }
    }
    shard.events.removeAll()
    if pending != live {
      fault(
        "\(pending.subtracting(live).sorted()) have ended without an event, "
          + "\(live.subtracting(pending).sorted()) have an end too early")
    }
    var expected: [Slot.Topic: Int64] = [:]
    for order in live {
      if let slot = letters[order]?.slot { expected[slot.counted, default: 0] += 1 }
    }
    for counters in shard.counters.snapshot() {
      let topic = Slot.Topic(topic: counters.topic, environment: counters.environment)
      if !counters.isBalanced || counters.pending != expected[topic] ?? 0 {
        fault("\(counters.accepted) accepted, \(counters.ended) ended, \(counters.pending) pending")
      }
    }
  }

  // MARK: A whole cycle

  /// Disconnects, lets everything be written, connects anew and takes what was kept.
  func cycle(_ device: Device) {
    endRetirement(device)
    var expected: [TopicKey: UInt64] = [:]
    let session = inSession()
    for order in live {
      guard let letter = letters[order], letter.slot.device == device.key, letter.mayBeStored,
        letter.isAccepted != false, session[order]?.storage != .superseded,
        !isBeingReplaced(order, letter.slot)
      else { continue }
      expected[letter.slot.topic] = max(expected[letter.slot.topic] ?? 0, order)
    }
    disconnect(device)
    settle()
    for (topic, order) in expected {
      let kept = store[Slot(device: device.key, topic: topic)]
      if kept != order { fault("\(order) was not kept, but \(kept.map(String.init) ?? "nothing")") }
    }
    check()
    connect(device)
    filterAll(device)
    settle()
    let due = expected.values.filter {
      letters[$0].map { $0.expirationSeconds > wallSeconds } ?? false
    }
    .sorted()
    var came: [UInt64] = []
    for _ in 0..<200 {
      guard let order = send(device) else { break }
      came.append(order)
      if let delivery = inSession()[order] {
        if !delivery.notification.isFromStorage {
          fault("\(order) does not say where it comes from")
        }
        let isLast = order == due.last
        if delivery.isLastFromStorage != isLast {
          fault("\(order) is not marked as it stands")
        }
      }
    }
    if came != due { fault("\(due) should have come, not \(came)") }
  }

  /// Whether the group that is being written has a newer notification for the slot, which may have ended since.
  private func isBeingReplaced(_ order: UInt64, _ slot: Slot) -> Bool {
    if overwritten.contains(order) { return true }
    let orders = sealed?.writes.filter { $0.slot == slot }.compactMap(\.order) ?? []
    return (store[slot] == order || orders.contains(order)) && orders.contains { $0 > order }
  }

  /// Writes everything and fetches what can be fetched then.
  func settle() {
    for _ in 0..<4 {
      commit()
      drain()
      loopMilliseconds += 1
      seal(all: true)
    }
    commit()
    drain()
  }
}
