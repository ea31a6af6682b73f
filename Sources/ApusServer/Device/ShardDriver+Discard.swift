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
      let device = cache[key], device.session == nil,
      let order = order.next()
    else { return false }
    let head = admitted.head
    // Nobody sees the id but the ledger.
    let id = shard.recordsEvents ? worker.ids.next() : NotificationID(high: 0, low: 0)
    let facts = NotificationFacts(
      order: order, id: id, uniqueID: id, device: claims.device, topic: claims.topic,
      environment: claims.environment, tokenPrefix: head.token.words.0, pushType: head.pushType,
      priority: head.priority, interface: .binary)
    return shard.discard(
      facts, claims: claims, device: device, nowMilliseconds: nowMilliseconds,
      loopMilliseconds: loopMilliseconds)
  }
}
