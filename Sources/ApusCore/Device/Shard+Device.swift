package import ApusModel

extension Shard {
  // MARK: What devices say

  /// A device connected; an earlier connection of it was ended first.
  package mutating func connect(_ device: Device, slot: Int32) {
    let session = DeviceSession()
    device.session = session
    device.connectionSlot = slot
    sessions.begin(device.key.environment, session)
  }

  /// A filter arrived: `lists` has the state of each topic that it names.
  package mutating func filter(
    _ device: Device, lists: [TopicKey: TopicState], nowMilliseconds: Int64
  ) {
    let change = device.registration.apply(
      lists: lists, nowMilliseconds: nowMilliseconds,
      graceMilliseconds: unregisterGraceMilliseconds, firstGeneration: firstGeneration,
      renewsListed: renewsListedTokens)
    if !change.isEmpty { recordChanged(device) }
    for topic in change.closed { withdraw(topic, from: device) }
    for topic in change.dropped {
      graces.append(
        GraceQueue.Entry(device: device.key, topic: topic, droppedMilliseconds: nowMilliseconds))
    }
    if device.session?.filterReceived(opensTopics: !change.opened.isEmpty) == true {
      requestDrain(device)
    }
    mark(dirty: device)
  }

  /// Notifications waiting for a topic stay in the store, if they may be stored at all.
  private mutating func withdraw(_ topic: TopicKey, from device: Device) {
    let withdrawn = device.session?.withdraw(topic) ?? []
    // Those in flight are older: they must not take the slot after a withdrawn one has taken it.
    device.session?.forEach(of: topic) { group.promote($0) }
    for delivery in withdrawn {
      if delivery.storage == .sealed || delivery.storage == .durable {
        device.overflowed(delivery.notification)
      }
      leaveSession(delivery, cause: .topicHeldBack)
    }
  }

  /// A topic whose grace is over, and the device that dropped it; nil if none is due.
  package mutating func nextDropped(
    nowMilliseconds: Int64
  ) -> (device: DeviceKey, topic: TopicKey)? {
    graces.next(droppedBy: nowMilliseconds - unregisterGraceMilliseconds)
      .map { ($0.device, $0.topic) }
  }

  /// Records the death of the token that `device` had for `topic`, unless the topic was listed again.
  package mutating func graceIsOver(
    _ topic: TopicKey, of device: Device, nowMilliseconds: Int64
  ) {
    // The tokens of a retired device were recorded at its retirement.
    guard device.retiredMilliseconds == nil, let entry = device.registration[topic] else { return }
    noteIfDead(entry, of: device, nowMilliseconds: nowMilliseconds)
  }

  /// Records the token issued for the topic of `entry`, if it is dead.
  mutating func noteIfDead(
    _ entry: TopicRegistration, of device: Device, nowMilliseconds: Int64
  ) {
    guard entry.generation != 0, !entry.isInvalidated else { return }
    let claims = TokenClaims(
      device: device.key.id, topic: entry.topic, environment: device.key.environment,
      generation: entry.generation)
    let standing = device.standing(
      of: claims, nowMilliseconds: nowMilliseconds, graceMilliseconds: unregisterGraceMilliseconds)
    guard case .dead(let since) = standing else { return }
    deadTokens.append(DeadToken(claims: claims, token: nil, sinceMilliseconds: since))
    invalidate(claims, of: device)
  }

  /// A token's death is told, which nothing takes back. The tokens of a retired device die with it.
  ///
  /// While the store fails, only so many devices stay in memory for this.
  mutating func invalidate(_ claims: TokenClaims, of device: Device) {
    guard renewsListedTokens, device.retiredMilliseconds == nil,
      retries.count < Limits.invalidationsWaiting,
      device.registration.invalidate(claims, firstGeneration: firstGeneration)
    else { return }
    recordChanged(device)
  }

  /// The app requests its token: the generation to issue it with.
  ///
  /// Send the token only once `device.durableRecordVersion` has reached `device.recordVersion`: a token that the
  /// service itself forgets would be reported dead.
  package mutating func generationForToken(
    of topic: TopicKey, on device: Device, nowMilliseconds: Int64
  ) -> UInt16 {
    let (generation, changed) = device.registration.generationForToken(
      of: topic, nowMilliseconds: nowMilliseconds, graceMilliseconds: unregisterGraceMilliseconds,
      firstGeneration: firstGeneration)
    if changed { recordChanged(device) }
    return generation
  }

  /// Adds the device's record to the next group.
  package mutating func recordChanged(_ device: Device) {
    device.recordVersion += 1
    group.record(device)
  }

  /// Set state (0x14).
  package mutating func setPower(
    _ power: PowerState, _ device: Device, loopMilliseconds: UInt64
  ) {
    if let old = device.session?.power { sessions.change(old, to: power) }
    device.session?.setPower(power, nowMilliseconds: loopMilliseconds)
    mark(dirty: device)
  }

