import COpenSSL

/// The type of a key.
package enum KeyKind: Sendable, Hashable {
  case p256
  case rsa(bits: Int)
  /// Another curve or algorithm: unusable here.
  case other

  /// Whether Apus accepts signatures of such a key: P-256, or RSA of 2048 bits or more.
  package var isStrong: Bool {
    switch self {
    case .p256: true
    case .rsa(let bits): bits >= 2048
    case .other: false
    }
  }

  init(_ handle: OpaquePointer) {
    switch unsafe EVP_PKEY_get_base_id(handle) {
    case EVP_PKEY_RSA: self = unsafe .rsa(bits: Int(EVP_PKEY_get_bits(handle)))
    case EVP_PKEY_EC:
      var name = [CChar](repeating: 0, count: 64)
      var count = 0
      let known = unsafe EVP_PKEY_get_group_name(handle, &name, name.count, &count)
      let text = name.prefix(count).map { UInt8(bitPattern: $0) }
      self = known == 1 && text.elementsEqual("prime256v1".utf8) ? .p256 : .other
      OpenSSL.clearErrors()
    default: self = .other
    }
  }
}

/// The digest of a signature.
package enum SignatureDigest {
  /// Only for the nonce of the device protocol's third version, which supports no other.
  case sha1
  case sha256
  case sha512

  var handle: OpaquePointer? {
    switch self {
    case .sha1: unsafe EVP_sha1()
    case .sha256: unsafe EVP_sha256()
    case .sha512: unsafe EVP_sha512()
    }
  }
}

/// A public key.
///
/// The handle does not change after `init`, and OpenSSL lets several threads read one key.
@safe package final class PublicKey: @unchecked Sendable {
  let handle: OpaquePointer
  package let kind: KeyKind
  /// SubjectPublicKeyInfo. RFC 5280, section 4.1.2.7.
  package let spkiDER: [UInt8]
  /// Identifies the key: the first bytes of its SHA-256.
  package var mark: UInt64 {
    let der = spkiDER
    return SHA256Digest(of: der.span).words.0
  }

  /// Takes ownership of the handle.
  init(owning handle: OpaquePointer) {
    unsafe self.handle = unsafe handle
    kind = unsafe KeyKind(handle)
    spkiDER = unsafe OpenSSL.encoded { unsafe i2d_PUBKEY(handle, $0) }
  }

  package convenience init(spkiDER: Span<UInt8>) throws(TrustFault) {
    let handle = unsafe OpenSSL.decoded(spkiDER, free: { unsafe EVP_PKEY_free($0) }) {
      unsafe d2i_PUBKEY(nil, $0, $1)
    }
    guard let handle = unsafe handle else { throw .malformedKey }
    unsafe self.init(owning: handle)
  }

  /// Reads a `PUBLIC KEY` block.
  package convenience init(spkiPEM: String) throws(TrustFault) {
    guard let block = PEM.blocks(of: spkiPEM).first(where: { $0.label == "PUBLIC KEY" }) else {
      throw .noPEM("PUBLIC KEY")
    }
    try self.init(spkiDER: block.der.span)
  }

  deinit { unsafe EVP_PKEY_free(handle) }

  package var spkiPEM: String { PEM.text(label: "PUBLIC KEY", der: spkiDER) }

  package var spkiSHA256: SHA256Digest {
    let der = spkiDER
    return SHA256Digest(of: der.span)
  }

  /// Whether `signature` (DER for ECDSA, PKCS#1 v1.5 for RSA) is a signature of this key over `message`.
  func verifies(
    _ signature: Span<UInt8>, over message: Span<UInt8>, digest: SignatureDigest
  ) -> Bool {
    guard let context = unsafe EVP_MD_CTX_new() else { return false }
    defer {
      unsafe EVP_MD_CTX_free(context)
      OpenSSL.clearErrors()
    }
    guard unsafe EVP_DigestVerifyInit(context, nil, digest.handle, nil, handle) == 1 else {
      return false
    }
    return unsafe signature.withUnsafeBufferPointer { signature in
      unsafe message.withUnsafeBufferPointer { message in
        unsafe EVP_DigestVerify(
          context, signature.baseAddress, signature.count, message.baseAddress, message.count)
      }
    } == 1
  }
}
