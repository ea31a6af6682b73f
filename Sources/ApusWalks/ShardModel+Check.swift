import ApusCore
import ApusModel

extension ShardModel {
  // MARK: What must hold at any time

  package func check() {
    noteAdmitted()
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
        if delivery.storage == .durable,
          device.stored(delivery.notification.slot)?.facts.order != order
        {
          fault("\(order) counts as stored, and its slot has another")
        }
      }
      if flight > 32 || flight != device.session?.inFlightCount ?? 0 { fault("the window") }
      // A drain's notifications have a bound of their own: it may return one where there is no room.
      if device.session?.queuedCount ?? 0 > Limits.courierCrowdedFrames + Limits.courierQueueFrames
      {
        fault("the queue")
      }
      if !(0...max(0, device.pendingWrites)).contains(device.lingeringWrites) {
        fault("\(device.lingeringWrites) of \(device.pendingWrites) pending writes linger")
      }
    }
    let kept = Set(store.values)
    for order in live {
      guard let letter = letters[order] else { continue }
      let isKept =
        letter.isAccepted == nil || session[order] != nil
        || !inDoubt.contains(order) && (kept.contains(order) || overwritten.contains(order))
      if !isKept { live.remove(order) }
    }
    checkLedger()
    // Ended notifications may stay in the store only until their deletion is written.
    if sealed == nil, shard.isGroupEmpty, !shard.hasRetries, shard.doubt == nil {
      for (slot, order) in store where !live.contains(order) {
        fault("\(order) has ended and is still stored at \(slot.topic)")
      }
      for device in devices where device.pendingWrites != 0 {
        fault("\(device.pendingWrites) writes are pending of none")
      }
      for device in devices { checkDrain(device, session) }
      if devices.allSatisfy({ $0.session == nil }), shard.memory.usedBytes != 0 {
        fault("\(shard.memory.usedBytes) bytes are taken by nothing")
      }
    }
  }

  /// Notifications of a connected device that are only in the store will be read.
  private func checkDrain(_ device: Device, _ session: [UInt64: Delivery]) {
    guard device.session?.phase == .serving, device.session?.needsDrain == false,
      device.drain == .none, !device.mustDrainAgain
    else { return }
    for (slot, order) in store where slot.device == device.key && session[order] == nil {
      guard device.registration[slot.topic]?.state.flows == true else { continue }
      fault("\(order) waits in the store for a device that is there")
    }
  }

  /// The events describe each notification, the counters are their sum, and both agree with what happened.
  package func checkLedger() {
    for event in shard.ledger.events {
      let order = event.facts.order
      let known = states[order] ?? []
      let isKept =
        event.causeCode == LedgerCause.replacementFailed.rawValue && known.last == .replaced
        || event.causeCode == LedgerCause.foundInStore.rawValue && known.last?.isTerminal == true
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
    shard.ledger.events.removeAll()
    seenEvents = 0
    if pending != live {
      fault(
        "\(pending.subtracting(live).sorted()) have ended without an event, "
          + "\(live.subtracting(pending).sorted()) have an end too early")
    }
    var expected: [Slot.Topic: Int64] = [:]
    for order in live {
      if let slot = letters[order]?.slot { expected[slot.counted, default: 0] += 1 }
    }
    for counters in shard.ledger.counters.snapshot() {
      let topic = Slot.Topic(topic: counters.topic, environment: counters.environment)
      if !counters.isBalanced || counters.pending != expected[topic] ?? 0 {
        fault("\(counters.accepted) accepted, \(counters.ended) ended, \(counters.pending) pending")
      }
    }
  }
}
