import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusStore

/// The ledger and the counters beside a worker's devices.
extension ShardDriver {
  /// Records the end of a notification that was forwarded while its provider waited.
  func noteForwarded(_ state: DeliveryState, _ cause: UpstreamCause?, _ facts: NotificationFacts) {
    shard.ledger.notePassing(state, facts, causeCode: cause?.code ?? 0)
  }

  /// Records that a notification was sent again which had been accepted before.
  func noteResent(_ facts: NotificationFacts) { shard.ledger.record(.resentAfterError, facts) }

  func noteSent(_ notification: Notification) { shard.ledger.record(.sent, notification) }

  /// How often each state was reached, by its raw value.
  var counts: [UInt64] { shard.ledger.counters.states }

  func counters() -> [TopicCounters] { shard.ledger.counters.snapshot() }

  /// A request was answered with that reason.
  func noteRejection(_ reason: Reason) { ledger.rejections.count(reason) }

  /// Goes on where an earlier run stopped.
  func restore(_ opening: LedgerOpening) throws(StoreError) {
    let configuration = context.configuration
    ledger = try opening.ledger(
      for: context.index, configuration, milliseconds: context.wallMilliseconds,
      counters: &shard.ledger.counters)
    shard.ledger.recordsEvents = configuration.ledger != .off
    shard.firstGeneration = try context.store.readFirstGeneration()
    for facts in opening.superseded(for: context.index) { shard.ledger.endTraced(facts) }
  }

  // MARK: What is stored

  /// Reads who has the device's slots, unless that is known.
  func loadStored(_ device: Device) throws(StoreError) {
    guard !device.knowsStored else { return }
    var found: [StoredFacts] = []
    let prefix = device.key.id.storeKey
    try context.store.scan(.mailbox, prefix: prefix.span) { key, value in
      // What cannot be read is reported by the drain.
      if let place = try? MailboxKey(decoding: key), place.environment == device.key.environment,
        let stored = try? StoredNotification(decoding: value)
      {
        found.append(stored.facts(in: value, at: place))
      }
      return true
    }
    device.loadStored(found)
  }

  /// Reads what a write that failed has left in the store, before anything else is written. False while that cannot be
  /// read: then nothing may be written.
  func settleDoubts() -> Bool {
    while let doubt = shard.doubt {
      let place = MailboxKey(
        device: doubt.device.key.id, topic: doubt.slot.topic,
        environment: doubt.device.key.environment, index: doubt.slot.index)
      let value: [UInt8]?
      do {
        let key = place.encoded()
        value = try context.store.get(.mailbox, key: key.span)
      } catch {
        return false
      }
      shard.settleDoubt(
        found: value.flatMap { value in
          try? StoredNotification(decoding: value.span).facts(in: value.span, at: place)
        })
    }
    return true
  }

  // MARK: Writing

  /// Takes over what the turn brought.
  func gatherLedger() {
    if !shard.ledger.writtenEvents.isEmpty { showWritten() }
    guard !shard.ledger.events.isEmpty else { return }
    ledger.writer.record(shard.ledger.events, milliseconds: context.wallMilliseconds)
    context.noted(shard.ledger.events)
    shard.ledger.events.removeAll(keepingCapacity: true)
    if ledger.writer.takeJournalOverflow() {
      context.log.limited(
        .warning, .journalFull, atMilliseconds: context.loop.nowMilliseconds
      ) { [] }
    }
    let lost = ledger.writer.takeDroppedLines()
    if lost > 0 { context.lostLedgerLines(lost) }
  }

  /// These lines are in the ledger already: they were written with their group.
  private func showWritten() {
    context.noted(shard.ledger.writtenEvents)
    shard.ledger.writtenEvents.removeAll(keepingCapacity: true)
  }

  /// Lines and counters wait for a second at most.
  func ledgerSecondPassed() {
    guard !ledger.isGivenUp else { return }
    ledger.isDue =
      !isLedgerQuiet || ledger.writer.needsUpkeep(milliseconds: context.wallMilliseconds)
  }

  /// Whether a group is due for the ledger or the counters alone.
  var isLedgerDue: Bool {
    guard !ledger.isGivenUp else { return false }
    // A store that failed is tried again after a second.
    return ledger.isDue || isStopping && !isLedgerQuiet || ledger.writer.isFull && !ledger.hasFailed
  }

