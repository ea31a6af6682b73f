/// The status byte of the binary interface's error packet.
///
/// Source: "Binary Provider API", Table A-1. The raw values are on the wire. Statuses 6 and 255 are in the table but
/// never sent: no input from a provider can cause the first, and the second carries no information.
public enum BinaryStatus: UInt8, Sendable, CaseIterable, Hashable {
  /// Apple never sends it. Listeners that confirm each accepted notification do.
  case noError = 0
  case processingError = 1
  case missingDeviceToken = 2
  case missingTopic = 3
  case missingPayload = 4
  case invalidTokenSize = 5
  case invalidTopicSize = 6
  case invalidPayloadSize = 7
  case invalidToken = 8
  /// The identifier in the packet is that of the last accepted notification.
  case shutdown = 10
  case protocolError = 128
  case unknown = 255

  /// The description from Apple's table.
  public var text: StaticString {
    switch self {
    case .noError: "No errors encountered"
    case .processingError: "Processing error"
    case .missingDeviceToken: "Missing device token"
    case .missingTopic: "Missing topic"
    case .missingPayload: "Missing payload"
    case .invalidTokenSize: "Invalid token size"
    case .invalidTopicSize: "Invalid topic size"
    case .invalidPayloadSize: "Invalid payload size"
    case .invalidToken: "Invalid token"
    case .shutdown: "Shutdown"
    case .protocolError: "Protocol error (APNs could not parse the notification)"
    case .unknown: "None (unknown)"
    }
  }
}
