/// How a peer violated the protocol after the handshake. The raw value is the alert sent to it (RFC 8446, section
/// 6.2).
enum RecordFault: UInt8, Error {
  /// A record or message that is not allowed now, or too many in a row without content.
  case unexpectedMessage = 10
  /// A record that cannot be decrypted with these keys.
  case badRecordMAC = 20
  case recordOverflow = 22
  /// A value in a message that the RFC does not define.
  case illegalParameter = 47
  /// A message of the wrong length.
  case decodeError = 50
  /// OpenSSL failed; the peer is not at fault.
  case internalError = 80

  var error: TLSError {
    let text: StaticString =
      switch self {
      case .unexpectedMessage: "unexpected message"
      case .badRecordMAC: "decryption failed or bad record mac"
      case .recordOverflow: "record too long"
      case .illegalParameter: "illegal value in a message"
      case .decodeError: "message of the wrong length"
      case .internalError: "OpenSSL failed"
      }
    return .protocolError("\(text) (sent alert \(rawValue))")
  }
}