  /// A keep-alive, or an immediate notification: the radio is in use anyway.
  package mutating func radioIsInUse(_ device: Device, loopMilliseconds: UInt64) {
    guard device.session?.holdsSome == true else { return }
    device.session?.radioIsInUse(nowMilliseconds: loopMilliseconds) { notification in
      Device.backgroundLimit.take(
        from: &device.backgroundPushes[notification.claims.topic, default: RateLimit.Bucket()],
        atMilliseconds: Int64(loopMilliseconds))
    }
    mark(dirty: device)
  }

  /// Too many notifications are held: they are sent, if necessary those too for which the device should not be woken.
  mutating func sendHeldEarly(_ device: Device, loopMilliseconds: UInt64) {
    radioIsInUse(device, loopMilliseconds: loopMilliseconds)
    guard device.session?.isHeldFull == true else { return }
    device.session?.releaseHeld(nowMilliseconds: loopMilliseconds)
    mark(dirty: device)
  }

  /// `DeviceSession.deadlineMilliseconds` has passed: a burst is due, or a held-back provider has waited long enough.
  package mutating func deadlineReached(_ device: Device, loopMilliseconds: UInt64) {
    device.session?.queueBytes = memory.queueBytes
    while let overdue = device.session?.takeOverdue(nowMilliseconds: loopMilliseconds) {
      if let reason = overdue.refusal {
        refuse(overdue.delivery, reason)
      } else {
        admit(heldBack: overdue.delivery, loopMilliseconds: loopMilliseconds)
      }
    }
    if device.session?.burstIsDue(nowMilliseconds: loopMilliseconds) == true {
      radioIsInUse(device, loopMilliseconds: loopMilliseconds)
      device.session?.planBurst(nowMilliseconds: loopMilliseconds)
    }
  }

  /// The next notification to send; nil if the window is full or nothing waits.
  ///
  /// Expired notifications end here and are counted; those on the wire are not recalled.
  package mutating func nextToSend(
    _ device: Device, nowSeconds: Int64, loopMilliseconds: UInt64
  ) -> Delivery? {
    if device.session?.heldBackCount ?? 0 > 0 {
      device.session?.queueBytes = memory.queueBytes
      admitHeldBack(device, loopMilliseconds: loopMilliseconds)
    }
    while true {
      switch device.session?.next(nowSeconds: nowSeconds) {
      case .send(let delivery)?:
        sessions.sent()
        memory.take(delivery.notification.payload.count)
        return delivery
      case .expired(let delivery)?:
        ledger.record(.expired, delivery.notification)
        forget(delivery)
      case .nothing?, nil: return nil
      }
    }
  }

  /// The device answered for a notification; `status` 0 means delivered.
  ///
  /// An unknown id, or one already answered, is ignored. A refused notification is not sent again, because a poison
  /// message must not loop.
  ///
  /// - Returns: Unix milliseconds of its acceptance, if it was delivered and had not waited in the store.
  @discardableResult
  package mutating func acknowledge(
    _ device: Device, messageID: UInt32, status: UInt8, loopMilliseconds: UInt64
  ) -> Int64? {
    let acknowledged = device.session?.acknowledge(messageID, nowMilliseconds: loopMilliseconds)
    guard let delivery = acknowledged else { return nil }
    sessions.answered()
    let notification = delivery.notification
    memory.give(notification.payload.count)
    let acceptedMilliseconds =
      status == 0 && !notification.isFromStorage ? notification.acceptedMilliseconds : nil
    end(delivery, status: status)
    // The connection that received the answer is looked at next. While sending is deferred, work may remain for it.
    if device.session?.awaitsWindow == true { mark(dirty: device) }
    return acceptedMilliseconds
  }

  /// The device answered for a notification that another node has sent, and that waits here to be sent. False if none
  /// waits with this id.
  package mutating func acknowledgeWaiting(
    _ device: Device, messageID: UInt32, status: UInt8
  ) -> Bool {
    guard let delivery = device.session?.takeWaiting(messageID) else { return false }
    end(delivery, status: status)
    return true
  }

  private mutating func end(_ delivery: Delivery, status: UInt8) {
    let notification = delivery.notification
    if status != 0 {
      ledger.record(.refusedByDevice, notification.facts, causeCode: status)
    } else {
      ledger.record(notification.isFromStorage ? .deliveredFromStorage : .delivered, notification)
    }
    forget(delivery)
  }

  /// Ends a notification in memory and in the store.
  mutating func forget(_ delivery: Delivery) {
    delivery.hasEnded = true
    answer(delivery)
    switch delivery.storage {
    case .gathering: group.cancel(delivery)
    case .sealed, .durable:
      emptySlot(
        delivery.notification.slot, order: delivery.notification.order, delivery.device)
    case .inDoubt: delivery.device.unwrittenOrders.insert(delivery.notification.order)
    case .superseded: ledger.endSuperseded(delivery)
    case .none: break
    }
    releaseIfFree(delivery)
  }

