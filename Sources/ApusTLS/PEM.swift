internal import COpenSSL
internal import CShims

/// Owns an `X509`.
@safe final class Certificate {
  let handle: OpaquePointer

  /// Takes ownership of the reference.
  init(owning handle: OpaquePointer) { unsafe self.handle = handle }
  deinit { unsafe X509_free(handle) }
}

/// Owns an `EVP_PKEY`.
@safe final class PrivateKey {
  let handle: OpaquePointer

  init(owning handle: OpaquePointer) { unsafe self.handle = handle }
  deinit { unsafe EVP_PKEY_free(handle) }
}

/// What PEM texts contain, each parsed once: OpenSSL takes about a millisecond for a key.
///
/// One thread uses it at a time.
package final class ParsedTexts {
  private var certificates: [[UInt8]: [Certificate]] = [:]
  private var keys: [[UInt8]: PrivateKey] = [:]

  package init() {}

  func certificates(_ pem: [UInt8], name: String) throws(TLSError) -> [Certificate] {
    if let known = certificates[pem] { return known }
    let parsed = try PEM.certificates(pem, name: name)
    certificates[pem] = parsed
    return parsed
  }

  func privateKey(_ pem: [UInt8], name: String) throws(TLSError) -> PrivateKey {
    if let known = keys[pem] { return known }
    let parsed = try PEM.privateKey(pem, name: name)
    keys[pem] = parsed
    return parsed
  }
}

enum PEM {
  /// All certificates of `pem`, at least one. `name` identifies them in errors.
  static func certificates(_ pem: [UInt8], name: String) throws(TLSError) -> [Certificate] {
    ERR_clear_error()
    let (found, lastError) = unsafe withBIO(pem) { bio in
      var found: [Certificate] = []
      while let handle = unsafe PEM_read_bio_X509(bio, nil, nil, nil) {
        found.append(unsafe Certificate(owning: handle))
      }
      return (found, ERR_peek_last_error())
    }
    // The end of the text is reported as one more certificate without a first line.
    let isEnd =
      ERR_GET_LIB(lastError) == ERR_LIB_PEM
      && ERR_GET_REASON(lastError) == PEM_R_NO_START_LINE
    let reason = OpenSSLErrors.drain()
    guard isEnd else {
      throw .invalidConfiguration("\(name): certificate \(found.count + 1) is damaged: \(reason)")
    }
    guard !found.isEmpty else {
      throw .invalidConfiguration("\(name): no certificate in PEM form (\(reason))")
    }
    return found
  }

  /// The first private key of `pem`.
  static func privateKey(_ pem: [UInt8], name: String) throws(TLSError) -> PrivateKey {
    ERR_clear_error()
    let handle = unsafe withBIO(pem) { bio in unsafe apus_tls_read_private_key(bio) }
    guard let handle = unsafe handle else {
      throw .invalidConfiguration(
        "\(name): no usable private key in PEM form, unencrypted (\(OpenSSLErrors.drain()))")
    }
    return unsafe PrivateKey(owning: handle)
  }

  private static func withBIO<Result>(
    _ pem: [UInt8], _ body: (OpaquePointer?) -> Result
  ) -> Result {
    // OpenSSL cannot make a BIO over nothing; an empty line contains no certificate either.
    let pem = pem.isEmpty ? [0x0a] : pem
    return unsafe pem.withUnsafeBytes { bytes in
      let bio = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count))
      defer { unsafe BIO_free(bio) }
      return unsafe body(bio)
    }
  }
}
