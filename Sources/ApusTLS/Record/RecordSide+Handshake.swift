// Post-handshake messages. RFC 8446, section 4.6.

extension RecordSide {
  private enum Message {
    static let newSessionTicket: UInt8 = 4
    static let keyUpdate: UInt8 = 24
    static let headerCount: UInt8 = 4
  }

  /// The most bytes of a NewSessionTicket: 12 bytes of numbers and lengths, a nonce of 255, a ticket and extensions of
  /// 2^16 - 1 each.
  private static let ticketBytes: UInt32 = 12 + 255 + 2 * 65535

  /// Messages may span records, or share one; a KeyUpdate must be the last of its record.
  func receiveHandshake(_ content: UnsafeRawBufferPointer) throws(RecordFault) {
    // RFC 8446, section 5.1.
    guard content.count > 0 else { throw .unexpectedMessage }
    var index = 0
    while index < content.count {
      if skippedCount > 0 {
        let taken = min(Int(skippedCount), content.count - index)
        skippedCount -= UInt32(taken)
        index += taken
        continue
      }
      message = unsafe message << 8 | UInt64(content[index])
      messageCount += 1
      index += 1
      if messageCount == Message.headerCount {
        try begin(UInt8(message >> 24), count: UInt32(message & 0xff_ffff))
      } else if messageCount > Message.headerCount {
        // RFC 8446, section 5.1: messages must not span a change of keys.
        guard index == content.count else { throw .unexpectedMessage }
        let request = message & 0xff
        (message, messageCount) = (0, 0)
        guard request <= 1 else { throw .illegalParameter }
        try receiveKeyUpdate(isAnswerWanted: request == 1)
      }
    }
  }

  private func begin(_ type: UInt8, count: UInt32) throws(RecordFault) {
    switch type {
    case Message.keyUpdate:
      guard count == 1 else { throw .decodeError }
    case Message.newSessionTicket where !isServer:
      // Tickets are skipped: a connection that wants them does not become compact.
      guard count > 0 else { throw .decodeError }
      guard count <= Self.ticketBytes else { throw .illegalParameter }
      (message, messageCount) = (0, 0)
      skippedCount = count
    // We neither request nor offer post-handshake authentication.
    default: throw .unexpectedMessage
    }
  }
}
