import ApusCore
import ApusModel

extension ShardModel {
  /// The service is killed and started again: only what was written remains.
  package func crash() {
    if let sealed, sealed.isOnDisk { noteDurable(sealed.counters) }
    checkEnds()
    restart()
    sealed = nil
    overwritten = []
    inDoubt = []
    unanswered = [:]
    heldBack = []
    ends = [:]
    filtered = []
    live = Set(store.values)
    // These end at the start.
    pending = live.union(traces.keys)
    for order in pending { letters[order]?.isAccepted = true }
    for device in devices where device.retiredMilliseconds != nil {
      shard.purge(device)
      purging.insert(device.key)
    }
  }

  private func restart() {
    let retentions = shard.slots.retentions
    renewShard()
    shard.slots.retentions = retentions
    for counters in durable.values { shard.ledger.counters.restore(counters) }
    shard.ledger.counters.endUnstored()
    for facts in traces.values { shard.ledger.endTraced(facts) }
    staleTraces = Array(traces.values)
  }

  /// After a crash now, every accepted notification is recorded as pending, or with its end.
  ///
  /// Ends before anything was written may be unknown: their lines wait for at most a second.
  private func checkEnds() {
    noteAdmitted()
    var last = states.compactMapValues(\.last)
    for event in shard.ledger.events { last[event.facts.order] = event.state }
    let kept = Set(store.values)
    for (order, letter) in letters where letter.isAccepted == true && letter.mayBeStored {
      guard !kept.contains(order), traces[order] == nil, !durableEnds.contains(order) else {
        continue
      }
      if everStored.contains(order) {
        fault("\(order) was stored, is no longer, and its end is unknown after a crash")
      } else if last[order]?.isTerminal != true {
        fault("\(order) was accepted, and nothing is known of it after a crash")
      }
    }
  }

  /// The notifications that have ended according to the lines in the group being sealed.
  package func endsBySeal() -> Set<UInt64> {
    var ended = Set(states.filter { $0.value.last?.isTerminal == true }.keys)
    for event in shard.ledger.events {
      if event.state.isTerminal {
        ended.insert(event.facts.order)
      } else if event.state == .received {
        ended.remove(event.facts.order)
      }
    }
    return ended
  }
}
