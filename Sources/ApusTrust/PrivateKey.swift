import COpenSSL
import CShims

/// A private key, with its public half. Never printed, never compared.
///
/// The handle does not change after `init`, and OpenSSL lets several threads use one key.
@safe package final class PrivateKey: @unchecked Sendable {
  private let handle: OpaquePointer
  package let publicKey: PublicKey

  private init(owning handle: OpaquePointer) {
    unsafe self.handle = unsafe handle
    _ = unsafe EVP_PKEY_up_ref(handle)
    publicKey = unsafe PublicKey(owning: handle)
  }

  deinit { unsafe EVP_PKEY_free(handle) }

  package static func generateP256() throws(TrustFault) -> PrivateKey {
    guard let handle = unsafe apus_generate_p256() else { throw .unsupportedKey }
    return unsafe PrivateKey(owning: handle)
  }

  /// For the third version of the device protocol, which supports only RSA. At least 2048 bits.
  package static func generateRSA(bits: Int) throws(TrustFault) -> PrivateKey {
    guard bits >= 2048, let handle = unsafe apus_generate_rsa(bits) else { throw .unsupportedKey }
    return unsafe PrivateKey(owning: handle)
  }

  /// Reads PKCS#8 (`PRIVATE KEY`, as in Apple's `.p8` files), `EC PRIVATE KEY` or `RSA PRIVATE KEY`.
  package convenience init(pem: String) throws(TrustFault) {
    let labels = ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY", "ENCRYPTED PRIVATE KEY"]
    guard let block = PEM.blocks(of: pem).first(where: { labels.contains($0.label) }) else {
      throw .noPEM("PRIVATE KEY")
    }
    guard block.label != "ENCRYPTED PRIVATE KEY", !block.hasHeader else { throw .encryptedKey }
    let handle = unsafe OpenSSL.decoded(block.der.span, free: { unsafe EVP_PKEY_free($0) }) {
      unsafe d2i_AutoPrivateKey(nil, $0, $1)
    }
    guard let handle = unsafe handle else { throw .malformedKey }
    unsafe self.init(owning: handle)
  }

  /// The key as unencrypted PKCS#8: the form of Apple's `.p8` files.
  package var pkcs8PEM: String {
    guard let info = unsafe EVP_PKEY2PKCS8(handle) else {
      preconditionFailure("a private key has a PKCS#8 form")
    }
    defer { unsafe PKCS8_PRIV_KEY_INFO_free(info) }
    return PEM.text(
      label: "PRIVATE KEY",
      der: unsafe OpenSSL.encoded { unsafe i2d_PKCS8_PRIV_KEY_INFO(info, $0) })
  }

  /// A signature over `message`: DER for ECDSA, PKCS#1 v1.5 for RSA.
  ///
  /// - Parameter repeats: Whether the same message must always get the same signature (RFC 6979), if OpenSSL supports
  ///   that: from version 3.2 on.
  package func signature(
    over message: Span<UInt8>, digest: SignatureDigest, repeats: Bool = false
  ) throws(TrustFault) -> [UInt8] {
    guard let context = unsafe EVP_MD_CTX_new() else { throw .signingFailed }
    defer {
      unsafe EVP_MD_CTX_free(context)
      OpenSSL.clearErrors()
    }
    var keyContext: OpaquePointer?
    guard unsafe EVP_DigestSignInit(context, &keyContext, digest.handle, nil, handle) == 1 else {
      throw .signingFailed
    }
    if repeats, let keyContext = unsafe keyContext {
      _ = unsafe apus_sign_deterministically(keyContext)
    }
    // The key's own bound: no signature of a key that OpenSSL supports is longer.
    var signature = unsafe [UInt8](repeating: 0, count: Int(EVP_PKEY_get_size(handle)))
    var count = signature.count
    let signed = unsafe message.withUnsafeBufferPointer { message in
      unsafe EVP_DigestSign(context, &signature, &count, message.baseAddress, message.count)
    }
    guard signed == 1, count <= signature.count else { throw .signingFailed }
    signature.removeLast(signature.count - count)
    return signature
  }
}
