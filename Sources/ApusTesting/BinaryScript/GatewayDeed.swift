package import ApusModel

/// What a scripted gateway does on one connection, one deed after the other. Behind the last it takes what comes.
package enum GatewayDeed: Sendable, Hashable {
  /// Which number a packet names.
  package enum Named: Sendable, Hashable {
    /// The notification that comes next, which is thrown away.
    case next
    /// The last one that was taken; 0 when there is none.
    case last
    /// Whatever it is.
    case number(UInt32)
  }

  /// Takes so many notifications.
  case take(Int)
  /// Says this packet and reads no more. `isSplit`: each byte in a record of its own. `times`: how often.
  case say(status: UInt8, Named, isSplit: Bool = false, times: Int = 1)
  /// Says something else than a packet.
  case babble([UInt8])
  /// Refuses the next notification, and the connection is reset before the packet is out.
  case eatPacket
  /// Takes the next notification, and the connection is reset.
  case takeAndReset
  /// Resets the connection once a notification is there, which it does not look at.
  case reset
  /// FIN without close_notify, once a notification is there.
  case halfClose
  /// close_notify without a packet, once a notification is there.
  case close
  /// Reads nothing any more, and stays.
  case stall
  /// Does nothing for so many milliseconds, whatever comes.
  case pause(UInt64)

  /// Whether it waits for a notification.
  var needsFrame: Bool {
    switch self {
    case .take, .say(_, .next, _, _), .eatPacket, .takeAndReset, .reset, .halfClose, .close: true
    case .say, .babble, .stall, .pause: false
    }
  }

  /// A refusal as a gateway makes it.
  package static func refuse(_ status: BinaryStatus) -> GatewayDeed {
    .say(status: status.rawValue, .next)
  }

  /// "Shutdown", with the last notification that was taken.
  package static let shutDown = GatewayDeed.say(status: BinaryStatus.shutdown.rawValue, .last)
}
