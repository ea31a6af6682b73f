package import ApusCore
import ApusModel

extension ShardModel {
  /// The operator retires a device now.
  package func retire(_ device: Device) {
    // Accepted, and then discarded like what was accepted before.
    var unwritten = heldBack.filter { letters[$0]?.slot.device == device.key }
    device.session?.forEach {
      if $0.storage == .gathering { unwritten.insert($0.notification.order) }
    }
    shard.retire(device, sinceMilliseconds: wallMilliseconds)
    unanswered[device.key] = nil
    filtered.remove(device.key)
    takeVerdicts(allowed: unwritten, "retire")
    shard.purge(device)
    purging.insert(device.key)
  }

  /// The operator takes the retirement back.
  package func reinstate(_ device: Device) { device.retiredMilliseconds = nil }

  /// Handles a retired device among `drains`.
  package func purge(_ device: Device) {
    loadStored(device)
    let found = store.filter { $0.key.device == device.key }
    let before = count(.discardedTokenUnregistered)
    shard.purged(device, stored(device))
    let counted = Int(count(.discardedTokenUnregistered) - before)
    var ended = 0
    for order in found.values where !isOnlyOnDisk(order) && live.remove(order) != nil { ended += 1 }
    if counted != ended { fault("\(counted) purged notifications are counted, \(ended) ended") }
    purging.remove(device.key)
    takeVerdicts(allowed: [], "purge")
  }

  /// Purges a retired device, and makes it an ordinary one again.
  package func endRetirement(_ device: Device) {
    guard device.retiredMilliseconds != nil else { return }
    settle()
    check()
    if purging.contains(device.key) { fault("a retired device is not purged") }
    for (slot, order) in store where slot.device == device.key {
      fault("\(order) is kept for a retired device")
    }
    for order in live where letters[order]?.slot.device == device.key {
      fault("\(order) lives on for a retired device")
    }
    reinstate(device)
  }
}
