import ApusCore
import ApusModel

extension ShardModel {
  // MARK: Group commit

  func seal(all: Bool = false, trimming: Bool = true) {
    guard sealed == nil else { return }
    if trimming { shard.trimGroup() }
    var entries: [GroupEntry] = []
    let number = shard.sealGroup(into: &entries, nowMilliseconds: loopMilliseconds, all: all)
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
    sealed = Group(number: number, entries: entries, writes: writes)
    takeVerdicts(allowed: [], "seal")
  }

  func commit(succeeded: Bool = true) {
    guard let group = sealed else { return }
    sealed = nil
    let session = inSession()
    var written: Set<UInt64> = []
    for write in group.writes {
      if succeeded { apply(write, session) }
      if let order = write.order { written.insert(order) }
      if !succeeded, let old = store[write.slot], !live.contains(old) {
        undead.insert(old)
      }
    }
    let open = written.filter { letters[$0]?.isAccepted == nil }
    shard.committed(group.entries, number: group.number, succeeded: succeeded)
    takeVerdicts(allowed: succeeded ? written : [], "commit")
    for order in open {
      if letters[order]?.isAccepted != succeeded { fault("\(order) is not answered") }
      if !succeeded, session[order] == nil, live.remove(order) != nil { refused += 1 }
    }
  }

  private func apply(_ write: Write, _ session: [UInt64: Delivery]) {
    let old = store[write.slot]
    store[write.slot] = write.order
    guard let old, old != write.order, live.contains(old) else { return }
    guard let order = write.order else { return fault("a deletion took \(old)") }
    if order < old { return fault("\(order) took the slot of \(old), which is newer") }
    if session[old] == nil {
      live.remove(old)
      replacedUnseen += 1
    }
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
    var found: [UInt64] = []
    let before = inSession()
    for (slot, order) in store where slot.device == device.key {
      guard device.registration[slot.topic]?.state.flows == true, let letter = letters[order]
      else { continue }
      guard letter.expirationSeconds <= wallSeconds else {
        found.append(order)
        continue
      }
      expire(order, slot.topic, device, isInSession: before[order] != nil)
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
      guard !live.contains(order) else { continue }
      if undead.remove(order) != nil {
        live.insert(order)
        revived += 1
      } else {
        fault("\(order) comes from the store after its end")
      }
    }
    takeVerdicts(allowed: [], "drain")
  }

  private func expire(_ order: UInt64, _ topic: TopicKey, _ device: Device, isInSession: Bool) {
    let before = count(.expired)
    shard.expired(topic, order: order, of: device)
    let counted = count(.expired) - before
    if isInSession {
      if counted != 0 { fault("\(order) is counted as expired, and is in the session") }
    } else if live.remove(order) != nil {
      if counted != 1 { fault("\(order) expired without being counted") }
    } else if undead.remove(order) != nil {
      revived += Int(counted)
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
      let isKept = letter.isAccepted == nil || session[order] != nil || store[letter.slot] == order
      if !isKept { live.remove(order) }
    }
    let ended = DeliveryState.allCases.filter(\.isTerminal).reduce(0) { $0 + Int(count($1)) }
    let expected = Int(count(.received)) + revived - live.count - replacedUnseen - refused
    if ended != expected { fault("\(ended) ends are counted, \(expected) came to pass") }
    // What is gone may stay in the store until its deletion is written, no longer.
    if sealed == nil, shard.isGroupEmpty {
      for (slot, order) in store where !live.contains(order) && !undead.contains(order) {
        fault("\(order) has ended and is still stored at \(slot.topic)")
      }
      for device in devices where device.pendingWrites != 0 {
        fault("\(device.pendingWrites) writes are pending of none")
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
        if undead.isEmpty, revived == 0, delivery.isLastFromStorage != isLast {
          fault("\(order) is not marked as it stands")
        }
      }
    }
    if came.filter(due.contains) != due { fault("\(due) should have come, not \(came)") }
    if undead.isEmpty, revived == 0, came != due { fault("\(due) should have come, not \(came)") }
  }

  /// Whether the group that is being written has a newer notification for the slot, which may have ended since.
  private func isBeingReplaced(_ order: UInt64, _ slot: Slot) -> Bool {
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
