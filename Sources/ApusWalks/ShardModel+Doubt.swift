import ApusCore
import ApusModel

extension ShardModel {
  /// Tells the shard what the disk kept of failed groups, as its driver does before sealing a group.
  package func settleDoubts() {
    guard sealed == nil, shard.doubt != nil else { return }
    let first = shard.ledger.events.count
    var found: [UInt64] = []
    while let doubt = shard.doubt {
      let place = Slot(
        device: doubt.device.key, topic: doubt.slot.topic, index: doubt.slot.index)
      let order = store[place]
      if let order { found.append(order) }
      shard.settleDoubt(found: order.flatMap { notification($0, at: place)?.storedFacts })
    }
    for event in shard.ledger.events[first...]
    where event.causeCode == LedgerCause.foundInStore.rawValue {
      if event.state == .received {
        let known = shard.ledger.events[..<first].last { $0.facts.order == event.facts.order }?
          .state
        let last = known ?? states[event.facts.order]?.last
        if last != .discardedStoreFailed { fault("\(event.facts.order) comes back after its end") }
        live.insert(event.facts.order)
        // It had left its session, with its count.
        ends[event.facts.order] = nil
      } else {
        live.remove(event.facts.order)
      }
    }
    overwritten = []
    inDoubt = []
    // Its provider was told otherwise, but it is stored like any other.
    for order in found where live.contains(order) { letters[order]?.isAccepted = true }
    takeVerdicts(allowed: [], "settle doubts")
  }
}
