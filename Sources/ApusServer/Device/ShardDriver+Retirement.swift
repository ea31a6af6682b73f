import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusStore

extension ShardDriver {
  /// Who is retired was replaced: `previous` says what it was before.
  ///
  /// Dead tokens, refused connects and the end of a live connection are due at once; the rest takes its turn.
  func directoryReplaced(_ previous: Directory) {
    shard.slots.retentions = context.trust.directory.retentions
    let retired = context.trust.directory.retirements
    guard !retired.isEmpty || !previous.retirements.isEmpty else { return }
    for id in previous.retirements.keys where retired[id] == nil && context.owns(id) {
      for device in known(id) { device.retiredMilliseconds = nil }
    }
    let fresh = retired.filter { previous.retirements[$0.key] != $0.value && context.owns($0.key) }
    for (id, since) in fresh {
      for device in known(id) {
        let slot = device.session == nil ? nil : device.connectionSlot
        shard.retire(device, sinceMilliseconds: since)
        if let slot { host?.deviceRetired(at: slot) }
      }
    }
    context.reportRetired(fresh.keys)
    retirements.append(fresh.keys)
    purgeRetired()
  }

  /// The device in each environment in which it is in memory.
  private func known(_ id: DeviceID) -> [Device] {
    Environment.allCases.compactMap { memory.present(DeviceKey(id: id, environment: $0)) }
  }

  /// Lets the tokens of some retired devices be noted, and what is stored for them be removed.
  func purgeRetired() {
    while let id = retirements.next(atSeconds: context.nowSeconds) {
      for environment in Environment.allCases {
        do {
          // One that is retired no more is left as it is.
          let key = DeviceKey(id: id, environment: environment)
          shard.purge(try memory.recall(key))
          try subscriptions.forget(key)
        } catch {
          // The next start comes back to it.
          context.logUnreadable(.record, of: id, error)
        }
      }
    }
  }

  /// Removes everything that is stored for a retired device.
  func purge(_ device: Device) {
    var stored: [StoredFacts] = []
    var unreadable: [MailboxSlot] = []
    let prefix = device.key.id.storeKey
    do {
      try loadStored(device)
      try context.store.scan(.mailbox, prefix: prefix.span) { key, value in
        guard let place = try? MailboxKey(decoding: key),
          place.environment == device.key.environment
        else { return true }
        // What cannot be read goes as well: whatever it is, it was older than what comes from now on.
        if let found = try? StoredNotification(decoding: value) {
          stored.append(found.facts(in: value, at: place))
        } else {
          unreadable.append(MailboxSlot(topic: place.topic, index: place.index))
        }
        return true
      }
    } catch {
      // The next start comes back to it.
      context.logUnreadable(.mailbox, of: device.key.id, error)
    }
    shard.purged(device, stored, unreadable: unreadable)
  }
}
