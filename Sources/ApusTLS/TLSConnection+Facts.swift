/// What a trusted peer says of somebody whose connection it passes on: the results of the handshake there.
package final class RepresentedPeer: Sendable {
  let applicationProtocol: String?
  let certificateDER: [UInt8]?

  package init(applicationProtocol: String?, certificateDER: [UInt8]?) {
    self.applicationProtocol = applicationProtocol
    self.certificateDER = certificateDER
  }

  var withoutCertificate: RepresentedPeer {
    RepresentedPeer(applicationProtocol: applicationProtocol, certificateDER: nil)
  }
}

/// The results of a completed handshake.
extension TLSConnection {
  /// OpenSSL's part of the connection; nil if it has none.
  var openSSL: OpenSSLSide? {
    if case .openSSL(let side) = side { side } else { nil }
  }

  var records: RecordSide? {
    if case .records(let side) = side { side } else { nil }
  }

  /// Whether the client offered any application protocols. Servers only; known once the ClientHello was read, and
  /// until `compact()`.
  package var offeredALPN: Bool { openSSL?.offeredALPN ?? false }

  /// The negotiated protocol's index in the configured list.
  package var protocolIndex: Int? {
    switch side {
    case .openSSL(let side): side.protocolIndex
    case .records(let side): side.protocolIndex
    case .plain(let side): side.protocolIndex
    case .unbegun: nil
    }
  }

  /// The negotiated application protocol; nil if none.
  package var negotiatedProtocol: String? {
    if let represented { return represented.applicationProtocol }
    return protocolIndex.map { context.applicationProtocols[$0] }
  }

  /// Nil for a version that this layer never offers.
  package var version: TLSVersion? {
    switch side {
    case .openSSL(let side): side.version
    case .records, .plain: .v1_3
    case .unbegun: nil
    }
  }

  /// After a failed handshake, the newest version that the client offered, if the context allows only newer ones; nil
  /// otherwise, and for versions older than TLS 1.0. Servers only.
  package var refusedVersion: TLSVersion? { openSSL?.refusedVersion }

  /// OpenSSL's name of the cipher suite, such as `TLS_AES_128_GCM_SHA256`.
  package var cipherName: String? {
    switch side {
    case .openSSL(let side): side.cipherName
    case .records(let side): side.suite.name
    case .plain, .unbegun: nil
    }
  }

  /// Whether an earlier session was resumed. The peer's certificate is then that session's.
  package var isResumed: Bool { openSSL?.isResumed ?? records?.isResumed ?? false }

  /// The peer's certificate in DER; nil if it has none, or it was dropped. Copied from OpenSSL at each call until
  /// `compact()`.
  package var peerCertificateDER: [UInt8]? {
    if let represented { return represented.certificateDER }
    return switch side {
    case .openSSL(let side): side.peerCertificateDER
    case .records(let side): side.facts?.peerCertificateDER
    case .plain(let side): side.peerCertificateDER
    case .unbegun: nil
    }
  }

  /// Frees the memory of the peer's certificate, after `compact()`; before it, OpenSSL owns it.
  package func forgetPeerCertificate() {
    records?.forgetPeerCertificate()
    if let represented { represent(represented.withoutCertificate) }
  }

  /// Whether the peer has a certificate that expires before that time, in seconds since 1970. Does not copy it; only
  /// before `compact()`.
  package func peerCertificateEnds(before seconds: Int64) -> Bool {
    openSSL?.peerCertificateEnds(before: seconds) ?? false
  }

  /// The host name that the client requested (SNI). Known until `compact()`.
  package var requestedServerName: String? { openSSL?.requestedServerName }

  /// The session to resume next time; nil until the server has sent one. Under TLS 1.3 that comes after the handshake,
  /// with the first read, but not after `compact()`. Clients only.
  package var session: TLSSession? { openSSL?.session ?? records?.facts?.session }

  /// NewSessionTicket messages received, until `compact()`. Only for clients that keep sessions.
  package var receivedTicketCount: Int {
    openSSL?.receivedTicketCount ?? records?.facts?.receivedTicketCount ?? 0
  }
}
