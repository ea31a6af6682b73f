/// A line of the ledger: which notification reached which state, and when.
public struct LedgerRecord: Sendable, Hashable {
  /// Unix milliseconds.
  public var milliseconds: Int64
  public var event: LedgerEvent

  public init(milliseconds: Int64, event: LedgerEvent) {
    self.milliseconds = milliseconds
    self.event = event
  }
}

/// A filter for the ledger. Nil and empty properties match everything.
public struct LedgerQuery: Sendable {
  public var id: NotificationID?
  public var uniqueID: NotificationID?
  /// The first eight bytes of a device token.
  public var tokenPrefix: UInt64?
  public var device: DeviceID?
  public var topic: TopicKey?
  public var environment: Environment?
  public var states: Set<DeliveryState> = []
  /// Unix milliseconds: `since` is inclusive, `until` exclusive.
  public var sinceMilliseconds: Int64?
  public var untilMilliseconds: Int64?

  public init() {}

  public func matches(_ record: LedgerRecord) -> Bool {
    let facts = record.event.facts
    if let id, facts.id != id { return false }
    if let uniqueID, facts.uniqueID != uniqueID { return false }
    if let tokenPrefix, facts.tokenPrefix != tokenPrefix { return false }
    if let device, facts.device != device { return false }
    if let topic, facts.topic != topic { return false }
    if let environment, facts.environment != environment { return false }
    if !states.isEmpty, !states.contains(record.event.state) { return false }
    if let sinceMilliseconds, record.milliseconds < sinceMilliseconds { return false }
    if let untilMilliseconds, record.milliseconds >= untilMilliseconds { return false }
    return true
  }
}
