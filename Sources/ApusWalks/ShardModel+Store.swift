package import ApusCore
package import ApusModel

extension ShardModel {
  // MARK: Group commit

  package func seal(all: Bool = false, trimming: Bool = true) {
    guard sealed == nil else { return }
    settleDoubts()
    if trimming { shard.trimGroup() }
    var entries: [GroupEntry] = []
    let number = shard.sealGroup(into: &entries, nowMilliseconds: loopMilliseconds, all: all)
    for entry in entries where entry.kind == .put { loadStored(entry.device) }
    shard.slots.assign(&entries)
    var counters: [TopicCounters] = []
    shard.ledger.takeDurableCounters(with: entries) { counters.append($0) }
    var traces = staleTraces.map { SupersededTrace(facts: $0, isKept: false) }
    shard.ledger.takeTraces { traces.append($0) }
    let lines = Set(shard.ledger.groupEvents.map(\.facts.order))
    shard.ledger.groupEvents.removeAll()
    var writes: [Write] = []
    var outdated: Set<UInt64> = []
    var seen: Set<ObjectIdentifier> = []
    var records: [ObjectIdentifier: (version: UInt64, device: Device)] = [:]
    for entry in entries {
      let slot = Slot(
        device: entry.device.key, topic: entry.slot.topic, index: entry.slot.index)
      switch entry.kind {
      case .milestone: break
      case .record(let version):
        records[ObjectIdentifier(entry.device)] = (version, entry.device)
      case .outdated:
        if let order = entry.delivery?.notification.order { outdated.insert(order) }
      case .delete: writes.append(Write(slot: slot, order: nil))
      case .evict: writes.append(Write(slot: slot, order: nil, isEviction: true))
      case .put:
        guard let delivery = entry.delivery else {
          fault("a put of nothing")
          continue
        }
        let order = delivery.notification.order
        if !seen.insert(ObjectIdentifier(delivery)).inserted { fault("\(order) is written twice") }
        if letters[order]?.slot != slot.first { fault("\(order) is written for another") }
        if letters[order]?.mayBeStored != true { fault("\(order) must not be stored") }
        if !live.contains(order) { fault("\(order) is written after its end") }
        writes.append(Write(slot: slot, order: order))
      }
    }
    // The driver writes a record only for its newest entry.
    for (version, device) in records.values where version != device.recordVersion {
      fault("the record of \(device.key) is said to be written and is not")
    }
    sealed = Group(
      number: number, entries: entries, writes: writes, outdated: outdated, counters: counters,
      traces: traces, lines: lines, ends: endsBySeal().union(lines))
    for order in outdated { expectOutdated(order) }
    takeVerdicts(allowed: [], "seal")
  }

  /// The disk has the group; the shard is told later.
  package func write() {
    guard var group = sealed, !group.isOnDisk else { return }
    group.isOnDisk = true
    sealed = group
    // A crash erases what the memory knew of earlier ends, but not what the disk knows.
    durableEnds.formUnion(group.ends)
    everStored.formUnion(group.writes.compactMap(\.order))
    everStored.formUnion(group.outdated)
    for trace in group.traces { traces[trace.facts.order] = trace.isKept ? trace.facts : nil }
    for write in group.writes {
      let old = store[write.slot]
      store[write.slot] = write.order
      guard let old, old != write.order, live.contains(old) else { continue }
      guard let order = write.order else {
        if !write.isEviction { fault("a deletion took \(old)") }
        overwritten.insert(old)
        continue
      }
      if order < old { fault("\(order) took the slot of \(old), which is newer") }
      overwritten.insert(old)
    }
  }

  /// `keeps`: the disk has kept a group that is reported to the shard as failed.
  package func commit(succeeded: Bool = true, keeps: Bool = false) {
    if succeeded || keeps { write() }
    guard let group = sealed else { return }
    // A group on the disk has not failed, unless it is reported so.
    let succeeded = group.isOnDisk && !keeps
    sealed = nil
    let session = inSession()
    if succeeded || keeps { staleTraces = [] }
    if succeeded {
      for old in overwritten where session[old] == nil { live.remove(old) }
      overwritten = []
    }
    let written = Set(group.writes.compactMap(\.order)).union(group.outdated)
    for order in group.outdated where succeeded && session[order] == nil { live.remove(order) }
    let open = written.filter { letters[$0]?.isAccepted == nil }
    let eventsBefore = shard.ledger.events.count
    shard.committed(
      group.entries, number: group.number, succeeded: succeeded, isInDoubt: !succeeded)
    takeWrittenLines(group)
    for event in shard.ledger.events[eventsBefore...]
    where event.causeCode == LedgerCause.replacementFailed.rawValue {
      let order = event.facts.order
      if !store.values.contains(order) {
        if keeps { overwritten.insert(order) } else { fault("\(order) is not stored") }
      }
      live.insert(order)
    }
    takeVerdicts(allowed: succeeded ? written : [], "commit")
    for order in open {
      if letters[order]?.isAccepted != succeeded { fault("\(order) is not answered") }
      if !succeeded, session[order] == nil { live.remove(order) }
    }
    if keeps { inDoubt.formUnion(written) }
    if succeeded || keeps { noteDurable(group.counters) }
    if !succeeded { shard.ledger.counters.markAllChanged() }
    checkDurable()
  }

