import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust

extension Trust {
  /// Reads a provider token, and verifies its signature with the key that it names.
  func verify(_ text: Span<UInt8>) throws(Refusal) -> VerifiedToken {
    let token: ProviderToken
    do { token = try ProviderToken.parse(text) } catch { throw Refusal(.token(error.kind)) }
    guard let keyID = ShortID(token.keyID), let issuer = ShortID(token.teamID) else {
      throw Refusal(.token(.malformed))
    }
    let key = try directory.verificationKey(keyID, issuer: issuer)
    guard verifiers[key.index].verifies(token, in: text) else {
      throw Refusal(.signature(key: keyID, issuer: issuer))
    }
    return VerifiedToken(keyID: keyID, issuer: issuer, issuedAtSeconds: token.issuedAt)
  }
}

extension ProviderTokenFault {
  /// The same as far as the operator can do something about it.
  fileprivate var kind: TokenFault {
    switch self {
    case .tooLong: .tooLong
    case .algorithm: .wrongAlgorithm
    case .keyID, .teamID, .issuedAt, .duplicate: .missingClaims
    case .segments, .base64, .json, .critical: .malformed
    }
  }
}
