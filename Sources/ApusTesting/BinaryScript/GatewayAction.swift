package import ApusModel

/// An action of a scripted gateway on one connection. After the last action it accepts everything.
package enum GatewayAction: Sendable, Hashable {
  /// The number that a packet names.
  package enum Named: Sendable, Hashable {
    /// The next notification, which is discarded.
    case next
    /// The last accepted notification; 0 if there is none.
    case last
    /// This number.
    case number(UInt32)
  }

  /// Accepts this many notifications.
  case take(Int)
  /// Sends this packet and stops reading. `isSplit`: each byte in its own record. `times`: how often.
  case say(status: UInt8, Named, isSplit: Bool = false, times: Int = 1)
  /// Sends bytes that are not a packet.
  case babble([UInt8])
  /// Rejects the next notification, but resets the connection before the packet is sent.
  case eatPacket
  /// Accepts the next notification and resets the connection.
  case takeAndReset
  /// Resets the connection once a notification arrives, without reading it.
  case reset
  /// Sends FIN without close_notify once a notification arrives.
  case halfClose
  /// Sends close_notify without a packet once a notification arrives.
  case close
  /// Stops reading and keeps the connection open.
  case stall
  /// Does nothing for this many milliseconds.
  case pause(UInt64)

  /// Whether the action waits for a notification.
  var needsFrame: Bool {
    switch self {
    case .take, .say(_, .next, _, _), .eatPacket, .takeAndReset, .reset, .halfClose, .close: true
    case .say, .babble, .stall, .pause: false
    }
  }

  /// A rejection as gateways send it.
  package static func refuse(_ status: BinaryStatus) -> GatewayAction {
    .say(status: status.rawValue, .next)
  }

  /// The status Shutdown, with the last accepted notification.
  package static let shutDown = GatewayAction.say(status: BinaryStatus.shutdown.rawValue, .last)
}
