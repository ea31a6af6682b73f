internal import ApusModel

/// The commands of the courier protocol: the first byte of a frame.
///
/// Both sides skip and count unknown numbers. Those from 0x80 are extensions of this service and are sent only under
/// `CourierALPN.apus`: one independent client stops at a command that it does not know.
package enum CourierCommand: UInt8, Sendable, CaseIterable, Hashable {
  case connect = 0x07
  case connectResponse = 0x08
  case filter = 0x09
  case notification = 0x0a
  case acknowledgement = 0x0b
  case keepAlive = 0x0c
  case keepAliveAnswer = 0x0d
  case noStorage = 0x0e
  case flush = 0x0f
  case flushAnswer = 0x10
  case appTokenRequest = 0x11
  case appTokenAnswer = 0x12
  case setActiveInterval = 0x13
  case setState = 0x14
  case channel = 0x1d
  case goodbye = 0x80
  case enrolmentRequest = 0x81
  case enrolmentAnswer = 0x82
  case renewalRequest = 0x83
  case renewalAnswer = 0x84
  case renewalAdvice = 0x85

  /// Whether the command may be sent only to a peer that negotiated the extensions.
  package var isExtension: Bool { rawValue >= 0x80 }
}

/// The dialects of the courier port, negotiated by TLS (RFC 7301).
package enum CourierALPN: Sendable, CaseIterable, Hashable {
  /// This service's dialect: the device's certificate in the handshake, and the extensions.
  case apus
  /// The certificate, a nonce and its signature are in the connect message.
  case securityV3
  /// The device's certificate is in the handshake.
  case securityV2
  /// The packed encoding. Known by name only, never selected.
  case pack

  /// The protocol name on the wire.
  package var name: StaticString {
    switch self {
    case .apus: "apus-courier/1"
    case .securityV3: "apns-security-v3"
    case .securityV2: "apns-security-v2"
    case .pack: "apns-pack-v1"
    }
  }

  /// Whether the server may select it.
  package var isSelectable: Bool { self != .pack }

  /// Whether fields from 0x40 and commands from 0x80 may be sent.
  package var allowsExtensions: Bool { self == .apus }

  /// Reads a negotiated name; nil for other protocols.
  package init?(_ name: Span<UInt8>) {
    for dialect in CourierALPN.allCases where name.equals(dialect.name) {
      self = dialect
      return
    }
    return nil
  }
}
