import ApusModel

/// The content of a provider token whose signature was verified.
///
/// "Establishing a token-based connection to APNs": `kid` of the header, `iss` and `iat` of the claims.
package struct VerifiedToken: Sendable, Hashable {
  package var keyID: ShortID
  package var issuer: ShortID
  /// Unix seconds.
  package var issuedAtSeconds: Int64

  package init(keyID: ShortID, issuer: ShortID, issuedAtSeconds: Int64) {
    self.keyID = keyID
    self.issuer = issuer
    self.issuedAtSeconds = issuedAtSeconds
  }

  /// Whether both have the same key and issue time: ES256 signatures are random, so processes that sign within one
  /// second send different bytes for the same token.
  func isSameIssue(as other: VerifiedToken) -> Bool {
    keyID == other.keyID && issuedAtSeconds == other.issuedAtSeconds
  }

  /// Seconds since the token was issued; negative if that is in the future.
  func ageSeconds(at nowSeconds: Int64) -> Int64 {
    saturatingDifference(nowSeconds, issuedAtSeconds)
  }

  /// Nil unless the token is too old or from the future.
  ///
  /// A token expires an hour after its own issue time: one from the future is valid as long as any other.
  @inline(__always)
  func ageExplanation(nowSeconds: Int64) -> Explanation? {
    let age = ageSeconds(at: nowSeconds)
    if age > Limits.providerTokenSeconds { return .tokenTooOld(seconds: age) }
    if age < -Limits.providerTokenAheadSeconds { return .tokenInFuture(seconds: 0 &- age) }
    return nil
  }

  /// The same for a token of which only the issue time is known.
  package static func ageExplanation(issuedAtSeconds: Int64, nowSeconds: Int64) -> Explanation? {
    let nobody = ShortID(high: 0, low: 0)
    return VerifiedToken(keyID: nobody, issuer: nobody, issuedAtSeconds: issuedAtSeconds)
      .ageExplanation(nowSeconds: nowSeconds)
  }
}

/// `left - right`, saturated to Int64.
func saturatingDifference(_ left: Int64, _ right: Int64) -> Int64 {
  let (difference, overflow) = left.subtractingReportingOverflow(right)
  guard overflow else { return difference }
  return left < 0 ? -.max : .max
}

/// A token whose signature was verified on this connection, with the field that contained it.
///
/// An identical field needs one comparison instead of a signature check.
struct CheckedToken: Sendable {
  /// The whole authorization field; empty if there is no token yet.
  var field = ByteStore(capacity: 0)
  var token = VerifiedToken(
    keyID: ShortID(high: 0, low: 0), issuer: ShortID(high: 0, low: 0), issuedAtSeconds: 0)
  /// `ProviderKey.publicKey` of the key that verified it.
  var publicKey: UInt64 = 0

  @inline(__always)
  func came(as value: Span<UInt8>) -> Bool {
    !field.isEmpty && sameBytes(field.span, value)
  }
}

/// Whether two spans have the same bytes, comparing all of them: without an early exit the loop is vectorised, and
/// successive tokens differ only near the end.
@inline(__always)
func sameBytes(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
  let count = left.count
  guard count == right.count else { return false }
  var difference: UInt8 = 0
  for index in 0..<count { difference |= left[index] ^ right[index] }
  return difference == 0
}

/// The content of an authorization field.
package enum BearerField {
  /// No field, or an empty one.
  case missing
  /// Another scheme, or no token after the scheme.
  case notBearer
  /// The range of the token.
  case token(Range<Int>)

  /// Reads `bearer`, in either case, spaces, and the token. RFC 6750, section 2.1; RFC 9110, section 11.1.
  package init(_ value: Span<UInt8>) {
    guard !value.isEmpty else {
      self = .missing
      return
    }
    let schemeLength = 6
    guard value.count > schemeLength, value[schemeLength] == 0x20,
      value.extracting(0..<schemeLength).equalsIgnoringCase("bearer")
    else {
      self = .notBearer
      return
    }
    var start = schemeLength
    while start < value.count && value[start] == 0x20 { start += 1 }
    var end = value.count
    while end > start && value[end - 1] == 0x20 { end -= 1 }
    self = start == end ? .notBearer : .token(start..<end)
  }
}
