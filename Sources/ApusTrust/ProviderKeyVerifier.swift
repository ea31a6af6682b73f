import ApusWire

/// Verifies provider tokens with one registered key.
package struct ProviderKeyVerifier: Sendable {
  package let publicKey: PublicKey
  /// Whether tokens with `alg` `ES512` pass too: one library in use signs with a P-256 key that way.
  package let lenient: Bool

  /// Bytes of r, and of s, in a signature for ES512. RFC 7518, section 3.4.
  private static let es512ScalarBytes = 66

  /// The key must be P-256.
  package init(publicKey: PublicKey, lenient: Bool = false) throws(TrustFault) {
    guard publicKey.kind == .p256 else { throw .unsupportedKey }
    self.publicKey = publicKey
    self.lenient = lenient
  }

  /// Whether the key signed `token`, which was parsed from `text`. About 50 us, so cache the result.
  ///
  /// Signatures are r and s in 64 bytes (RFC 7518) or DER, which Java's signers and Apple's own recipe for the command
  /// line produce. 64 bytes can also be DER, but only if r or s begins with some 20 zero bits.
  package func verifies(_ token: ProviderToken, in text: Span<UInt8>) -> Bool {
    let input = text.extracting(token.signingInput)
    let bytes = token.signature.span
    switch token.algorithm {
    case .es256:
      if let signature = ECDSASignature(raw: bytes),
        publicKey.verifies(signature.der.span, over: input, digest: .sha256)
      {
        return true
      }
      guard let signature = ECDSASignature(der: bytes) else { return false }
      return publicKey.verifies(signature.der.span, over: input, digest: .sha256)
    case .es512:
      guard lenient, let signature = ECDSASignature(raw: bytes, width: Self.es512ScalarBytes)
      else { return false }
      return publicKey.verifies(signature.der.span, over: input, digest: .sha512)
    }
  }
}

extension ProviderToken {
  /// Creates a token, for a provider: `ES256`, with the signature as r and s in 64 bytes.
  ///
  /// - Parameter issuedAt: Unix seconds.
  package static func sign(
    teamID: String, keyID: String, issuedAt: Int64, key: PrivateKey
  ) throws(TrustFault) -> String {
    guard key.publicKey.kind == .p256 else { throw .unsupportedKey }
    guard isIdentifier(keyID, lengths: keyIDBytes...keyIDBytes) else { throw .badSubject(keyID) }
    guard isIdentifier(teamID, lengths: 1...teamIDBytes) else { throw .badSubject(teamID) }
    let header = "{\"alg\":\"ES256\",\"kid\":\"\(keyID)\"}"
    let claims = "{\"iss\":\"\(teamID)\",\"iat\":\(issuedAt)}"
    let dot = [UInt8(ascii: ".")]
    let input =
      Base64URL.encode(Array(header.utf8).span) + dot + Base64URL.encode(Array(claims.utf8).span)
    let der = try key.signature(over: input.span, digest: .sha256, repeats: true)
    guard let signature = ECDSASignature(der: der.span) else { throw .signingFailed }
    return String(
      decoding: input + dot + Base64URL.encode(signature.raw.span), as: UTF8.self)
  }
}