  /// Every line written with a group must become true with it, and no other may be reported as written.
  private func takeWrittenLines(_ group: Group) {
    for event in shard.ledger.writtenEvents where !group.lines.contains(event.facts.order) {
      fault("\(event.facts.order) has no line in its group")
    }
    shard.ledger.events += shard.ledger.writtenEvents
    shard.ledger.writtenEvents.removeAll()
  }

  /// A notification that is not written is older than the allowed number of newer ones, or is merged into one.
  private func expectOutdated(_ order: UInt64) {
    guard let older = letters[order] else { return fault("nothing is outdated") }
    let newer = Set(store.values).union(sealed?.writes.compactMap(\.order) ?? []).filter {
      $0 > order && letters[$0]?.slot == older.slot
    }
    let isMerged = newer.contains { newer in
      guard let newer = letters[newer] else { return false }
      return newer.isBackground && older.isBackground
        || !older.collapseID.isEmpty && newer.collapseID == older.collapseID
    }
    if !isMerged, newer.count < retention(older.slot.topic) { fault("\(order) is not outdated") }
  }

  package func noteDurable(_ counters: [TopicCounters]) {
    for counters in counters {
      let topic = Slot.Topic(topic: counters.topic, environment: counters.environment)
      durable[topic] = counters
    }
  }

  /// After a crash, the number of stored notifications equals the counters stored with them.
  private func checkDurable() {
    var kept: [Slot.Topic: Int64] = [:]
    for slot in store.keys { kept[slot.counted, default: 0] += 1 }
    for facts in traces.values {
      kept[Slot.Topic(topic: facts.topic, environment: facts.environment), default: 0] += 1
    }
    for topic in Set(kept.keys).union(durable.keys) {
      let counters = durable[topic]
      let counted = counters?.pendingInStore ?? 0
      if counted != kept[topic] ?? 0 {
        fault("\(kept[topic] ?? 0) are stored, \(counted) are counted as such")
      }
      if counters?.isBalanced == false { fault("the durable counters are out of balance") }
    }
  }

  package func isGroupDue(inMilliseconds milliseconds: UInt64) -> Bool {
    shard.isGroupDue(nowMilliseconds: loopMilliseconds + milliseconds)
  }

  package var isGroupEmpty: Bool { shard.isGroupEmpty }

  /// Reads the stored notifications of a loaded device, as its owner does.
  package func loadStored(_ device: Device) {
    guard !device.knowsStored else { return }
    device.loadStored(stored(device))
    for stored in device.stored { ends[stored.facts.order] = nil }
  }

  /// The stored notifications of the device, oldest first.
  package func stored(_ device: Device) -> [StoredFacts] {
    store.filter { $0.key.device == device.key }.sorted { $0.value < $1.value }
      .compactMap { slot, order in notification(order, at: slot)?.storedFacts }
  }

  /// A notification as read from the store.
  package func notification(_ order: UInt64, at slot: Slot) -> Notification? {
    letters[order].map { letter in
      let notification = Notification()
      fill(notification, order, letter)
      notification.slotIndex = slot.index
      return notification
    }
  }

  /// Whether the disk has the notification without the shard having been told.
  package func isOnlyOnDisk(_ order: UInt64) -> Bool {
    sealed?.isOnDisk == true && sealed?.writes.contains { $0.order == order } == true
  }

  /// The store reports its rows, and the device's owner ends expired ones.
  package func comeBy(_ device: Device) {
    guard device.pendingWrites == 0 else { return }
    loadStored(device)
    let session = inSession()
    for (slot, order) in store where slot.device == device.key {
      guard let letter = letters[order], letter.expirationSeconds <= wallSeconds else { continue }
      expire(order, at: slot, device, isInSession: session[order] != nil)
    }
    takeVerdicts(allowed: [], "expire")
  }

  /// A device not used for long is unloaded, and read again when needed.
  package func forget(_ device: Device) {
    if device.session == nil, device.pendingWrites == 0 { device.forgetStored() }
  }

  // MARK: Draining

