import ApusModel
import COpenSSL
import Testing

@testable import ApusTrust

private let now: Int64 = 1_700_000_000
private let validity = Validity(notBefore: now - 3600, notAfter: now + 86400)

private func authority(_ name: String = "Test Authority") throws -> CertificateAuthority {
  try CertificateAuthority.create(commonName: name, validity: validity)
}

/// Runs `body` with the certificate as OpenSSL parses it.
private func withX509<Result>(
  _ certificate: Certificate, _ body: (OpaquePointer) throws -> Result
) throws -> Result {
  let handle = try X509Handle(der: certificate.der.span)
  return try body(handle.handle)
}

@Suite("Certificates of an authority")
struct CertificateAuthorityTests {
  @Test("An authority passes OpenSSL's strict check of RFC 5280")
  func authorityItself() throws {
    let authority = try authority()
    let certificate = authority.certificate
    #expect(certificate.isAuthority)
    #expect(certificate.subject.commonName == "Test Authority")
    #expect(certificate.notBefore == validity.notBefore)
    #expect(certificate.notAfter == validity.notAfter)
    #expect(certificate.serial.count == 32)
    try withX509(certificate) { handle in
      #expect(X509_get_version(handle) == 2)
      #expect(X509_get_pathlen(handle) == 1)
      #expect(X509_get_key_usage(handle) == UInt32(KU_KEY_CERT_SIGN | KU_CRL_SIGN))
      #expect(X509_get_extension_flags(handle) & UInt32(EXFLAG_SS) != 0)
      #expect(X509_self_signed(handle, 1) == 1)
    }
    #expect(try verdict(certificate, under: certificate) == X509_V_OK)
  }

  @Test("Two authorities and two certificates never share a serial number")
  func serials() throws {
    let authority = try authority()
    let key = try PrivateKey.generateP256().publicKey
    let serials = try (0..<20).map { _ in
      try authority.issueServer(names: ["a.example"], publicKey: key, validity: validity).serial
    }
    #expect(Set(serials).count == 20)
  }

