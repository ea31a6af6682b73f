import Testing

@testable import ApusTrust

@Suite("Keys")
struct KeyTests {
  @Test("A key is the same from PKCS#8 and from the older form, and is written as PKCS#8")
  func privateForms() throws {
    let key = try PrivateKey(pem: Fixtures.p8)
    #expect(key.publicKey.kind == .p256)
    #expect(key.pkcs8PEM == Fixtures.p8 + "\n")
    #expect(try PrivateKey(pem: Fixtures.ecPEM).pkcs8PEM == Fixtures.p8 + "\n")
    #expect(key.publicKey.spkiPEM == Fixtures.spkiPEM + "\n")
  }

  @Test("A public key reads from its PEM and has a known fingerprint")
  func publicForms() throws {
    let key = try PublicKey(spkiPEM: "with words before it\n" + Fixtures.spkiPEM)
    #expect(key.spkiSHA256.hex == Fixtures.spkiSHA256)
    let der = key.spkiDER
    let again = try PublicKey(spkiDER: der.span)
    #expect(again.spkiDER == der)
    #expect(try PrivateKey(pem: Fixtures.rsaPEM).publicKey.kind == .rsa(bits: 2048))
    #expect(try PrivateKey(pem: Fixtures.p384).publicKey.kind == .other)
  }

  @Test("Text without an unencrypted key is rejected with a fitting reason")
  func refused() {
    #expect(throws: TrustFault.encryptedKey) { try PrivateKey(pem: Fixtures.encryptedPEM) }
    #expect(throws: TrustFault.noPEM("PRIVATE KEY")) { try PrivateKey(pem: Fixtures.spkiPEM) }
    #expect(throws: TrustFault.noPEM("PRIVATE KEY")) { try PrivateKey(pem: "") }
    #expect(throws: TrustFault.noPEM("PUBLIC KEY")) { try PublicKey(spkiPEM: Fixtures.p8) }
    #expect(throws: TrustFault.malformedKey) {
      try PrivateKey(pem: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    }
    #expect(throws: TrustFault.malformedKey) {
      let nothing: [UInt8] = []
      return try PublicKey(spkiDER: nothing.span)
    }
  }

  @Test("Bytes after a key are rejected")
  func trailing() throws {
    let der = try PublicKey(spkiPEM: Fixtures.spkiPEM).spkiDER
    for count in 0..<der.count {
      let cut = Array(der[..<count])
      #expect(throws: TrustFault.malformedKey) { try PublicKey(spkiDER: cut.span) }
    }
    let longer = der + [0]
    #expect(throws: TrustFault.malformedKey) { try PublicKey(spkiDER: longer.span) }
  }

  @Test("A point that is not on the curve is not a key")
  func offCurve() throws {
    var der = try PublicKey(spkiPEM: Fixtures.spkiPEM).spkiDER
    der[der.count - 1] ^= 1
    #expect(throws: TrustFault.malformedKey) { try PublicKey(spkiDER: der.span) }
  }

  @Test("A new key is P-256, or RSA with the requested bits")
  func generated() throws {
    let key = try PrivateKey.generateP256()
    #expect(key.publicKey.kind == .p256)
    #expect(try PrivateKey(pem: key.pkcs8PEM).publicKey.spkiDER == key.publicKey.spkiDER)
    #expect(try PrivateKey.generateRSA(bits: 2048).publicKey.kind == .rsa(bits: 2048))
    #expect(throws: TrustFault.unsupportedKey) { try PrivateKey.generateRSA(bits: 1024) }
  }

  @Test("The signature of RFC 6979, appendix A.2.5, over \"sample\" with SHA-256 verifies")
  func rfc6979() throws {
    let spki =
      Fixtures.hex("3059301306072a8648ce3d020106082a8648ce3d030107034200 04")
      + Fixtures.hex("60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6")
      + Fixtures.hex("7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299")
    let raw =
      Fixtures.hex("EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716")
      + Fixtures.hex("F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8")
    let key = try PublicKey(spkiDER: spki.span)
    let signature = try #require(ECDSASignature(raw: raw)).der
    let good = key.verifies(signature.span, over: Array("sample".utf8).span, digest: .sha256)
    let other = key.verifies(signature.span, over: Array("simple".utf8).span, digest: .sha256)
    #expect(good)
    #expect(!other)
  }
}
