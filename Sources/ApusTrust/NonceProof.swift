import ApusModel
package import ApusWire

/// Why a signed nonce does not prove that a device has its key.
package enum NonceProofFault: Error, Sendable, Hashable {
  /// Not 17 bytes, or the first is not zero.
  case form
  /// The signature does not begin with `01 01`, the only algorithm.
  case algorithm
  case malformedCertificate
  /// The certificate's key is not RSA of 2048 bits or more.
  case key
  case signature
}

/// The proof in the third version of the device protocol: a `CourierNonce` that the device created, and its signature.
///
///     signature: 01 01 | RSA PKCS#1 v1.5 over SHA-1 of the nonce's 17 bytes
///
/// The signature does not bind the nonce to anything else, so the caller must reject times far from its own
/// (`Limits.courierNonceSeconds`) and nonces that it has seen.
package enum NonceProof {
  private static let algorithm: [UInt8] = [1, 1]

  /// Checks form and signature, but neither the time nor the trust in the certificate.
  package static func verify(
    nonce: Span<UInt8>, signature: Span<UInt8>, certificateDER: Span<UInt8>
  ) throws(NonceProofFault) -> CourierNonce {
    guard let parsed = CourierNonce(nonce) else { throw .form }
    guard signature.count > algorithm.count,
      signature.extracting(0..<algorithm.count).equals(algorithm.span)
    else { throw .algorithm }
    let key: PublicKey
    do {
      key = try Certificate(der: certificateDER).publicKey()
    } catch {
      throw .malformedCertificate
    }
    guard case .rsa = key.kind, key.kind.isStrong else { throw .key }
    let value = signature.extracting(algorithm.count..<signature.count)
    guard key.verifies(value, over: nonce, digest: .sha1) else { throw .signature }
    return parsed
  }

  /// Creates a nonce and its signature, as a device does.
  ///
  /// - Parameter random: 8 bytes, from `randomBytes`.
  package static func sign(
    milliseconds: UInt64, random: [UInt8], key: PrivateKey
  ) throws(TrustFault) -> (nonce: [UInt8], signature: [UInt8]) {
    precondition(random.count == 8, "a nonce has 8 random bytes")
    guard case .rsa = key.publicKey.kind else { throw .unsupportedKey }
    let number = random.span.bigEndianUInt64(at: 0)
    let nonce = CourierNonce(milliseconds: milliseconds, random: number).bytes
    return (nonce, algorithm + (try key.signature(over: nonce.span, digest: .sha1)))
  }
}