  /// Removes an ended notification from the store, unless a newer one has the slot.
  ///
  /// Until that is written, a drain may still read the notification, so its end is remembered.
  mutating func emptySlot(_ slot: MailboxSlot, order: UInt64, _ device: Device) {
    endStored(slot, order: order, device)
    device.endedOrders[slot] = (max(device.endedOrders[slot]?.order ?? 0, order), gatheringGroup)
    if !isTaken(slot, byNewerThan: order, device) {
      group.delete(slot, order: order, of: device)
    }
  }

  /// A gathering put does not count: it may be cancelled, and a deletion precedes it in its group.
  private func isTaken(
    _ slot: MailboxSlot, byNewerThan order: UInt64, _ device: Device
  ) -> Bool {
    guard let session = device.session else { return false }
    var taken = device.hasOverflow(of: slot, newerThan: order)
    session.forEach(of: slot.topic) { other in
      guard other.notification.order > order, other.notification.slotIndex == slot.index
      else { return }
      if other.storage == .sealed || other.storage == .durable { taken = true }
    }
    return taken
  }

  /// The connection ended: unacknowledged notifications return to the store.
  ///
  /// The newest of each app stay, up to its retention; the others count as replaced.
  package mutating func disconnect(_ device: Device, loopMilliseconds: UInt64) {
    setAside(from: device)
    let heldBack = takeHeldBack(of: device)
    let left = endSession(of: device)
    let successors = successors(of: left)
    for (index, delivery) in left.enumerated() {
      if let newest = successors[index], delivery.storage == .gathering, !delivery.isUrgent {
        group.cancel(delivery)
        delivery.hasEnded = true
        inherit(delivery, to: newest)
        ledger.record(.replaced, delivery.notification)
        releaseIfFree(delivery)
      } else {
        leaveSession(delivery, cause: .connectionEnded)
      }
    }
    for delivery in heldBack { storeHeldBack(delivery, loopMilliseconds: loopMilliseconds) }
  }

  /// For each of `left`, in the order of acceptance: the newest of its app, if as many newer ones as the app retains
  /// may be stored; otherwise nil.
  private func successors(of left: [Delivery]) -> [Delivery?] {
    var successors = [Delivery?](repeating: nil, count: left.count)
    var newer: [TopicKey: (newest: Delivery, count: Int)] = [:]
    for (index, delivery) in left.enumerated().reversed() {
      let topic = delivery.notification.claims.topic
      if let (newest, count) = newer[topic], count >= slots.retention(of: topic) {
        successors[index] = newest
      } else if delivery.notification.mayBeStored {
        newer[topic] = (newer[topic]?.newest ?? delivery, (newer[topic]?.count ?? 0) + 1)
      }
    }
    return successors
  }

  /// Ends notifications that were sent on several connections, each of which ended before the device acknowledged
  /// them: a poison message must not loop. Call it while the session, which knows the slots, exists.
  private mutating func setAside(from device: Device) {
    while let delivery = device.session?.takePoison() {
      sessions.answered()
      memory.give(delivery.notification.payload.count)
      ledger.record(.discardedUnacknowledged, delivery.notification)
      forget(delivery)
    }
  }

  /// Removes a device's session; returns its notifications in the order of acceptance.
  mutating func endSession(of device: Device) -> [Delivery] {
    guard var session = device.session else { return [] }
    sessions.end(device.key.environment, session)
    memory.give(session.inFlightBytes)
    let left = session.close()
    device.session = nil
    device.connectionSlot = -1
    // A drain that this connection waited for must not be taken for one requested by the next.
    if device.drain == .due { drains.removeAll { $0 === device } }
    device.drain = .none
    device.overflowOrders.removeAll()
    if device.pendingWrites == 0 { device.endedOrders.removeAll() }
    return left
  }

  /// A notification leaves its session unacknowledged: it stays in the store, or ends.
  mutating func leaveSession(_ delivery: Delivery, cause: LedgerCause) {
    let notification = delivery.notification
    if delivery.unacknowledgedEnds > 0 { delivery.device.keepUnacknowledgedEnds(of: delivery) }
    switch delivery.storage {
    case .gathering:
      ledger.record(.storedDeviceOffline, notification, cause: cause)
      group.promote(delivery)
    case .sealed, .durable: ledger.record(.storedDeviceOffline, notification, cause: cause)
    case .superseded:
      ledger.record(.replaced, notification)
      ledger.endSuperseded(delivery)
    case .none, .inDoubt:
      // A notification that should be stored and is not met a failing store; its provider got an error.
      ledger.record(
        notification.mayBeStored ? .discardedStoreFailed : .discardedNotStored, notification,
        cause: cause)
    }
    releaseIfFree(delivery)
  }
}
