import ApusCore
import ApusModel
import ApusStore
import ApusTrust

/// Notifications that end as soon as they are decided about.
extension ShardDriver {
  /// Ends an admitted notification at once, without making one, where it must not be stored and its device is away.
  /// False where it is to be submitted.
  func discard(
    _ admitted: borrowing AdmittedFrame, nowMilliseconds: Int64, loopMilliseconds: UInt64
  )
    -> Bool
  {
    let claims = admitted.claims
    let key = DeviceKey(id: claims.device, environment: claims.environment)
    guard
      Admission.storedUntil(
        admitted.head.expirationSeconds, nowSeconds: nowMilliseconds / 1000) == 0,
      let device = unsafe cache.uncounted(key),
      let (order, id) = placeInLedger()
    else { return false }
    let head = admitted.head
    let facts = NotificationFacts(
      order: order, id: id, uniqueID: id, device: claims.device, topic: claims.topic,
      environment: claims.environment, tokenPrefix: head.token.words.0, pushType: head.pushType,
      priority: head.priority, interface: .binary)
    return unsafe device._withUnsafeGuaranteedRef { device in
      shard.discard(
        facts, claims: claims, device: device, nowMilliseconds: nowMilliseconds,
        loopMilliseconds: loopMilliseconds)
    }
  }

  /// Order and id of a notification that nobody asks for them but the ledger. Nil where it cannot be told from others
  /// yet.
  private func placeInLedger() -> (order: UInt64, id: NotificationID)? {
    guard shard.recordsEvents else { return (0, NotificationID(high: 0, low: 0)) }
    return order.next().map { ($0, worker.ids.next()) }
  }
}
