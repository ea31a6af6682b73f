/// What a completed handshake settled.
extension TLSConnection {
  /// OpenSSL's part in the connection; nil where it has none, or none any more.
  var openSSL: OpenSSLSide? {
    if case .openSSL(let side) = side { side } else { nil }
  }

  var records: RecordSide? {
    if case .records(let side) = side { side } else { nil }
  }

  /// Whether the client offered application protocols at all. Servers only; known once the ClientHello was read, and
  /// until `compact()`.
  package var offeredALPN: Bool { openSSL?.offeredALPN ?? false }

  /// The negotiated protocol's place in the configured list.
  package var protocolIndex: Int? {
    switch side {
    case .openSSL(let side): side.protocolIndex
    case .records(let side): side.protocolIndex
    case .plain(let side): side.protocolIndex
    case .unbegun: nil
    }
  }

  /// The negotiated application protocol; nil: none.
  package var negotiatedProtocol: String? { protocolIndex.map { context.applicationProtocols[$0] } }

  /// Nil for a version that this layer never offers.
  package var version: TLSVersion? {
    switch side {
    case .openSSL(let side): side.version
    case .records, .plain: .v1_3
    case .unbegun: nil
    }
  }

  /// OpenSSL's name of the cipher suite, such as `TLS_AES_128_GCM_SHA256`.
  package var cipherName: String? {
    switch side {
    case .openSSL(let side): side.cipherName
    case .records(let side): side.suite.name
    case .plain, .unbegun: nil
    }
  }

  /// Whether an earlier session was resumed. The peer's certificate is that session's then.
  package var isResumed: Bool { openSSL?.isResumed ?? records?.isResumed ?? false }

  /// The peer's certificate in DER; nil: it has none, or it was forgotten. Copied from OpenSSL at each call until
  /// `compact()`.
  package var peerCertificateDER: [UInt8]? {
    switch side {
    case .openSSL(let side): side.peerCertificateDER
    case .records(let side): side.facts?.peerCertificateDER
    case .plain(let side): side.peerCertificateDER
    case .unbegun: nil
    }
  }

  /// Gives the memory of the peer's certificate back, after `compact()`; until then it is OpenSSL's.
  package func forgetPeerCertificate() { records?.forgetPeerCertificate() }

  /// Whether the peer has a certificate that ends before that time, in seconds since 1970. Without a copy of it; asked
  /// before `compact()`.
  package func peerCertificateEnds(before seconds: Int64) -> Bool {
    openSSL?.peerCertificateEnds(before: seconds) ?? false
  }

  /// The host name that the client asked for. Known until `compact()`.
  package var requestedServerName: String? { openSSL?.requestedServerName }

  /// What to resume next time; nil until the server gave a session. Under TLS 1.3 that comes after the handshake,
  /// with the first read, and no more after `compact()`. Clients only.
  package var session: TLSSession? { openSSL?.session ?? records?.facts?.session }

  /// NewSessionTicket messages that were received, until `compact()`. Clients that keep sessions only.
  package var receivedTicketCount: Int {
    openSSL?.receivedTicketCount ?? records?.facts?.receivedTicketCount ?? 0
  }
}