  package func drain() {
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
    var places: [UInt64: UInt8] = [:]
    let before = inSession()
    for (slot, order) in store where slot.device == device.key {
      guard device.registration[slot.topic]?.state.flows == true, let letter = letters[order]
      else { continue }
      guard letter.expirationSeconds <= wallSeconds else {
        found.append(order)
        places[order] = slot.index
        continue
      }
      expire(order, at: slot, device, isInSession: before[order] != nil)
    }
    found.sort()
    let room = max(1, Limits.courierQueueFrames - (device.session?.queuedCount ?? 0))
    let stored = found.prefix(room).compactMap { order in
      letters[order].map { letter in
        let notification = take()
        fill(notification, order, letter)
        notification.slotIndex = places[order] ?? 0
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

  private func expire(_ order: UInt64, at slot: Slot, _ device: Device, isInSession: Bool) {
    let before = count(.expired)
    guard let notification = notification(order, at: slot) else { return }
    shard.expired(notification, of: device)
    let counted = count(.expired) - before
    // What the shard does not know as stored is left to the next drain.
    if isInSession || isOnlyOnDisk(order) || sealed?.lines.contains(order) == true && counted == 0 {
      if counted != 0 { fault("\(order) is counted as expired, and is on its way") }
    } else if live.remove(order) != nil {
      if counted != 1 { fault("\(order) expired without being counted") }
    } else if counted != 0 {
      fault("\(order) expired after its end")
    }
  }

  // MARK: A whole cycle

  /// Disconnects, writes everything, reconnects and receives what was stored.
  package func cycle(_ device: Device) {
    endRetirement(device)
    settleDoubts()
    var expected: [TopicKey: [UInt64]] = [:]
    let session = inSession()
    let onTheWay = Set((unanswered[device.key] ?? [:]).values)
    for order in live.union(heldBack).sorted() {
      guard let letter = letters[order], letter.slot.device == device.key, letter.mayBeStored,
        letter.isAccepted != false, session[order]?.storage != .superseded,
        !isBeingReplaced(order),
        !onTheWay.contains(order) || ends[order, default: 0] + 1 < Limits.unacknowledgedEnds
      else { continue }
      expected[letter.slot.topic, default: []].append(order)
    }
    disconnect(device)
    settle()
    for (topic, orders) in expected { expectKept(orders, topic, device) }
    check()
    connect(device)
    filterAll(device)
    settle()
    let due = store.filter { $0.key.device == device.key }.values.filter {
      letters[$0].map { $0.expirationSeconds > wallSeconds } ?? false
    }
    .sorted()
    var came: [UInt64] = []
    for _ in 0..<200 {
      guard let order = send(device) else {
        guard came.count < due.count, let waiting = unanswered[device.key], !waiting.isEmpty
        else { break }
        // A notification that was lost too often is sent alone: it waits for all others, and the next one for it.
        let next = due[came.count]
        if !isSuspect(next), waiting.count > 1 || !waiting.values.contains(where: isSuspect) {
          fault("\(next) waits for \(waiting.values.sorted())")
        }
        for messageID in waiting.keys.sorted() { acknowledge(device, messageID: messageID) }
        continue
      }
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

  private func isSuspect(_ order: UInt64) -> Bool {
    ends[order, default: 0] >= Limits.unacknowledgedEndsTogether
  }

  /// Whether the group being written has a newer notification for the slot, which may have ended since.
  private func isBeingReplaced(_ order: UInt64) -> Bool {
    if overwritten.contains(order) { return true }
    guard let writes = sealed?.writes else { return false }
    // Before it was written, the same group may have evicted another one from its slot.
    let own = writes.lastIndex { $0.order == order }
    let slot = own.map { writes[$0].slot } ?? store.first { $0.value == order }?.key
    return writes[(own.map { $0 + 1 } ?? 0)...].contains { write in
      write.slot == slot && (write.isEviction || write.order ?? 0 > order)
    }
  }

  /// Of an app's waiting notifications the newest are stored, up to its retention.
  private func expectKept(_ orders: [UInt64], _ topic: TopicKey, _ device: Device) {
    let kept = store.filter { $0.key.device == device.key && $0.key.topic == topic }.values
    guard let newest = orders.last else { return }
    if !kept.contains(newest) { fault("\(newest) was not kept, but \(kept.sorted())") }
    // Chains of replacements are not modelled here.
    guard !orders.contains(where: { letters[$0]?.isReplaceable == true }) else { return }
    for order in orders.suffix(retention(topic)) where !kept.contains(order) {
      fault("\(order) was not kept, but \(kept.sorted())")
    }
  }

  /// Writes everything and then reads everything possible.
  package func settle() {
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
