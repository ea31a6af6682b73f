import ApusModel
import ApusTrust

/// Makes the provider token that a client's requests carry, and the next one in time.
///
/// "Establishing a token-based connection to APNs": a token lives one hour and may be replaced every 20 minutes at
/// most. Here it is replaced every 40 minutes, by the clock and not by when the program started: `iat` is rounded down
/// to whole 40 minutes. So all programs of one provider have tokens of one time, and one that restarts does not bring
/// a new one; two follow each other at more than the smallest distance, and 20 minutes are left for clocks that differ.
/// The tokens are the same to the last bit with OpenSSL 3.2 and later, whose signatures can repeat (RFC 6979), and with
/// a token file under any.
struct ProviderTokenSource: Sendable {
  static let bucketSeconds: Int64 = 2400
  static let useSeconds: Int64 = bucketSeconds

  private let key: PrivateKey
  private let keyID: String
  private let teamID: String
  private let file: TokenFile?
  private(set) var issuedAt: Int64?
  /// Tokens of this time or an earlier one were called expired.
  private var expiredAt: Int64 = -1
  /// The value of the header field.
  private var field: [UInt8] = []

  init(key: PrivateKey, keyID: String, teamID: String, file: TokenFile? = nil) {
    self.key = key
    self.keyID = keyID
    self.teamID = teamID
    self.file = file
  }

  /// The value of `authorization` at this time: a scheme and the token.
  mutating func authorization(nowSeconds: Int64) throws(TrustFault) -> [UInt8] {
    // A clock that was set back must not leave a token in use that is not valid yet.
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

  /// Whether the token of a file is one that this source could have made, and still in use.
  private func accepts(_ text: String, _ nowSeconds: Int64) -> Bool {
    let bytes = Array(text.utf8)
    guard let token = try? ProviderToken.parse(bytes.span), token.keyID == keyID,
      token.teamID == teamID, isInUse(token.issuedAt, nowSeconds),
      let verifier = try? ProviderKeyVerifier(publicKey: key.publicKey)
    else { return false }
    return verifier.verifies(token, in: bytes.span)
  }

  /// Forgets a token that the service calls expired, so that the next one is of this time. False: it is already.
  mutating func renew(nowSeconds: Int64) -> Bool {
    guard let issuedAt, issuedAt != Self.bucket(nowSeconds) else { return false }
    expiredAt = issuedAt
    return true
  }

  /// The `iat` of a token that is made now.
  private static func bucket(_ seconds: Int64) -> Int64 { seconds / bucketSeconds * bucketSeconds }
}
