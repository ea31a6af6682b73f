internal import COpenSSL
internal import CShims

/// A private key, parsed once, for the identities of many connections.
@safe package final class TLSIdentityKey: @unchecked Sendable {
  let key: PrivateKey

  /// - Parameter PEM: Unencrypted.
  /// - Throws: `.invalidConfiguration`.
  package init(PEM text: [UInt8]) throws(TLSError) {
    key = try PEM.privateKey(text, name: "identity key")
  }
}

/// The identity of one client connection, where a context serves clients with many identities: a context with an
/// identity of its own takes 30 KB and a millisecond to create.
package struct TLSConnectionIdentity: Sendable {
  /// Only the certificate: the server must know its issuer.
  package var certificateDER: [UInt8]
  /// The certificate's key.
  package var key: TLSIdentityKey

  package init(certificateDER: [UInt8], key: TLSIdentityKey) {
    self.certificateDER = certificateDER
    self.key = key
  }
}

extension TLSConnection {
  /// Replaces the context's identity. For clients, before `startHandshake`.
  ///
  /// - Throws: `.invalidConfiguration` for a damaged certificate, or one that does not match the key.
  package func use(_ identity: TLSConnectionIdentity) throws(TLSError) {
    guard let ssl = unsafe openSSL?.ssl else { return }
    precondition(!context.isServer, "a server's identity is its context's")
    ERR_clear_error()
    let certificate = unsafe identity.certificateDER.withUnsafeBufferPointer { bytes in
      var position = bytes.baseAddress
      return unsafe d2i_X509(nil, &position, bytes.count)
    }
    guard let certificate = unsafe certificate else {
      throw .invalidConfiguration("client certificate: \(OpenSSLErrors.drain())")
    }
    // From here on OpenSSL holds its own references to both.
    defer { unsafe X509_free(certificate) }
    guard unsafe SSL_use_certificate(ssl, certificate) == 1,
      unsafe SSL_use_PrivateKey(ssl, identity.key.key.handle) == 1,
      unsafe SSL_check_private_key(ssl) == 1
    else {
      throw .invalidConfiguration(
        "client key does not match the certificate: \(OpenSSLErrors.drain())")
    }
  }

  /// Releases the certificate and the key, which are not needed after the handshake.
  package func dropIdentity() { if let ssl = unsafe openSSL?.ssl { unsafe SSL_certs_clear(ssl) } }
}
