import ApusTrust
import Synchronization

/// The provider token of one key, for all clients of the process.
///
/// "Establishing a token-based connection to APNs": a token may be used on any number of connections, and more than one
/// in 20 minutes for a key is an error (429 TooManyProviderTokenUpdates).
final class SharedProviderTokens: Sendable {
  private let source: Mutex<ProviderTokenSource>

  private struct Weak: Sendable { weak var tokens: SharedProviderTokens? }

  /// By key id, team, key and file.
  private static let all = Mutex<[String: Weak]>([:])

  private init(_ source: ProviderTokenSource) { self.source = Mutex(source) }

  /// The one for this key.
  static func shared(
    keyPEM: [UInt8], keyID: String, teamID: String, file: String?
  ) throws(TrustFault) -> SharedProviderTokens {
    let key = try PrivateKey(pem: String(decoding: keyPEM, as: UTF8.self))
    // A key that cannot sign is found out here, and not by the first push.
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

  /// The field's value at this time; nil when it cannot be signed.
  func authorization(nowSeconds: Int64) -> [UInt8]? {
    source.withLock { try? $0.authorization(nowSeconds: nowSeconds) }
  }

  /// Puts a token of this time in the place of one that the service calls expired. False: it is of this time already.
  func renew(nowSeconds: Int64) -> Bool {
    source.withLock { $0.renew(nowSeconds: nowSeconds) }
  }

  /// Seconds since 1970; nil before the first request.
  var issuedAt: Int64? { source.withLock { $0.issuedAt } }
}
