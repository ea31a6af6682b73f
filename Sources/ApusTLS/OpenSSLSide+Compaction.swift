internal import COpenSSL
internal import CShims

// Exports OpenSSL's connection state to our own record layer.

extension OpenSSLSide {
  /// The connection's current state; nil if only OpenSSL can continue, which it then does.
  func makeRecordSide() -> RecordSide? {
    defer { forgetTraffic() }
    guard let traffic = unsafe traffic, isBetweenMessages, version == .v1_3,
      unsafe !traffic.pointee.is_stale,
      let cipher = unsafe SSL_get_current_cipher(ssl),
      let suite = unsafe RecordSuite(number: SSL_CIPHER_get_protocol_id(cipher)),
      unsafe traffic.pointee.client_count == suite.secretBytes,
      unsafe traffic.pointee.server_count == suite.secretBytes
    else { return nil }
    let facts = RecordSide.Facts()
    facts.peerCertificateDER = peerCertificateDER
    facts.session = session
    facts.receivedTicketCount = receivedTicketCount
    let isNeeded = facts.peerCertificateDER != nil || session != nil || receivedTicketCount > 0
    guard
      let records = unsafe RecordSide(
        UnsafePointer(traffic), suite: suite, isResumed: isResumed, protocolIndex: protocolIndex,
        facts: isNeeded ? facts : nil)
    else { return nil }
    // Otherwise OpenSSL would treat the connection as broken, and its session as unusable.
    unsafe SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
    return records
  }

  /// Whether OpenSSL has processed everything it received: there is no partial record or handshake message, and no
  /// output is pending.
  private var isBetweenMessages: Bool {
    guard phase == .established, hasNothingDelayed, unsafe SSL_is_init_finished(ssl) == 1,
      unsafe SSL_has_pending(ssl) == 0, let state = unsafe SSL_rstate_string(ssl)
    else { return false }
    // "RH": the next thing to read is a record's header; "RB": its body.
    return unsafe state[0] == UInt8(ascii: "R") && state[1] == UInt8(ascii: "H")
  }
}
