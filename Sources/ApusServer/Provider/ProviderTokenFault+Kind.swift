import ApusCore
import ApusTrust

extension ProviderTokenFault {
  /// The same as far as the operator can do something about it.
  var kind: TokenFault {
    switch self {
    case .tooLong: .tooLong
    case .algorithm: .wrongAlgorithm
    case .keyID, .teamID, .issuedAt, .duplicate: .missingClaims
    case .segments, .base64, .json, .critical: .malformed
    }
  }
}
