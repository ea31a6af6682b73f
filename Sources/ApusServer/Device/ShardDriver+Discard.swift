import ApusCore
import ApusModel
import ApusStore
import ApusTrust

/// Notifications that end as soon as they are decided on.
extension ShardDriver {
  /// Ends an admitted notification at once, without making an object for it, if it must not be stored and its device is
  /// offline. False if it must be submitted instead.
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
      let device = unsafe memory.uncounted(key),
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

  /// An acceptance order and an id, which only the ledger needs. Nil if no order is available yet.
  private func placeInLedger() -> (order: UInt64, id: NotificationID)? {
    guard shard.ledger.recordsEvents else { return (0, NotificationID(high: 0, low: 0)) }
    return order.next().map { ($0, context.ids.next()) }
  }
}
