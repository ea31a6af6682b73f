import ApusModel
import ApusWire

/// Why a provider token is invalid. Each fault is answered 403 `InvalidProviderToken`; the fault itself is only
/// logged.
package enum ProviderTokenFault: Error, Sendable, Hashable {
  package enum Segment: Sendable, Hashable { case header, claims, signature }

  /// Longer than `Limits.providerTokenBytes`.
  case tooLong
  /// Not three segments separated by full stops.
  case segments
  case base64(Segment)
  case json(Segment, FlatObjectFault)
  /// A relevant member occurs twice.
  case duplicate(String)
  /// `alg` is missing or not `ES256`.
  case algorithm
  /// The header requires an extension. RFC 7515, section 4.1.11.
  case critical
  /// `kid` is missing or not 10 letters and digits.
  case keyID
  /// `iss` is missing, or not 1 to 64 letters and digits.
  case teamID
  /// `iat` is missing or not a time.
  case issuedAt
}

/// A provider's authentication token: a JWT signed with ES256.
///
/// Source: "Establishing a token-based connection to APNs". More lenient than that page where providers in use need
/// it: padding in the base64url text, and `iat` as a fraction or as a string of digits.
package struct ProviderToken: Sendable, Hashable {
  package enum Algorithm: Sendable, Hashable {
    case es256
    /// SHA-512 over a P-256 key, as one library signs: not an algorithm of RFC 7518. Only for a lenient verifier.
    case es512
  }

  package static let keyIDBytes = 10
  /// Apple's team ids have 10 characters. A longer one is well-formed, but no key belongs to it.
  package static let teamIDBytes = 64

  /// `kid`.
  package let keyID: String
  /// `iss`.
  package let teamID: String
  /// `iat` in Unix seconds, a fraction rounded down.
  package let issuedAt: Int64
  package let algorithm: Algorithm
  /// The range of the signed bytes in the text.
  package let signingInput: Range<Int>
  /// As sent: r followed by s, or DER.
  package let signature: [UInt8]

  /// Parses the text after `bearer `. Checks neither the signature nor the time.
  package static func parse(_ text: Span<UInt8>) throws(ProviderTokenFault) -> ProviderToken {
    guard text.count <= Limits.providerTokenBytes else { throw .tooLong }
    var dots: [Int] = []
    for index in text.indices where text[index] == UInt8(ascii: ".") {
      guard dots.count < 2 else { throw .segments }
      dots.append(index)
    }
    guard dots.count == 2 else { throw .segments }
    let header = try object(text.extracting(0..<dots[0]), .header)
    let claims = try object(text.extracting(dots[0] + 1..<dots[1]), .claims)
    guard let signature = Base64URL.decode(text.extracting(dots[1] + 1..<text.count)),
      !signature.isEmpty
    else { throw .base64(.signature) }
    let algorithm = try algorithm(header)
    guard header.values(of: "crit").isEmpty else { throw .critical }
    guard case .string(let keyID)? = try single("kid", in: header),
      isIdentifier(keyID, lengths: keyIDBytes...keyIDBytes)
    else { throw .keyID }
    guard case .string(let teamID)? = try single("iss", in: claims),
      isIdentifier(teamID, lengths: 1...teamIDBytes)
    else { throw .teamID }
    return ProviderToken(
      keyID: keyID, teamID: teamID, issuedAt: try issuedAt(claims), algorithm: algorithm,
      signingInput: 0..<dots[1], signature: signature)
  }

  /// Whether `text` can be a key id or a team id: ASCII letters and digits.
  static func isIdentifier(_ text: String, lengths: ClosedRange<Int>) -> Bool {
    lengths.contains(text.utf8.count)
      && text.utf8.allSatisfy { $0 &- 0x30 < 10 || ($0 | 0x20) &- 0x61 < 26 }
  }

  private static func object(
    _ text: Span<UInt8>, _ segment: ProviderTokenFault.Segment
  ) throws(ProviderTokenFault) -> FlatObject {
    guard let bytes = Base64URL.decode(text) else { throw .base64(segment) }
    do {
      return try FlatObject.parse(bytes.span)
    } catch {
      throw .json(segment, error)
    }
  }

  private static func single(
    _ name: String, in object: FlatObject
  ) throws(ProviderTokenFault) -> FlatObject.Value? {
    let values = object.values(of: name)
    guard values.count <= 1 else { throw .duplicate(name) }
    return values.first
  }

  private static func algorithm(
    _ header: FlatObject
  ) throws(ProviderTokenFault) -> Algorithm {
    switch try single("alg", in: header) {
    case .string("ES256"): .es256
    case .string("ES512"): .es512
    default: throw .algorithm
    }
  }

  private static func issuedAt(_ claims: FlatObject) throws(ProviderTokenFault) -> Int64 {
    let seconds: Int64? =
      switch try single("iat", in: claims) {
      case .number(let text), .string(let text): NumericDate.seconds(text)
      default: nil
      }
    guard let seconds else { throw .issuedAt }
    return seconds
  }
}
