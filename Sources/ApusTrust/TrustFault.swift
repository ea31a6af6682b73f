/// Why a key or a certificate cannot be read, used or issued.
package enum TrustFault: Error, Sendable, Hashable {
  /// The text has no PEM block of this kind.
  case noPEM(String)
  /// The key is encrypted; Apus reads unencrypted keys, from files that only it can read.
  case encryptedKey
  case malformedKey
  /// A key that is neither P-256 nor RSA of 2048 bits or more.
  case unsupportedKey
  case malformedCertificate
  /// The key does not match the certificate.
  case keyMismatch
  /// The certificate is not one of an authority.
  case notAnAuthority
  /// Not a DNS name, an IPv4 address or an IPv6 address.
  case badName(String)
  /// A text that is empty or too long for a certificate.
  case badSubject(String)
  case noNames
  case signingFailed
  case malformedPKCS12
  /// The password is wrong, or OpenSSL does not support the file's encryption.
  case lockedPKCS12
  /// A file without a key, or without its certificate.
  case incompletePKCS12
}

extension TrustFault: CustomStringConvertible {
  /// What is wrong and how to fix it.
  package var description: String {
    switch self {
    case .noPEM(let label): "the text contains no PEM block \"\(label)\""
    case .encryptedKey:
      "the private key is encrypted: decrypt it first, for example with openssl pkey"
    case .malformedKey: "the key cannot be read: neither PKCS#8 nor an EC or RSA key"
    case .unsupportedKey: "the key is neither ECDSA P-256 nor RSA of 2048 bits or more"
    case .malformedCertificate: "the certificate cannot be read"
    case .keyMismatch: "the private key does not belong to the certificate"
    case .notAnAuthority: "the certificate is not that of an authority (CA:TRUE, keyCertSign)"
    case .badName(let name): "\"\(name)\" is neither a DNS name nor an IP address"
    case .badSubject(let text): "\"\(text)\" cannot be part of a certificate's subject"
    case .noNames: "a server certificate needs at least one DNS name or IP address"
    case .signingFailed: "OpenSSL failed to sign"
    case .malformedPKCS12: "this is not a PKCS#12 file"
    case .lockedPKCS12:
      "the PKCS#12 file cannot be opened: the password is wrong, or OpenSSL's legacy provider is required "
        + "but not installed"
    case .incompletePKCS12: "the PKCS#12 file lacks the key, or the certificate for it"
    }
  }
}
