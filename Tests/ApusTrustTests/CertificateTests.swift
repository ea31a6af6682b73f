import ApusModel
import Testing

@testable import ApusTrust

@Suite("Certificates issued by another program")
struct CertificateReadingTests {
  @Test("Subject, serial, validity, key and fingerprint are read")
  func fields() throws {
    let certificate = try Certificate(pem: Fixtures.providerPEM)
    #expect(certificate.subject.userID == "com.eatthepath.pushy")
    #expect(certificate.subject.commonName == "Apple Push Services: com.eatthepath.pushy")
    #expect(certificate.subject.organizationalUnit == "DEF123GHIJ")
    #expect(certificate.subject.organization == nil)
    #expect(certificate.subject.country == "US")
    #expect(certificate.serial == "0102030405060708090a0b0c0d0e0f10")
    #expect(certificate.notBefore == 1_795_255_895)
    #expect(certificate.notAfter == 1_826_791_895)
    #expect(certificate.keyKind == .p256)
    #expect(certificate.spkiSHA256.hex == Fixtures.spkiSHA256)
    #expect(!certificate.isAuthority)
    #expect(certificate.namesClientAuth)
    #expect(
      certificate.fingerprint.bytes
        == Fixtures.hex("b9d5639130c6d4994a2a02d80b41b05ed7814e62f0fa3b5e69a23053dc9213b7"))
    #expect(certificate.pem == Fixtures.providerPEM + "\n")
  }

  @Test("A certificate is valid from its first to its last second")
  func validity() throws {
    let certificate = try Certificate(pem: Fixtures.providerPEM)
    #expect(!certificate.isValid(now: 1_795_255_894))
    #expect(certificate.isValid(now: 1_795_255_895))
    #expect(certificate.isValid(now: 1_826_791_895))
    #expect(!certificate.isValid(now: 1_826_791_896))
  }

  @Test("No prefix of a certificate is valid, and nothing may follow it")
  func damage() throws {
    let der = try Certificate(pem: Fixtures.providerPEM).der
    for count in 0..<der.count {
      let cut = Array(der[..<count])
      #expect(throws: TrustFault.malformedCertificate) { try Certificate(der: cut.span) }
    }
    let longer = der + [0]
    #expect(throws: TrustFault.malformedCertificate) { try Certificate(der: longer.span) }
    #expect(throws: TrustFault.noPEM("CERTIFICATE")) { try Certificate(pem: Fixtures.p8) }
  }

  @Test("A provider's certificate has its topics, environments and team")
  func provider() throws {
    let provider = try ProviderCertificate(Certificate(pem: Fixtures.providerPEM))
    #expect(
      provider.topics == [
        "com.eatthepath.pushy", "com.eatthepath.pushy.voip", "com.eatthepath.pushy.complication",
      ])
    #expect(provider.defaultTopic == "com.eatthepath.pushy")
    #expect(provider.listsSeveralTopics)
    #expect(provider.environments == .both)
    #expect(provider.teamID == "DEF123GHIJ")
    #expect(provider.covers("com.eatthepath.pushy.voip"))
    #expect(!provider.covers("com.eatthepath.pushy.voi"))
  }

  @Test("A certificate without an environment is not for push")
  func notForPush() throws {
    let certificate = try Certificate(pem: Fixtures.rsaCertificatePEM)
    #expect(throws: ProviderCertificateFault.notForPush) { try ProviderCertificate(certificate) }
    #expect(throws: DeviceCertificateFault.notADevice) { try DeviceCertificate(certificate) }
  }
}
