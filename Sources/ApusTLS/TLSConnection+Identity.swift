internal import COpenSSL
internal import CShims

/// A private key, read once, for the identities of many connections.
@safe package final class TLSIdentityKey: @unchecked Sendable {
  let key: PrivateKey

  /// - Parameter PEM: not encrypted.
  /// - Throws: `.invalidConfiguration`.
  package init(PEM text: [UInt8]) throws(TLSError) {
    key = try PEM.privateKey(text, name: "identity key")
  }
}

/// What one connection of a client shows, where its context serves clients of many identities: a context with an
/// identity of its own takes 30 KB and a millisecond to make.
package struct TLSConnectionIdentity: Sendable {
  /// The certificate alone: it must be one that the server knows the issuer of.
  package var certificateDER: [UInt8]
  /// The certificate's key.
  package var key: TLSIdentityKey

  package init(certificateDER: [UInt8], key: TLSIdentityKey) {
    self.certificateDER = certificateDER
    self.key = key
  }
}

extension TLSConnection {
  /// Takes the identity in place of the context's. For clients, before `startHandshake`.
  ///
  /// - Throws: `.invalidConfiguration` for a damaged certificate, or one of another key.
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
    // Both are counted by OpenSSL from here on.
    defer { unsafe X509_free(certificate) }
    guard unsafe SSL_use_certificate(ssl, certificate) == 1,
      unsafe SSL_use_PrivateKey(ssl, identity.key.key.handle) == 1,
      unsafe SSL_check_private_key(ssl) == 1
    else {
      throw .invalidConfiguration(
        "client key is not the key of the certificate: \(OpenSSLErrors.drain())")
    }
  }

  /// Lets go of the certificate and the key, which nothing needs once the handshake is completed.
  package func dropIdentity() { if let ssl = unsafe openSSL?.ssl { unsafe SSL_certs_clear(ssl) } }
}
