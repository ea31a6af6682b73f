import ApusCore
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust

// What waits in the store for a device that has come.

extension ShardDriver {
  func drain(_ device: Device) {
    do {
      try loadStored(device)
      let (stored, more) = try storedNotifications(of: device)
      shard.drained(
        device, stored, more: more, loopMilliseconds: context.loop.nowMilliseconds)
      if stored.isEmpty, !more { host?.nothingStored(at: device.connectionSlot) }
    } catch {
      // The notifications stay where they are, and the store is asked again.
      context.logUnreadable(.mailbox, of: device.key.id, error)
      shard.drainFailed(device, loopMilliseconds: context.loop.nowMilliseconds)
    }
  }

  /// Ends a stored notification that the store took for expired, if it is there still and so.
  func expire(_ place: MailboxKey) {
    do {
      let device = try memory.recall(
        DeviceKey(id: place.device, environment: place.environment), .stored)
      // A newer notification on its way to the slot would be removed with the old one. The store comes by it again.
      guard device.pendingWrites == 0 else { return }
      try loadStored(device)
      let key = place.encoded()
      guard let value = try context.store.get(.mailbox, key: key.span),
        let notification = notification(from: value.span, at: place)
      else { return }
      if notification.isExpired(atSeconds: context.wallSeconds) {
        shard.expired(notification, of: device)
      }
      shard.pool.release(notification)
    } catch {
      // The store comes by it again.
      context.logUnreadable(.mailbox, of: place.device, error)
    }
  }

  /// What waits for the device under topics whose notifications flow, oldest first, as many as a session may hold.
  private func storedNotifications(
    of device: Device
  ) throws(StoreError) -> (stored: [Notification], more: Bool) {
    var found: [Notification] = []
    let prefix = device.key.id.storeKey
    try context.store.scan(.mailbox, prefix: prefix.span) { key, value in
      guard let place = try? MailboxKey(decoding: key),
        place.environment == device.key.environment
      else { return true }
      guard let state = device.registration[place.topic]?.state, state.flows else { return true }
      guard let notification = notification(from: value, at: place) else { return true }
      if notification.isExpired(atSeconds: context.wallSeconds) {
        shard.expired(notification, of: device)
        shard.pool.release(notification)
      } else if isOutlived(notification, device) {
        shard.outlived(notification, of: device)
        shard.pool.release(notification)
      } else {
        found.append(notification)
      }
      return true
    }
    found.sort { $0.order < $1.order }
    let room = shard.room(for: found, of: device)
    for surplus in found.dropFirst(room) { shard.pool.release(surplus) }
    return (Array(found.prefix(room)), found.count > room)
  }

  /// Whether its token is of an installation of the app that is gone. Tokens of a key that was removed tell nothing.
  private func isOutlived(_ notification: Notification, _ device: Device) -> Bool {
    guard let claims = context.sealer.open(notification.token), claims.generation != 0,
      let current = device.registration[claims.topic]?.generation
    else { return false }
    return claims.generation != current
  }

  private func notification(from value: Span<UInt8>, at place: MailboxKey) -> Notification? {
    do {
      let stored = try StoredNotification(decoding: value)
      let notification = shard.pool.takeNotification()
      notification.fill(from: stored, in: value, at: place)
      return notification
    } catch {
      context.logUnreadable(.notification, of: place.device, error)
      return nil
    }
  }
}
