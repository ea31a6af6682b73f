package import ApusModel

extension Shard {
  // MARK: The ledger

  /// Notes that a notification reached a state: the only way to count one.
  package mutating func note(
    _ state: DeliveryState, _ notification: Notification, cause: LedgerCause = .none
  ) {
    note(state, notification.facts, causeCode: cause.rawValue)
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

  /// Says who has the slots of `device` in the store, as it was before any group that is not yet written.
  /// Mutating although it changes the device alone: what does not mutate is called on a copy of the shard.
  package mutating func loadStored(_ stored: [StoredFacts], of device: Device) {
    device.forgetStored()
    for facts in stored { device.addStored(facts) }
    device.knowsStored = true
  }

  mutating func addStored(_ stored: StoredFacts, _ device: Device) {
    device.addStored(stored)
    counters.countStored(stored.facts, 1)
  }

  /// What had the slot, under that place in the order, has ended.
  mutating func endStored(_ slot: MailboxSlot, order: UInt64, _ device: Device) {
    guard let stored = device.stored(slot), stored.facts.order == order else { return }
    _ = device.removeStored(slot)
    counters.countStored(stored.facts, -1)
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
    for index in entries.indices { forecast(entries[index]) }
    forecastSlots.removeAll(keepingCapacity: true)
  }

  private mutating func forecast(_ entry: borrowing GroupEntry) {
    switch entry.kind {
    case .outdated:
      guard let delivery = entry.delivery, delivery.place == .none else { return }
      StoreForecast.add(
        to: &forecasts, delivery.notification.facts, stored: 0, isReplaced: true)
    case .put, .evict:
      // Another one of the group for the same slot stands between only where the device has several writes pending.
      let slot = entry.device.pendingWrites > 1 ? entry.key : nil
      // The outer nil says that nothing is known of the slot yet, the inner one that it is empty.
      let earlier = slot.flatMap { forecastSlots[$0] }
      if let previous = earlier ?? entry.device.stored(entry.slot)?.facts {
        let isInSession = entry.device.session?.holds(order: previous.order) == true
        StoreForecast.add(to: &forecasts, previous, stored: -1, isReplaced: !isInSession)
      }
      let facts = entry.delivery?.notification.facts
      if let slot { forecastSlots[slot] = .some(facts) }
      guard let facts else { return }
      StoreForecast.add(to: &forecasts, facts, stored: 1, isReplaced: false)
    case .delete, .record: return
    }
  }
}
