/// The states that a notification goes through, under Apple's labels where Apple has one.
///
/// Logs, counters and tests derive from this enumeration. Each accepted notification ends in exactly one state for
/// which `isTerminal` holds.
public enum DeliveryState: UInt8, Sendable, CaseIterable, Hashable {
  case received
  case storedDeviceOffline
  case storedPowerConsiderations
  case sent
  case delivered
  case deliveredFromStorage
  case replaced
  case expired
  case refusedByDevice
  case discardedTokenUnregistered
  case discardedDisabled
  case discardedNotStored

  /// The label in the ledger, in logs and on the console.
  public var label: StaticString {
    switch self {
    case .received: "Received by APNs"
    case .storedDeviceOffline: "Stored - Device Offline"
    case .storedPowerConsiderations: "Stored - Power Considerations"
    case .sent: "Sent to Device"
    case .delivered: "Delivered to Device"
    case .deliveredFromStorage: "Delivered to Device (From Storage)"
    case .replaced: "Discarded - Replaced"
    case .expired: "Discarded - Expired"
    case .refusedByDevice: "Discarded - Refused by Device"
    case .discardedTokenUnregistered: "Discarded - Token Unregistered"
    case .discardedDisabled: "Discarded - Disabled"
    case .discardedNotStored: "Discarded - Not Stored"
    }
  }

  /// Whether nothing follows.
  public var isTerminal: Bool {
    switch self {
    case .received, .storedDeviceOffline, .storedPowerConsiderations, .sent: false
    case .delivered, .deliveredFromStorage, .replaced, .expired, .refusedByDevice,
      .discardedTokenUnregistered, .discardedDisabled, .discardedNotStored:
      true
    }
  }
}
