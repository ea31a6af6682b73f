import ApusModel
import ApusWire
import Testing

@testable import ApusTrust

/// A token with this header and these claims, and an invalid signature of 64 bytes.
private func unsigned(
  _ claims: String, header: String = #"{"alg":"ES256","kid":"ABC123DEFG"}"#
) -> String {
  let parts = [Array(header.utf8), Array(claims.utf8), [UInt8](repeating: 1, count: 64)]
  return parts.map(Base64URL.encode).joined(separator: ".")
}

private func fault(_ text: String) -> ProviderTokenFault? {
  do {
    _ = try ProviderToken.parse(text)
    return nil
  } catch {
    return error
  }
}

@Suite("Reading provider tokens")
struct ProviderTokenParsingTests {
  @Test("A token has key id, team, time, the signed range and the signature")
  func fields() throws {
    let token = try ProviderToken.parse(Fixtures.rawToken)
    #expect(token.keyID == "ABC123DEFG")
    #expect(token.teamID == "DEF123GHIJ")
    #expect(token.issuedAt == 1_437_179_036)
    #expect(token.algorithm == .es256)
    #expect(token.signature.count == 64)
    #expect(token.signingInput == 0..<97)
  }

  @Test(
    "The time is a number, a fraction, with an exponent, or any of these as a string",
    arguments: [
      ("1437179036", 1_437_179_036), ("1437179036.99", 1_437_179_036),
      ("\"1437179036\"", 1_437_179_036), ("\"1437179036.5\"", 1_437_179_036),
      ("1.437179036E9", 1_437_179_036), ("1.4371790365e+9", 1_437_179_036),
      ("14371790365e-1", 1_437_179_036), ("0", 0), ("0.5", 0), ("5e-3", 0), ("12e2", 1200),
    ] as [(String, Int64)])
  func issuedAt(text: String, seconds: Int64) throws {
    let token = try ProviderToken.parse(unsigned(#"{"iss":"DEF123GHIJ","iat":\#(text)}"#))
    #expect(token.issuedAt == seconds)
  }

  @Test("A time in milliseconds is read as a time far in the future")
  func milliseconds() throws {
    let token = try ProviderToken.parse(unsigned(#"{"iss":"DEF123GHIJ","iat":"1437179036000"}"#))
    #expect(token.issuedAt == 1_437_179_036_000)
  }

  @Test(
    "A value that is not a time is rejected",
    arguments: [
      "-1", "null", "true", "\"\"", "\"now\"", "\" 1\"", "\"1.\"", "\".5\"", "\"1e\"", "\"0x10\"",
      "\"1.2.3\"", "[1]", "1e99", "1e-99", "1e-9223372036854775808",
      "1e-9223372036854775809", "9999999999999999", "99999999999999999999999999",
    ])
  func noTime(text: String) {
    #expect(fault(unsigned(#"{"iss":"DEF123GHIJ","iat":\#(text)}"#)) == .issuedAt)
  }

  @Test("Spaces, escapes, nested values and other claims are accepted")
  func tolerated() throws {
    let token = try ProviderToken.parse(
      unsigned(
        " {\r\n\t\"x\" : [1, {\"iss\":[]}, \"\\u00e4\\ud83d\\ude00\"], \"i\\u0073s\" : "
          + "\"DEF123GHIJ\" , \"kid\":\"ABC123DEFG\",\"iat\": 5 } ",
        header: #"{ "kid" : "ABC123DEFG" , "typ" : "JWT", "alg" : "ES256" }"#))
    #expect(token.teamID == "DEF123GHIJ")
    #expect(token.issuedAt == 5)
  }

  @Test("Base64url text may be padded")
  func padding() throws {
    let padded = Fixtures.rawToken.split(separator: ".").map { segment in
      String(segment) + String(repeating: "=", count: (4 - segment.count % 4) % 4)
    }
    #expect(padded.contains { $0.hasSuffix("=") })
    let token = try ProviderToken.parse(padded.joined(separator: "."))
    #expect(token.keyID == "ABC123DEFG")
    #expect(token.signature == (try ProviderToken.parse(Fixtures.rawToken)).signature)
  }

  @Test(
    "Only ES256 is accepted, and ES512 as a separate algorithm",
    arguments: [
      #"{"alg":"none","kid":"ABC123DEFG"}"#, #"{"alg":"ES384","kid":"ABC123DEFG"}"#,
      #"{"alg":"HS256","kid":"ABC123DEFG"}"#, #"{"alg":"RS256","kid":"ABC123DEFG"}"#,
      #"{"alg":"es256","kid":"ABC123DEFG"}"#, #"{"alg":["ES256"],"kid":"ABC123DEFG"}"#,
      #"{"kid":"ABC123DEFG"}"#, #"{"alg":256,"kid":"ABC123DEFG"}"#,
    ])
  func algorithm(header: String) {
    #expect(fault(unsigned(#"{"iss":"DEF123GHIJ","iat":1}"#, header: header)) == .algorithm)
  }

  @Test(
    "A missing or invalid member is named in the fault",
    arguments: [
      (#"{"alg":"ES256"}"#, #"{"iss":"DEF123GHIJ","iat":1}"#, .keyID),
      (#"{"alg":"ES256","kid":"ABC"}"#, #"{"iss":"DEF123GHIJ","iat":1}"#, .keyID),
      (#"{"alg":"ES256","kid":"ABC123DEF\n"}"#, #"{"iss":"DEF123GHIJ","iat":1}"#, .keyID),
      (#"{"alg":"ES256","kid":1234567890}"#, #"{"iss":"DEF123GHIJ","iat":1}"#, .keyID),
      (#"{"alg":"ES256","kid":"ABC123DEFG"}"#, #"{"iat":1}"#, .teamID),
      (#"{"alg":"ES256","kid":"ABC123DEFG"}"#, #"{"iss":"","iat":1}"#, .teamID),
      (#"{"alg":"ES256","kid":"ABC123DEFG"}"#, #"{"iss":"DEF123GHIJ"}"#, .issuedAt),
      (
        #"{"alg":"ES256","kid":"ABC123DEFG","crit":["exp"]}"#, #"{"iss":"DEF123GHIJ","iat":1}"#,
        .critical
      ),
      (
        #"{"alg":"ES256","alg":"none","kid":"ABC123DEFG"}"#, #"{"iss":"DEF123GHIJ","iat":1}"#,
        .duplicate("alg")
      ),
      (
        #"{"alg":"ES256","kid":"ABC123DEFG","kid":"ABC123DEFG"}"#,
        #"{"iss":"DEF123GHIJ","iat":1}"#, .duplicate("kid")
      ),
      (
        #"{"alg":"ES256","kid":"ABC123DEFG"}"#, #"{"iss":"DEF123GHIJ","iat":1,"i\u0061t":2}"#,
        .duplicate("iat")
      ),
      (
        #"{"alg":"ES256","kid":"ABC123DEFG"}"#,
        #"{"iss":"DEF123GHIJ","iss":"ABC123DEFG","iat":1}"#, .duplicate("iss")
      ),
    ] as [(String, String, ProviderTokenFault)])
  func members(header: String, claims: String, expected: ProviderTokenFault) {
    #expect(fault(unsigned(claims, header: header)) == expected)
  }

  @Test(
    "A text that does not have three segments is rejected",
    arguments: ["", ".", "a", "a.b", Fixtures.rawToken + ".", Fixtures.rawToken + ".AAAA"])
  func segments(text: String) {
    #expect(fault(text) == .segments)
  }

  @Test("A segment that is not base64url is named in the fault")
  func base64() {
    let parts = Fixtures.rawToken.split(separator: ".").map(String.init)
    #expect(fault("e+J." + parts[1] + "." + parts[2]) == .base64(.header))
    #expect(fault(parts[0] + ".ey JA." + parts[2]) == .base64(.claims))
    #expect(fault(parts[0] + "." + parts[1] + ".") == .base64(.signature))
    #expect(fault(parts[0] + "." + parts[1] + "." + parts[2] + "=") == .base64(.signature))
    #expect(fault(parts[0] + "." + parts[1] + "." + parts[2] + "AAA") == .base64(.signature))
  }

  @Test("Text that is not UTF-8 is rejected")
  func notUTF8() {
    let claims = Array(#"{"iss":"DEF123GHIJ","iat":1,"x":""#.utf8) + [0xff] + Array("\"}".utf8)
    let parts = Fixtures.rawToken.split(separator: ".").map(String.init)
    let text = parts[0] + "." + Base64URL.encode(claims) + "." + parts[2]
    #expect(fault(text) == .json(.claims, .notUTF8))
    #expect(fault(String(repeating: "é", count: 10) + ".e30.AA") == .base64(.header))
  }

  @Test("A token longer than the limit is rejected unread")
  func length() {
    let limit = Limits.providerTokenBytes
    #expect(fault(String(repeating: "A", count: limit + 1)) == .tooLong)
    #expect(fault(String(repeating: "A", count: limit)) == .segments)
  }

  @Test("No prefix and no single changed byte of a token makes the reader trap")
  func damage() {
    let bytes = Array(Fixtures.derToken.utf8)
    for count in bytes.indices {
      let cut = Array(bytes[..<count])
      let token = try? ProviderToken.parse(cut.span)
      // Cut inside the signature, the text is still a token, whose signature is invalid.
      #expect(token == nil || count > 110)
    }
    for index in bytes.indices {
      for value in [0, 0x22, 0x2e, 0x3d, 0x41, 0x7b, 0xff] as [UInt8] {
        var changed = bytes
        changed[index] = value
        _ = try? ProviderToken.parse(changed.span)
      }
    }
  }
}

@Suite("Verifying provider tokens")
struct ProviderKeyVerifierTests {
  private func verifies(_ text: String, lenient: Bool = false) throws -> Bool {
    let key = try PublicKey(spkiPEM: Fixtures.spkiPEM)
    let verifier = try ProviderKeyVerifier(publicKey: key, lenient: lenient)
    return try verifier.verifies(text)
  }

  @Test("A signature is valid as r and s, and as DER")
  func forms() throws {
    #expect(try verifies(Fixtures.rawToken))
    #expect(try verifies(Fixtures.derToken))
  }

  @Test("A token with ES512 is valid only for a lenient verifier")
  func es512() throws {
    #expect(try ProviderToken.parse(Fixtures.es512Token).algorithm == .es512)
    #expect(try !verifies(Fixtures.es512Token))
    #expect(try verifies(Fixtures.es512Token, lenient: true))
    #expect(try verifies(Fixtures.rawToken, lenient: true))
  }

  @Test("A signature does not verify other claims, nor another signature these claims")
  func forged() throws {
    for text in [Fixtures.rawToken, Fixtures.derToken] {
      let parts = text.split(separator: ".").map(String.init)
      let claims = Base64URL.encode(Array(#"{"iss":"DEF123GHIJ","iat":1437179037}"#.utf8))
      #expect(try !verifies(parts[0] + "." + claims + "." + parts[2]))
      let signature = try #require(Base64URL.decode(parts[2]))
      for index in signature.indices {
        var changed = signature
        changed[index] ^= 0x10
        let forged = parts[0] + "." + parts[1] + "." + Base64URL.encode(changed)
        #expect(try !verifies(forged), "byte \(index)")
      }
    }
  }

  @Test("A signature of another length, or of zeros, is rejected")
  func shapes() throws {
    let parts = Fixtures.rawToken.split(separator: ".").map(String.init)
    for count in [1, 32, 63, 64, 65, 72, 128, 132] {
      let zeros = Base64URL.encode([UInt8](repeating: 0, count: count))
      #expect(try !verifies(parts[0] + "." + parts[1] + "." + zeros))
    }
  }

  @Test("Another key does not verify, and one that is not P-256 is not a provider key")
  func keys() throws {
    let other = try PrivateKey.generateP256().publicKey
    #expect(try !ProviderKeyVerifier(publicKey: other).verifies(Fixtures.rawToken))
    let p384 = try PrivateKey(pem: Fixtures.p384).publicKey
    #expect(throws: TrustFault.unsupportedKey) { try ProviderKeyVerifier(publicKey: p384) }
  }

  @Test("A token signed by a client is read by a service")
  func signs() throws {
    let key = try PrivateKey(pem: Fixtures.p8)
    let text = try ProviderToken.sign(
      teamID: "DEF123GHIJ", keyID: "ABC123DEFG", issuedAt: 1_437_179_036, key: key)
    // ES256 is randomised: everything except the signature equals the command line's text.
    let cut = try #require(text.lastIndex(of: "."))
    #expect(Fixtures.rawToken.hasPrefix(text[...cut]))
    #expect(try ProviderToken.parse(text).signature.count == 64)
    #expect(try verifies(text))
  }

  @Test(
    "No token is signed for an id that could break out of the JSON, nor with another type of key")
  func signingFaults() throws {
    let key = try PrivateKey(pem: Fixtures.p8)
    for id in ["", "ABC", "ABC123DEF\"", "ABC123DEFGH", "ABC123DÉF"] {
      #expect(throws: TrustFault.badSubject(id)) {
        try ProviderToken.sign(teamID: "DEF123GHIJ", keyID: id, issuedAt: 1, key: key)
      }
    }
    let p384 = try PrivateKey(pem: Fixtures.p384)
    #expect(throws: TrustFault.unsupportedKey) {
      try ProviderToken.sign(teamID: "DEF123GHIJ", keyID: "ABC123DEFG", issuedAt: 1, key: p384)
    }
  }
}