  /// Whether nothing of the ledger and the counters waits to be written.
  var isLedgerQuiet: Bool {
    ledger.isGivenUp || !hasNewCounters && !ledger.writer.hasLines && shard.ledger.events.isEmpty
  }

  private var hasNewCounters: Bool {
    shard.ledger.counters.hasChanged || ledger.rejections.hasChanged || !ledger.staleKeys.isEmpty
  }

  /// Reads what is stored for the devices of a group's notifications: these replace some of it.
  ///
  /// All at once, in the order of the mailbox: looked up one by one they cost twice as much.
  func loadStored(for entries: [GroupEntry]) {
    var unknown: [Device] = []
    var ids: [DeviceID] = []
    let entries = entries.span
    for place in writeOrder {
      let device = entries[place.index].device
      guard !device.knowsStored else { continue }
      unknown.append(device)
      ids.append(DeviceID(place.device))
    }
    guard !unknown.isEmpty else { return }
    do {
      try loadStored(of: unknown, ids)
    } catch {
      // The group is about to fail for the same reason.
      context.logUnreadable(.mailbox, of: unknown[0].key.id, error)
    }
  }

  /// A device may stand there more than once.
  private func loadStored(of devices: [Device], _ ids: [DeviceID]) throws(StoreError) {
    var found: [(device: Int, facts: StoredFacts)] = []
    found.reserveCapacity(devices.count)
    try context.store.scanMailbox(of: ids) { index, key, value in
      // What cannot be read is reported by the drain.
      if let place = try? MailboxKey(decoding: key),
        place.environment == devices[index].key.environment,
        let stored = try? StoredNotification(decoding: value)
      {
        found.append((index, stored.facts(in: value, at: place)))
      }
    }
    var next = found.startIndex
    for (index, device) in devices.enumerated() {
      var stored: [StoredFacts] = []
      while next < found.endIndex, found[next].device == index {
        stored.append(found[next].facts)
        next += 1
      }
      device.loadStored(stored)
    }
  }

  /// Adds lines and counters to the group of `entries`, so that what is durable is in them.
  func writeLedger(_ entries: [GroupEntry]) {
    let number = UInt16(context.index)
    var value = ledger.value
    ledger.value = []
    for key in ledger.staleKeys { group.delete(.meta, key: key.span) }
    for journal in ledger.finishedJournals { journal.seal(into: &group) }
    shard.ledger.takeDurableCounters(with: entries) { counters in
      CountersRecord.encode(counters, into: &value)
      let key = CountersRecord.key(
        worker: number, topic: counters.topic, environment: counters.environment)
      group.put(.meta, key: key.span, value: value.span)
    }
    ledger.rejections.takeChanged { reason, count in
      let key = RejectionRecord.key(worker: number, reason)
      let value = RejectionRecord.encode(count)
      group.put(.meta, key: key.span, value: value.span)
    }
    shard.ledger.takeTraces { trace in
      let key = SupersededRecord.key(worker: number, order: trace.facts.order)
      guard trace.isKept else { return group.delete(.meta, key: key.span) }
      SupersededRecord.encode(trace.facts, into: &value)
      group.put(.meta, key: key.span, value: value.span)
    }
    gatherLedger()
    ledger.writer.seal(
      into: &group, milliseconds: context.wallMilliseconds, groupEvents: shard.ledger.groupEvents)
    shard.ledger.groupEvents.removeAll(keepingCapacity: true)
    ledger.value = value
    ledger.isDue = false
  }

  func ledgerCommitted(succeeded: Bool) {
    ledger.writer.committed(succeeded: succeeded)
    ledger.hasFailed = !succeeded
    if succeeded {
      ledger.staleKeys = []
      for journal in ledger.finishedJournals { journal.remove() }
      ledger.finishedJournals = []
    } else {
      shard.ledger.counters.markAllChanged()
      ledger.rejections.markAllChanged()
      // A store that fails while the service stops is not waited for.
      if isStopping { ledger.isGivenUp = true }
    }
  }
}

/// What a worker keeps of the ledger and the counters.
struct WorkerLedger {
  var writer: LedgerWriter
  var rejections = RejectionCounters()
  /// Counters of workers that are no more, which this one has taken up.
  var staleKeys: [[UInt8]] = []
  /// Journals that nobody writes any more, which this worker has taken up: they end with the next group.
  var finishedJournals: [JournaledLines] = []
  var value: [UInt8] = []
  /// Whether a second has passed for something that waits.
  var isDue = false
  var hasFailed = false
  var isGivenUp = false
}
