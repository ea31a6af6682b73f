package import ApusModel

/// Records what happens to a shard's notifications: in counters, in lines for the ledger, and in traces of superseded
/// notifications.
///
/// Every state is noted here and nowhere else, so that counters and lines agree.
package struct ShardLedger {
  package var counters = DeliveryCounters()
  /// State changes of notifications, in order; the driver empties it.
  package var events: [LedgerEvent] = []
  /// Lines that become true once the group just sealed is written; the driver empties it.
  package var groupEvents: [LedgerEvent] = []
  /// Those that were written with their group and became true; the driver empties it.
  package var writtenEvents: [LedgerEvent] = []
  /// Whether `events` is filled. The counters count anyway.
  package var recordsEvents = true
  private var traces = SupersededTraces()
  /// Memory reused by `takeDurableCounters`.
  private var forecasts: [StoreForecast] = []
  private var forecastSlots: [SlotKey: NotificationFacts?] = [:]

  // MARK: States

  /// Records that a notification reached a state: the only way to count one.
  package mutating func record(
    _ state: DeliveryState, _ notification: Notification, cause: LedgerCause = .none
  ) {
    counters.count(
      state, of: notification.claims.topic, notification.claims.environment, notification.pushType,
      notification.priority)
    guard recordsEvents else { return }
    events.append(
      LedgerEvent(state: state, causeCode: cause.rawValue, facts: notification.facts))
  }

  /// The same for a notification that is received and ends at once.
  package mutating func notePassing(
    _ state: DeliveryState, _ facts: NotificationFacts, causeCode: UInt8
  ) {
    counters.countPassing(state, facts)
    guard recordsEvents else { return }
    events.append(
      LedgerEvent(state: .received, causeCode: LedgerCause.none.rawValue, facts: facts))
    events.append(LedgerEvent(state: state, causeCode: causeCode, facts: facts))
  }

  package mutating func record(
    _ state: DeliveryState, _ facts: NotificationFacts, causeCode: UInt8 = 0
  ) {
    counters.count(state, facts)
    guard recordsEvents else { return }
    events.append(LedgerEvent(state: state, causeCode: causeCode, facts: facts))
  }

  /// Records that the group just written replaced a notification that was in no session.
  ///
  /// The group already contains the ledger line, so a crash cannot come between the two; see `forecast`.
  mutating func recordReplaced(_ facts: NotificationFacts) {
    // It was in the session when the group was sealed, and left it since.
    guard !traces.isExpected(facts.order) else { return record(.replaced, facts) }
    counters.count(.replaced, facts)
    guard recordsEvents else { return }
    writtenEvents.append(
      LedgerEvent(state: .replaced, causeCode: LedgerCause.none.rawValue, facts: facts))
  }

  // MARK: Superseded notifications

  /// The group just written superseded the notification, as expected when it was sealed.
  mutating func confirmSuperseded(_ order: UInt64) { traces.confirm(order) }

  /// An earlier group superseded the notification, as is known only now.
  mutating func keepSuperseded(_ facts: NotificationFacts) {
    counters.countStored(facts, 1)
    traces.keep(facts)
  }

  /// A superseded notification ended.
  mutating func endSuperseded(_ delivery: Delivery) {
    let facts = delivery.notification.facts
    counters.countStored(facts, -1)
    traces.remove(facts)
  }

  /// Whether the group being written ends the notification: a drain must no longer return it.
  func isLeaving(_ order: UInt64) -> Bool { traces.isLeaving(order) }

  /// The group was written or failed, and all that it superseded is confirmed.
  mutating func committed(succeeded: Bool) { traces.committed(succeeded: succeeded) }

  /// Ends a notification of which an earlier run left a trace: the service crashed before the device acknowledged it.
  /// `counters` must be restored first.
  package mutating func endTraced(_ facts: NotificationFacts) {
    counters.countStored(facts, -1)
    record(.replaced, facts, causeCode: LedgerCause.serviceEnded.rawValue)
  }

  /// Calls `body` with each change to the traces of superseded notifications. Write them with the group that
  /// `takeDurableCounters` was called for, and call it after that.
  package mutating func takeTraces(_ body: (SupersededTrace) -> Void) { traces.seal(body) }

  // MARK: Durable counters

  /// Calls `body` for each topic whose counters changed since the last call, with the values that must survive a crash
  /// once `entries`, just sealed, are written. Write them with the same group.
  package mutating func takeDurableCounters(
    with entries: [GroupEntry], _ body: (TopicCounters) -> Void
  ) {
    forecast(entries)
    for forecast in forecasts { counters.apply(forecast, sign: 1) }
    counters.takeChanged(body)
    for forecast in forecasts { counters.apply(forecast, sign: -1) }
    forecasts.removeAll(keepingCapacity: true)
  }

  /// What `written` will change for the group, if nothing intervenes.
  private mutating func forecast(_ entries: [GroupEntry]) {
    let entries = entries.span
    for index in entries.indices {
      // By property: a call would copy the whole entry.
      switch entries[index].kind {
      case .put:
        let facts = entries[index].delivery?.notification.facts
        forecast(entries[index].slot, of: entries[index].device, holding: facts)
      case .evict: forecast(entries[index].slot, of: entries[index].device, holding: nil)
      case .outdated:
        guard let delivery = entries[index].delivery else { continue }
        let facts = delivery.notification.facts
        let isInSession = delivery.place != .none
        StoreForecast.add(
          to: &forecasts, facts, stored: isInSession ? 1 : 0, isReplaced: !isInSession)
        if isInSession { traces.expect(facts) } else { forecastReplaced(facts) }
      case .delete, .record, .milestone: continue
      }
    }
    forecastSlots.removeAll(keepingCapacity: true)
  }

  /// A slot's next occupant, and the one it replaces.
  private mutating func forecast(
    _ slot: MailboxSlot, of device: Device, holding facts: NotificationFacts?
  ) {
    // Another entry of the group for the same slot can precede only if the device has several writes pending.
    let key =
      device.pendingWrites > 1 ? SlotKey(device: ObjectIdentifier(device), slot: slot) : nil
    // The outer nil means that the slot is not known yet, the inner one that it is empty.
    let earlier = key.flatMap { forecastSlots[$0] }
    if let key { forecastSlots[key] = .some(facts) }
    var isAdded = facts != nil
    if let previous = earlier ?? device.storedFacts(slot) {
      if device.session?.holds(order: previous.order) == true {
        // It counts as stored for as long as the store has its trace.
        traces.expect(previous)
      } else {
        // Adding and removing one of the same kind cancel out.
        let isEven = facts?.isCounted(with: previous) == true
        if isEven { isAdded = false }
        StoreForecast.add(to: &forecasts, previous, stored: isEven ? 0 : -1, isReplaced: true)
        forecastReplaced(previous)
        if device.session != nil { traces.leave(previous.order) }
      }
    }
    guard isAdded, let facts else { return }
    StoreForecast.add(to: &forecasts, facts, stored: 1, isReplaced: false)
  }

  /// The ledger line for the group.
  private mutating func forecastReplaced(_ facts: NotificationFacts) {
    guard recordsEvents else { return }
    groupEvents.append(
      LedgerEvent(state: .replaced, causeCode: LedgerCause.none.rawValue, facts: facts))
  }
}
