package import ApusModel

extension Shard {
  // MARK: The ledger

  /// Notes that a notification reached a state: the only way to count one.
  package mutating func note(
    _ state: DeliveryState, _ notification: Notification, cause: LedgerCause = .none
  ) {
    counters.count(
      state, of: notification.claims.topic, notification.claims.environment, notification.pushType,
      notification.priority)
    guard recordsEvents else { return }
    events.append(
      LedgerEvent(state: state, causeCode: cause.rawValue, facts: notification.facts))
  }

  /// The same of one that was received and ends at once.
  mutating func notePassing(
    _ state: DeliveryState, _ facts: NotificationFacts, cause: LedgerCause
  ) {
    counters.countPassing(state, facts)
    guard recordsEvents else { return }
    events.append(
      LedgerEvent(state: .received, causeCode: LedgerCause.none.rawValue, facts: facts))
    events.append(LedgerEvent(state: state, causeCode: cause.rawValue, facts: facts))
  }

  mutating func note(_ state: DeliveryState, _ facts: NotificationFacts, causeCode: UInt8 = 0) {
    counters.count(state, facts)
    guard recordsEvents else { return }
    events.append(LedgerEvent(state: state, causeCode: causeCode, facts: facts))
  }

  // MARK: What is stored

  mutating func addStored(_ stored: StoredFacts, _ device: Device) {
    device.addStored(stored)
    counters.countStored(stored.facts, 1)
  }

  /// What had the slot, under that place in the order, has ended.
  mutating func endStored(_ slot: MailboxSlot, order: UInt64, _ device: Device) {
    guard let stored = device.storedFacts(slot), stored.order == order else { return }
    _ = device.removeStored(slot)
    counters.countStored(stored, -1)
  }

  /// Calls `body` for each topic whose counters changed since the last call, as a crash would leave them once
  /// `entries`, which were just sealed, are written. They are to be written with the same group.
  package mutating func takeDurableCounters(
    with entries: [GroupEntry], _ body: (TopicCounters) -> Void
  ) {
    forecast(entries)
    for forecast in forecasts { counters.apply(forecast, sign: 1) }
    counters.takeChanged(body)
    for forecast in forecasts { counters.apply(forecast, sign: -1) }
    forecasts.removeAll(keepingCapacity: true)
  }

  /// What `written` will make of the group, where nothing comes between.
  private mutating func forecast(_ entries: [GroupEntry]) {
    let entries = entries.span
    for index in entries.indices {
      // By their parts: a whole entry would be copied for a call.
      switch entries[index].kind {
      case .put:
        let facts = entries[index].delivery?.notification.facts
        forecast(entries[index].slot, of: entries[index].device, holding: facts)
      case .evict: forecast(entries[index].slot, of: entries[index].device, holding: nil)
      case .outdated:
        guard let delivery = entries[index].delivery, delivery.place == .none else { continue }
        StoreForecast.add(
          to: &forecasts, delivery.notification.facts, stored: 0, isReplaced: true)
      case .delete, .record, .milestone: continue
      }
    }
    forecastSlots.removeAll(keepingCapacity: true)
  }

  /// What a slot will hold, and who is in it no more.
  private mutating func forecast(
    _ slot: MailboxSlot, of device: Device, holding facts: NotificationFacts?
  ) {
    // Another one of the group for the same slot stands between only where the device has several writes pending.
    let key =
      device.pendingWrites > 1 ? SlotKey(device: ObjectIdentifier(device), slot: slot) : nil
    // The outer nil says that nothing is known of the slot yet, the inner one that it is empty.
    let earlier = key.flatMap { forecastSlots[$0] }
    if let key { forecastSlots[key] = .some(facts) }
    var isAdded = facts != nil
    if let previous = earlier ?? device.storedFacts(slot) {
      let isReplaced = device.session?.holds(order: previous.order) != true
      // One more and one less of the same are none.
      let isEven = facts?.isCounted(with: previous) == true
      if isEven { isAdded = false }
      StoreForecast.add(
        to: &forecasts, previous, stored: isEven ? 0 : -1, isReplaced: isReplaced)
    }
    guard isAdded, let facts else { return }
    StoreForecast.add(to: &forecasts, facts, stored: 1, isReplaced: false)
  }
}