  @Test("A server's certificate is valid for its names and no others")
  func server() throws {
    let authority = try authority()
    let key = try PrivateKey.generateP256()
    let certificate = try authority.issueServer(
      names: ["push.example", "*.dev.example", "localhost", "apus_1", "127.0.0.1", "::1"],
      publicKey: key.publicKey, validity: validity)
    #expect(
      certificate.serverNames == [
        "push.example", "*.dev.example", "localhost", "apus_1", "127.0.0.1", "::1",
      ])
    #expect(try verdict(certificate, under: authority.certificate) == X509_V_OK)
    try withX509(certificate) { handle in
      for name in ["push.example", "PUSH.example", "a.dev.example", "localhost", "apus_1"] {
        #expect(X509_check_host(handle, name, 0, 0, nil) == 1, "\(name)")
      }
      for name in ["example", "a.push.example", "dev.example", "a.b.dev.example", "127.0.0.1"] {
        #expect(X509_check_host(handle, name, 0, 0, nil) == 0, "\(name)")
      }
      for address in ["127.0.0.1", "::1", "0:0:0:0:0:0:0:1"] {
        #expect(X509_check_ip_asc(handle, address, 0) == 1, "\(address)")
      }
      for address in ["127.0.0.2", "::2"] {
        #expect(X509_check_ip_asc(handle, address, 0) == 0, "\(address)")
      }
      #expect(X509_check_purpose(handle, X509_PURPOSE_SSL_SERVER, 0) == 1)
      #expect(X509_check_purpose(handle, X509_PURPOSE_SSL_CLIENT, 0) == 0)
    }
  }

  @Test(
    "A name that is neither a DNS name nor an address gets no certificate",
    arguments: [
      "", ".", "a..b", "-a.example", "a-.example", "a b", "exämple", "*", "a.*", "a.example.",
      "300.1.1.1", "1.2.3", "::g", "http://a", "a:443", String(repeating: "a", count: 64),
      String(repeating: "a.", count: 127),
    ])
  func badNames(name: String) throws {
    let authority = try authority()
    let key = try PrivateKey.generateP256().publicKey
    #expect(throws: TrustFault.badName(name)) {
      try authority.issueServer(names: ["ok.example", name], publicKey: key, validity: validity)
    }
    #expect(throws: TrustFault.noNames) {
      try authority.issueServer(names: [], publicKey: key, validity: validity)
    }
  }

  @Test("A provider's certificate has Apple's extensions byte for byte")
  func provider() throws {
    let authority = try authority()
    let key = try PrivateKey.generateP256().publicKey
    let topics = try TopicsExtension.parse(TopicsExtensionTests.pushy)
    let certificate = try authority.issueProvider(
      ProviderCertificateRequest(
        bundleID: "com.eatthepath.pushy", teamID: "DEF123GHIJ", topics: topics,
        voipTopics: TopicsExtension(entries: [.init(topic: "other.voip", labels: ["voip"])]),
        publicKey: key, validity: validity))
    #expect(try verdict(certificate, under: authority.certificate) == X509_V_OK)
    #expect(certificate.subject.commonName == "Apus Push Services: com.eatthepath.pushy")
    #expect(certificate.subject.organization == "Apus Providers")
    #expect(certificate.subject.country == "US")
    #expect(certificate.values(of: .pushTopics) == [TopicsExtensionTests.pushy])
    #expect(certificate.values(of: .pushDevelopment) == [[5, 0]])
    #expect(certificate.values(of: .pushProduction) == [[5, 0]])
    let apple = certificate.extensions.filter { $0.oid.content.starts(with: OID.apple) }
    #expect(apple.count == 4)
    #expect(apple.allSatisfy { !$0.isCritical })
    let provider = try ProviderCertificate(certificate)
    #expect(provider.topics == topics.entries.map(\.topic) + ["other.voip"])
    #expect(provider.teamID == "DEF123GHIJ")
    try withX509(certificate) { handle in
      #expect(X509_check_purpose(handle, X509_PURPOSE_SSL_CLIENT, 0) == 1)
      #expect(X509_check_purpose(handle, X509_PURPOSE_SSL_SERVER, 0) == 0)
    }
  }

  @Test("Given names of authority and provider are in the certificate, byte for byte")
  func givenNames() throws {
    let authority = try authority("Apus for Apple")
    let certificate = try authority.issueProvider(
      ProviderCertificateRequest(
        bundleID: "a.b", teamID: "DEF123GHIJ", commonName: "Apple Push Services",
        publicKey: PrivateKey.generateP256().publicKey, validity: validity))
    #expect(
      certificate.subjectDER
        == Fixtures.hex(
          "306e" + "31133011060a0992268993f22c6401010c03612e62"
            + "311c301a06035504030c134170706c652050757368205365727669636573"
            + "31133011060355040b0c0a4445463132334748494a"
            + "31173015060355040a0c0e417075732050726f766964657273" + "310b3009060355040613025553"))
    #expect(
      certificate.issuerDER
        == Fixtures.hex("30193117301506035504030c0e4170757320666f72204170706c65"))
    #expect(try verdict(certificate, under: authority.certificate) == X509_V_OK)
    let provider = try ProviderCertificate(certificate)
    #expect(provider.topics == ["a.b"])
    #expect(provider.teamID == "DEF123GHIJ")
  }

  @Test(
    "A provider's certificate is valid for its environments",
    arguments: [EnvironmentSet.production, .development, .both])
  func environments(environments: EnvironmentSet) throws {
    let certificate = try authority().issueProvider(
      ProviderCertificateRequest(
        bundleID: "a.b", teamID: "DEF123GHIJ", environments: environments,
        publicKey: PrivateKey.generateP256().publicKey, validity: validity))
    let provider = try ProviderCertificate(certificate)
    #expect(provider.environments == environments)
    #expect(provider.topics == ["a.b"])
    #expect(!provider.listsSeveralTopics)
  }

  @Test("An authority that was written and read back issues valid certificates")
  func readBack() throws {
    let first = try authority()
    let second = try CertificateAuthority(
      certificatePEM: first.certificate.pem, keyPEM: first.key.pkcs8PEM)
    let key = try PrivateKey.generateP256().publicKey
    let certificate = try second.issueServer(
      names: ["a.example"], publicKey: key, validity: validity)
    #expect(try verdict(certificate, under: first.certificate) == X509_V_OK)
  }

  @Test("An authority needs its own key and the right to issue")
  func authorityFaults() throws {
    let authority = try authority()
    let other = try PrivateKey.generateP256()
    #expect(throws: TrustFault.keyMismatch) {
      try CertificateAuthority(certificate: authority.certificate, key: other)
    }
    let leaf = try authority.issueServer(
      names: ["a.example"], publicKey: other.publicKey, validity: validity)
    #expect(throws: TrustFault.notAnAuthority) {
      try CertificateAuthority(certificate: leaf, key: other)
    }
  }

  @Test("An authority with an RSA key issues too")
  func rsaAuthority() throws {
    let authority = try CertificateAuthority(
      certificatePEM: Fixtures.rsaCertificatePEM, keyPEM: Fixtures.rsaPEM)
    let period = Validity(
      notBefore: authority.certificate.notBefore, notAfter: authority.certificate.notAfter)
    let certificate = try authority.issueServer(
      names: ["a.example"], publicKey: PrivateKey.generateP256().publicKey, validity: period)
    // The command line's authority has no key usage, which the strict check requires.
    #expect(
      try verdict(
        certificate, under: authority.certificate, now: period.notBefore, strict: false)
        == X509_V_OK)
  }

  @Test("No certificate is issued for a weak key, or with an invalid subject")
  func subjects() throws {
    let authority = try authority()
    let key = try PrivateKey.generateP256().publicKey
    let p384 = try PrivateKey(pem: Fixtures.p384).publicKey
    #expect(throws: TrustFault.unsupportedKey) {
      try authority.issueServer(names: ["a.example"], publicKey: p384, validity: validity)
    }
    for name in ["", "a\0b", "a\nb", String(repeating: "a", count: 321)] {
      #expect(throws: TrustFault.badSubject(name)) {
        try authority.issueDevice(
          deviceID: DeviceID(1), name: name, publicKey: key, validity: validity)
      }
    }
    #expect(throws: TrustFault.badSubject("USA")) {
      try authority.issueProvider(
        ProviderCertificateRequest(
          bundleID: "a.b", teamID: "T", country: "USA", publicKey: key, validity: validity))
    }
  }

  /// OpenSSL's result with strict rules, which also require the key identifiers of RFC 5280.
  private func verdict(
    _ certificate: Certificate, under authority: Certificate, now time: Int64 = now,
    strict: Bool = true
  ) throws -> Int32 {
    try withX509(certificate) { leaf in
      try withX509(authority) { issuer in
        let store = X509_STORE_new()
        defer { X509_STORE_free(store) }
        let context = X509_STORE_CTX_new()
        defer { X509_STORE_CTX_free(context) }
        #expect(X509_STORE_add_cert(store, issuer) == 1)
        #expect(X509_STORE_CTX_init(context, store, leaf, nil) == 1)
        let parameters = X509_STORE_CTX_get0_param(context)
        X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_CHECK_SS_SIGNATURE))
        if strict { X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_X509_STRICT)) }
        X509_VERIFY_PARAM_set_time(parameters, time_t(time))
        X509_verify_cert(context)
        return X509_STORE_CTX_get_error(context)
      }
    }
  }
}

extension OID {
  /// 1.2.840.113635, Apple.
  fileprivate static let apple = Fixtures.hex("2A864886F763")
}
