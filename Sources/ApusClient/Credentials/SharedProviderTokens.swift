import ApusTrust
import Synchronization

/// The provider token of one key, shared by all clients of the process.
///
/// A token may be used on any number of connections, and more than one in 20 minutes for the same key is an error: 429
/// TooManyProviderTokenUpdates (Establishing a token-based connection to APNs).
final class SharedProviderTokens: Sendable {
  private let source: Mutex<ProviderTokenSource>

  private struct Weak: Sendable { weak var tokens: SharedProviderTokens? }

  /// By key id, team, key and file.
  private static let all = Mutex<[String: Weak]>([:])

  private init(_ source: ProviderTokenSource) { self.source = Mutex(source) }

  /// The instance for this key.
  static func shared(
    keyPEM: [UInt8], keyID: String, teamID: String, file: String?
  ) throws(TrustFault) -> SharedProviderTokens {
    let key = try PrivateKey(pem: String(decoding: keyPEM, as: UTF8.self))
    // Detects a key that cannot sign here, not at the first push.
    _ = try ProviderToken.sign(teamID: teamID, keyID: keyID, issuedAt: 0, key: key)
    let fresh = SharedProviderTokens(
      ProviderTokenSource(
        key: key, keyID: keyID, teamID: teamID, file: file.map(TokenFile.init)))
    let digest = SHA256Digest(of: keyPEM.span).bytes
    let name = "\(keyID) \(teamID) \(digest) \(file ?? "")"
    return all.withLock { all in
      if let known = all[name]?.tokens { return known }
      all = all.filter { $0.value.tokens != nil }
      all[name] = Weak(tokens: fresh)
      return fresh
    }
  }

  /// The field's value at this time; nil if the token cannot be signed.
  func authorization(nowSeconds: Int64) -> [UInt8]? {
    source.withLock { try? $0.authorization(nowSeconds: nowSeconds) }
  }

  /// Replaces an expired token by one of this time. False if it already has this time.
  func renew(nowSeconds: Int64) -> Bool {
    source.withLock { $0.renew(nowSeconds: nowSeconds) }
  }

  /// Seconds since 1970; nil before the first request.
  var issuedAt: Int64? { source.withLock { $0.issuedAt } }
}
