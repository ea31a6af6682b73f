/// The states of a notification, with Apple's labels where Apple has one.
///
/// Logs, counters and tests derive from this enumeration. Each accepted notification ends in exactly one state for
/// which `isTerminal` holds. The raw values are on disk, in the ledger: a new state takes the next free number.
public enum DeliveryState: UInt8, Sendable, CaseIterable, Hashable {
  case received = 0
  case storedDeviceOffline = 1
  case storedPowerConsiderations = 2
  case sent = 3
  case delivered = 4
  case deliveredFromStorage = 5
  case replaced = 6
  case expired = 7
  case refusedByDevice = 8
  case discardedTokenUnregistered = 9
  case discardedDisabled = 10
  case discardedNotStored = 11
  /// The store could not keep it; the provider got an error.
  case discardedStoreFailed = 12
  /// It was sent on several connections in a row, and the device acknowledged it on none.
  case discardedUnacknowledged = 13
  /// It was sent to its app's upstream; once for each attempt.
  case sentUpstream = 14
  /// Upstream did not take it this time, or did not answer; it is sent again.
  case deferredUpstream = 15
  case acceptedUpstream = 16
  /// Upstream rejected it for good.
  case rejectedUpstream = 17
  /// It was forwarded for a provider that waited, and there was no answer: it may have arrived.
  case unansweredUpstream = 18
  /// Its provider sent it again because of an error packet for an earlier one, and that was not sent upstream.
  case resentAfterError = 19

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
    case .discardedStoreFailed: "Discarded - Store Failed"
    case .discardedUnacknowledged: "Discarded - Never Acknowledged"
    case .sentUpstream: "Sent Upstream"
    case .deferredUpstream: "Stored - Upstream Unavailable"
    case .acceptedUpstream: "Accepted Upstream"
    case .rejectedUpstream: "Discarded - Rejected Upstream"
    case .unansweredUpstream: "Unknown - No Answer from Upstream"
    case .resentAfterError: "Sent Again - Accepted Before"
    }
  }

  /// Whether the state is final.
  public var isTerminal: Bool {
    switch self {
    case .received, .storedDeviceOffline, .storedPowerConsiderations, .sent, .sentUpstream,
      .deferredUpstream, .resentAfterError:
      false
    case .delivered, .deliveredFromStorage, .replaced, .expired, .refusedByDevice,
      .discardedTokenUnregistered, .discardedDisabled, .discardedNotStored, .discardedStoreFailed,
      .discardedUnacknowledged, .acceptedUpstream, .rejectedUpstream, .unansweredUpstream:
      true
    }
  }

  /// Whether the notification ended without reaching a device or an upstream.
  public var isDiscarded: Bool {
    switch self {
    case .delivered, .deliveredFromStorage, .acceptedUpstream, .unansweredUpstream: false
    default: isTerminal
    }
  }
}
