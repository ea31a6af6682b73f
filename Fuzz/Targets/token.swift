import ApusModel
import ApusTrust
import ApusWire

// Provider tokens: an accepted token has the same meaning for a reader that shares no code.
//
// The first byte selects the form: an odd byte is followed by the text of a token, an even byte by header, claims and
// signature separated by line feeds, which are encoded as base64url here, so that mutations apply to JSON.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  guard let first = bytes.first else { return 0 }
  let rest = Array(bytes[1...])
  check(first & 1 == 1 ? rest : assembled(rest))
  return 0
}

func assembled(_ parts: [UInt8]) -> [UInt8] {
  let segments = parts.split(separator: 0x0a, maxSplits: 2, omittingEmptySubsequences: false)
  let encoded = segments.map { part in
    let bytes = Array(part)
    return Base64URL.encode(bytes.span)
  }
  return Array(encoded.joined(separator: [0x2e]))
}

func check(_ text: [UInt8]) {
  guard let token = try? ProviderToken.parse(text.span) else { return }
  let segments = text.split(separator: 0x2e, omittingEmptySubsequences: false).map { Array($0) }
  precondition(segments.count == 3, "a token without three segments")
  precondition(text.count <= Limits.providerTokenBytes, "a token above the limit")
  precondition(token.signingInput == 0..<text.count - segments[2].count - 1, "signed bytes")
  let last = segments[2]
  let signature = Base64URL.decode(last.span)
  precondition(signature == token.signature, "the signature")

  let header = object(segments[0])
  let claims = object(segments[1])
  switch token.algorithm {
  case .es256: precondition(header["alg"]?.string == "ES256", "alg")
  case .es512: precondition(header["alg"]?.string == "ES512", "alg")
  }
  precondition(header["crit"] == nil, "an unknown extension")
  precondition(header["kid"]?.string == token.keyID && token.keyID.utf8.count == 10, "kid")
  precondition(claims["iss"]?.string == token.teamID, "iss")
  precondition((1...ProviderToken.teamIDBytes).contains(token.teamID.utf8.count), "iss")
  for (object, name) in [(header, "alg"), (header, "kid"), (claims, "iss"), (claims, "iat")] {
    precondition(object.members.count { $0.key == name } == 1, "a repeated member")
  }
  precondition(token.issuedAt >= 0, "a time before 1970")
  // Only numbers without fraction and exponent are equal for both readers; one of them rounds all others.
  if case .integer(let seconds)? = claims["iat"] {
    precondition(seconds == token.issuedAt, "iat")
  }
  checkPadding(segments, token)
}

/// Padding does not change the meaning of a token, only the signed bytes.
func checkPadding(_ segments: [[UInt8]], _ token: ProviderToken) {
  let bare = Array(
    segments.map { $0.filter { $0 != 0x3d } }.joined(separator: [0x2e] as [UInt8]))
  guard let again = try? ProviderToken.parse(bare.span) else {
    preconditionFailure("a token is rejected without its padding")
  }
  precondition(
    again.keyID == token.keyID && again.teamID == token.teamID
      && again.issuedAt == token.issuedAt && again.signature == token.signature,
    "padding changes the meaning of a token")
}

func object(_ segment: [UInt8]) -> JSONObject {
  guard let bytes = Base64URL.decode(segment.span) else {
    preconditionFailure("the readers of base64url disagree")
  }
  do {
    guard let object = try JSONValue(parsing: bytes.span).object else {
      preconditionFailure("a segment that is not an object")
    }
    return object
  } catch {
    preconditionFailure("the readers of JSON disagree: \(error)")
  }
}
