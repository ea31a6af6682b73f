internal import COpenSSL
internal import CShims

/// The results of a completed handshake.
extension OpenSSLSide {
  /// Nil for a version that this layer never offers.
  var version: TLSVersion? {
    UInt16(exactly: unsafe SSL_version(ssl)).flatMap(TLSVersion.init)
  }

  /// The newest version that the client offered, if it is too old for this server; nil if not, or before the
  /// ClientHello. A client of TLS 1.3 puts 1.2 into the field that OpenSSL reads (RFC 8446, section 4.1.2).
  var refusedVersion: TLSVersion? {
    guard context.isServer, phase == .failed else { return nil }
    let oldest = unsafe SSL_ctrl(ssl, SSL_CTRL_GET_MIN_PROTO_VERSION, 0, nil)
    let offered = UInt16(exactly: unsafe SSL_client_version(ssl)).flatMap(TLSVersion.init)
    return offered.flatMap { Int($0.rawValue) < oldest ? $0 : nil }
  }

  /// OpenSSL's name of the cipher suite, such as `TLS_AES_128_GCM_SHA256`.
  var cipherName: String? {
    guard let cipher = unsafe SSL_get_current_cipher(ssl) else { return nil }
    return unsafe String(cString: SSL_CIPHER_get_name(cipher))
  }

  /// Whether an earlier session was resumed. The peer's certificate is then that session's.
  var isResumed: Bool { unsafe SSL_session_reused(ssl) == 1 }

  /// The peer's certificate in DER; nil if it has none. Copied at each call.
  var peerCertificateDER: [UInt8]? {
    guard let certificate = unsafe SSL_get0_peer_certificate(ssl) else {
      return unsafe resumedCertificate.map { unsafe Array($0.der) }
    }
    let count = unsafe i2d_X509(certificate, nil)
    guard count > 0 else { return nil }
    return unsafe [UInt8](unsafeUninitializedCapacity: Int(count)) { bytes, written in
      var position = bytes.baseAddress
      written = Int(max(0, unsafe i2d_X509(certificate, &position)))
    }
  }

  /// Whether the peer has a certificate that expires before that time, in seconds since 1970. Does not copy it.
  func peerCertificateEnds(before seconds: Int64) -> Bool {
    guard let certificate = unsafe SSL_get0_peer_certificate(ssl) else {
      return unsafe resumedCertificate.map { unsafe $0.endSeconds < seconds } ?? false
    }
    var time = time_t(seconds)
    return unsafe X509_cmp_time(X509_get0_notAfter(certificate), &time) < 0
  }

  /// A client's certificate from its ticket, where OpenSSL does not have it.
  private var resumedCertificate: (der: UnsafeBufferPointer<UInt8>, endSeconds: Int64)? {
    guard context.isServer else { return nil }
    var (count, endSeconds) = (0, Int64(0))
    guard let der = unsafe apus_tls_resumed_certificate(ssl, &count, &endSeconds) else {
      return nil
    }
    return unsafe (UnsafeBufferPointer(start: der, count: count), endSeconds)
  }

  /// The host name that the client requested (SNI).
  var requestedServerName: String? {
    guard let name = unsafe SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) else { return nil }
    return unsafe String(cString: name)
  }

  func selectedProtocolIndex() -> Int? {
    var name: UnsafePointer<UInt8>?
    var count: UInt32 = 0
    unsafe SSL_get0_alpn_selected(ssl, &name, &count)
    let selected = unsafe UnsafeBufferPointer(start: name, count: Int(count))
    guard !selected.isEmpty else { return nil }
    return context.applicationProtocolBytes.firstIndex { unsafe $0.elementsEqual(selected) }
  }
}
