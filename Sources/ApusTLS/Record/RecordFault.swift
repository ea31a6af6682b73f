/// How a peer broke the protocol after the handshake. The raw value is the alert that it is told (RFC 8446,
/// section 6.2).
enum RecordFault: UInt8, Error {
  /// A record, or a message in it, that nobody may send now; or too many in a row that carry nothing.
  case unexpectedMessage = 10
  /// A record that these keys do not open.
  case badRecordMAC = 20
  case recordOverflow = 22
  /// A value in a message that the RFC does not know.
  case illegalParameter = 47
  /// A message of the wrong length.
  case decodeError = 50
  /// OpenSSL failed us. Nobody's fault but our own.
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
