import ApusModel
import ApusTrust

/// Makes the provider token that a client's requests carry, and the next one in time.
///
/// "Establishing a token-based connection to APNs": a token lives one hour and may be replaced every 20 minutes at
/// most. One is used for 50 minutes after its `iat`, so that two follow each other at more than the smallest distance
/// and ten minutes are left for clocks that differ. `iat` is rounded down to whole 10 minutes: programs of one
/// provider that start at about the same time show the service the same token, and one that restarts does not bring a
/// new one each time.
struct ProviderTokenSource: Sendable {
  static let bucketSeconds: Int64 = 600
  static let useSeconds: Int64 = Limits.providerTokenSeconds - bucketSeconds

  private let key: PrivateKey
  private let keyID: String
  private let teamID: String
  private var issuedAt: Int64?
  /// The value of the header field.
  private var field: [UInt8] = []

  init(key: PrivateKey, keyID: String, teamID: String) {
    self.key = key
    self.keyID = keyID
    self.teamID = teamID
  }

  /// The value of `authorization` at this time: a scheme and the token.
  mutating func authorization(nowSeconds: Int64) throws(TrustFault) -> [UInt8] {
    // A clock that was set back must not leave a token in use that is not valid yet.
    if let issuedAt, issuedAt <= nowSeconds, nowSeconds - issuedAt < Self.useSeconds {
      return field
    }
    let issuedAt = Self.bucket(nowSeconds)
    let token = try ProviderToken.sign(
      teamID: teamID, keyID: keyID, issuedAt: issuedAt, key: key)
    self.issuedAt = issuedAt
    field = Array("bearer ".utf8) + Array(token.utf8)
    return field
  }

  /// Forgets the token, so that the next one is of this time. False: it is already.
  mutating func renew(nowSeconds: Int64) -> Bool {
    guard issuedAt != Self.bucket(nowSeconds) else { return false }
    issuedAt = nil
    return true
  }

  /// The `iat` of a token that is made now.
  private static func bucket(_ seconds: Int64) -> Int64 { seconds / bucketSeconds * bucketSeconds }
}
