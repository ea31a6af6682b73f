import ApusModel
import Testing

@testable import ApusTrust

private let now: Int64 = 1_700_000_000
private let validity = Validity(notBefore: now - 3600, notAfter: now + 86400)

private func authority(_ name: String = "Test Authority") throws -> CertificateAuthority {
  try CertificateAuthority.create(commonName: name, validity: validity)
}

@Suite("Device certificates")
struct DeviceCertificateTests {
  private func fault(
    _ certificate: Certificate, _ authority: Certificate, now time: Int64 = now
  ) -> DeviceCertificateFault? {
    do {
      _ = try DeviceCertificate.verify(
        der: certificate.der.span, authorities: [authority], now: time)
      return nil
    } catch {
      return error
    }
  }

  @Test(
    "A certificate identifies the device, with a P-256 key and with an RSA key",
    arguments: [true, false])
  func verifies(elliptic: Bool) throws {
    let authority = try authority()
    let key = try elliptic ? PrivateKey.generateP256() : PrivateKey(pem: Fixtures.rsaPEM)
    let certificate = try authority.issueDevice(
      deviceID: DeviceID(0xab), name: "Küche 1", publicKey: key.publicKey, validity: validity)
    #expect(certificate.subject.userID == "00000000000000ab")
    #expect(certificate.subject.commonName == "Küche 1")
    let device = try DeviceCertificate.verify(
      der: certificate.der.span, authorities: [authority.certificate], now: now)
    #expect(device.deviceID == DeviceID(0xab))
    #expect(device.certificate == certificate)
  }

  @Test("A certificate is valid in its period, to the second, and only while its authority is")
  func time() throws {
    let authority = try authority()
    let period = Validity(notBefore: now, notAfter: now + 10)
    let certificate = try authority.issueDevice(
      deviceID: DeviceID(1), name: "d", publicKey: PrivateKey.generateP256().publicKey,
      validity: period)
    #expect(fault(certificate, authority.certificate, now: now - 1) == .notYetValid)
    #expect(fault(certificate, authority.certificate, now: now) == nil)
    #expect(fault(certificate, authority.certificate, now: now + 10) == nil)
    #expect(fault(certificate, authority.certificate, now: now + 11) == .expired)
    let long = try authority.issueDevice(
      deviceID: DeviceID(1), name: "d", publicKey: PrivateKey.generateP256().publicKey,
      validity: Validity(notBefore: now, notAfter: now + 1_000_000))
    #expect(fault(long, authority.certificate, now: now + 900_000) == .untrusted)
  }

  @Test("Another authority with the same name did not sign it")
  func otherAuthority() throws {
    let certificate = try authority().issueDevice(
      deviceID: DeviceID(1), name: "d", publicKey: PrivateKey.generateP256().publicKey,
      validity: validity)
    #expect(fault(certificate, try authority().certificate) == .untrusted)
  }

  @Test("The certificate of a provider, a server or an authority is not a device's")
  func otherKinds() throws {
    let authority = try authority()
    let key = try PrivateKey.generateP256().publicKey
    let provider = try authority.issueProvider(
      ProviderCertificateRequest(
        bundleID: "00000000000000ab", teamID: "T", publicKey: key, validity: validity))
    #expect(fault(provider, authority.certificate) == .notADevice)
    let server = try authority.issueServer(names: ["a.b"], publicKey: key, validity: validity)
    #expect(fault(server, authority.certificate) == .notADevice)
    #expect(fault(authority.certificate, authority.certificate) == .notADevice)
  }

  @Test("A device's subject does not compensate for purpose or signature")
  func disguised() throws {
    let authority = try authority()
    let key = try PrivateKey.generateP256()
    let subject = Certificate.Subject(
      userID: "00000000000000ab", commonName: "d", organization: "Apus Devices")
    var plain = try CertificateTemplate(
      subject: subject, validity: validity, publicKey: key.publicKey)
    let issuer = authority.certificate.subjectDER
    let noPurpose = try plain.signed(issuer: issuer, by: authority.key)
    #expect(fault(noPurpose, authority.certificate) == .purpose)
    plain.addExtendedKeyUsage(.serverAuth)
    let serverPurpose = try plain.signed(issuer: issuer, by: authority.key)
    #expect(fault(serverPurpose, authority.certificate) == .purpose)
    var client = try CertificateTemplate(
      subject: subject, validity: validity, publicKey: key.publicKey)
    client.addExtendedKeyUsage(.clientAuth)
    #expect(
      fault(try client.signed(issuer: issuer, by: authority.key), authority.certificate) == nil)
    #expect(fault(try client.signed(issuer: issuer, by: key), authority.certificate) == .untrusted)
    client.add(.basicConstraints, critical: true, DER.sequence(DER.boolean(true)))
    let authorityToo = try client.signed(issuer: issuer, by: authority.key)
    #expect(fault(authorityToo, authority.certificate) == .purpose)
  }

  @Test("A changed byte makes a certificate malformed, another one, or untrusted")
  func damage() throws {
    let authority = try authority()
    let certificate = try authority.issueDevice(
      deviceID: DeviceID(0xab), name: "d", publicKey: PrivateKey.generateP256().publicKey,
      validity: validity)
    for index in stride(from: 0, to: certificate.der.count, by: 3) {
      var changed = certificate.der
      changed[index] ^= 1
      #expect(throws: DeviceCertificateFault.self, "byte \(index)") {
        try DeviceCertificate.verify(
          der: changed.span, authorities: [authority.certificate], now: now)
      }
    }
  }
}
