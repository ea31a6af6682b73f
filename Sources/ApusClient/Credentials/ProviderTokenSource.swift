import ApusModel
import ApusTrust

/// Creates the provider token that a client's requests carry, and replaces it in time.
///
/// A token is valid for one hour and may be replaced at most every 20 minutes (Establishing a token-based connection to
/// APNs). This type replaces it every 40 minutes by the clock, not by the start of the program: `iat` is rounded down
/// to whole 40 minutes. All programs of one provider therefore use tokens of the same time, and a restart does not
/// cause a new one. Two successive tokens are more than 20 minutes apart, and 20 minutes of validity remain for clocks
/// that differ. With OpenSSL 3.2 and later the tokens are identical, because signatures are deterministic (RFC 6979);
/// with older versions only a token file makes them identical.
struct ProviderTokenSource: Sendable {
  static let bucketSeconds: Int64 = 2400
  static let useSeconds: Int64 = bucketSeconds

  private let key: PrivateKey
  private let keyID: String
  private let teamID: String
  private let file: TokenFile?
  private(set) var issuedAt: Int64?
  /// The service considered tokens of this time or earlier expired.
  private var expiredAt: Int64 = -1
  /// The value of the header field.
  private var field: [UInt8] = []

  init(key: PrivateKey, keyID: String, teamID: String, file: TokenFile? = nil) {
    self.key = key
    self.keyID = keyID
    self.teamID = teamID
    self.file = file
  }

  /// The value of `authorization` at this time: the scheme and the token.
  mutating func authorization(nowSeconds: Int64) throws(TrustFault) -> [UInt8] {
    // After a clock was set back, the current token may not be valid yet.
    if let issuedAt, isInUse(issuedAt, nowSeconds) { return field }
    let token: String
    if let file {
      token = try file.token { text in
        accepts(text, nowSeconds)
      } make: { () throws(TrustFault) in
        try sign(nowSeconds)
      }
    } else {
      token = try sign(nowSeconds)
    }
    let bytes = Array(token.utf8)
    issuedAt = (try? ProviderToken.parse(bytes.span))?.issuedAt
    field = Array("bearer ".utf8) + bytes
    return field
  }

  private func isInUse(_ issuedAt: Int64, _ nowSeconds: Int64) -> Bool {
    issuedAt > expiredAt && issuedAt <= nowSeconds && nowSeconds - issuedAt < Self.useSeconds
  }

  private func sign(_ nowSeconds: Int64) throws(TrustFault) -> String {
    try ProviderToken.sign(
      teamID: teamID, keyID: keyID, issuedAt: Self.bucket(nowSeconds), key: key)
  }

  /// Whether a token from a file could come from this source and is still in use.
  private func accepts(_ text: String, _ nowSeconds: Int64) -> Bool {
    let bytes = Array(text.utf8)
    guard let token = try? ProviderToken.parse(bytes.span), token.keyID == keyID,
      token.teamID == teamID, isInUse(token.issuedAt, nowSeconds),
      let verifier = try? ProviderKeyVerifier(publicKey: key.publicKey)
    else { return false }
    return verifier.verifies(token, in: bytes.span)
  }

  /// Discards an expired token, so that the next one has the current time. False if it already has.
  mutating func renew(nowSeconds: Int64) -> Bool {
    guard let issuedAt, issuedAt != Self.bucket(nowSeconds) else { return false }
    expiredAt = issuedAt
    return true
  }

  /// The `iat` of a token created now.
  private static func bucket(_ seconds: Int64) -> Int64 { seconds / bucketSeconds * bucketSeconds }
}
