package import ApusCore
import ApusLoop
package import ApusTrust
import ApusWire

/// A provider's key and its team, for creating valid and invalid tokens.
package struct ProviderKeyPair: Sendable {
  package enum SignatureForm: Sendable {
    /// r and s concatenated: RFC 7518, section 3.4.
    case raw
    /// The form of Java's signers and OpenSSL's command line.
    case der
  }

  package var id: ShortID
  package var team: ShortID
  package var key: PrivateKey

  package init(id: ShortID, team: ShortID, key: PrivateKey) {
    self.id = id
    self.team = team
    self.key = key
  }

  /// A token as documented for APNs.
  package func token(issuedAt: Int64 = TestDirectory.nowSeconds) throws -> String {
    try token(header: header, claims: claims(issuedAt: "\(issuedAt)"))
  }

  /// `{"alg":"ES256","kid":"…"}`
  package var header: String { "{\"alg\":\"ES256\",\"kid\":\"\(id.text)\"}" }

  /// `{"iss":"…","iat":…}` with `issuedAt` as JSON.
  package func claims(issuedAt: String) -> String {
    "{\"iss\":\"\(team.text)\",\"iat\":\(issuedAt)}"
  }

  /// Signs any `header` and `claims`.
  package func token(
    header: String, claims: String, form: SignatureForm = .raw
  ) throws -> String {
    let input = "\(Self.base64URL(Array(header.utf8))).\(Self.base64URL(Array(claims.utf8)))"
    let der = try key.signature(over: Array(input.utf8).span, digest: .sha256)
    return "\(input).\(Self.base64URL(form == .der ? der : Self.scalars(der)))"
  }

  package static func base64URL(_ bytes: [UInt8]) -> String {
    String(decoding: Base64URL.encode(bytes.span), as: UTF8.self)
  }

  /// r and s of `30 length 02 length r 02 length s`, each in 32 bytes.
  private static func scalars(_ der: [UInt8]) -> [UInt8] {
    var rest = der[2...]
    var scalars: [UInt8] = []
    for _ in 0..<2 {
      let count = Int(rest[rest.startIndex + 1])
      let value = rest.dropFirst(2).prefix(count).drop { $0 == 0 }
      scalars += [UInt8](repeating: 0, count: 32 - value.count) + value
      rest = rest.dropFirst(2 + count)
    }
    return scalars
  }
}
