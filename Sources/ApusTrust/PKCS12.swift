import COpenSSL
import CShims

/// A certificate with its key in one encrypted file (RFC 7292): `.p12`, as Apple's Keychain and most older providers
/// use it.
package struct PKCS12: Sendable {
  /// The certificate, then those up to its root.
  package let certificatePEM: [UInt8]
  /// Unencrypted PKCS#8.
  package let keyPEM: [UInt8]

  /// Opens a file, also one with old encryption (RC2, triple DES).
  package init(_ file: Span<UInt8>, password: String) throws(TrustFault) {
    guard let certificates = unsafe BIO_new(BIO_s_mem()), let key = unsafe BIO_new(BIO_s_mem())
    else {
      throw .signingFailed
    }
    defer {
      unsafe BIO_free(certificates)
      unsafe BIO_free(key)
      OpenSSL.clearErrors()
    }
    let result = unsafe file.withUnsafeBufferPointer { file in
      unsafe apus_pkcs12_pem(file.baseAddress, file.count, password, certificates, key)
    }
    switch result {
    case 1: break
    case 0: throw .malformedPKCS12
    case -2: throw .incompletePKCS12
    default: throw .lockedPKCS12
    }
    certificatePEM = unsafe Self.bytes(certificates)
    keyPEM = unsafe Self.bytes(key)
  }

  private static func bytes(_ bio: OpaquePointer) -> [UInt8] {
    var start: UnsafePointer<UInt8>?
    let count = unsafe apus_bio_bytes(bio, &start)
    return unsafe Array(UnsafeBufferPointer(start: start, count: count))
  }
}
