import ApusModel
import COpenSSL
import Testing

@testable import ApusTrust

@Suite("Certificate requests")
struct CertificateRequestTests {
  private func der(_ pem: String) throws -> [UInt8] {
    try #require(PEM.blocks(of: pem).first).der
  }

  private func read(_ der: [UInt8]) throws(CertificateRequestFault) -> CertificateRequest {
    try CertificateRequest(der: der.span)
  }

  private func fault(_ der: [UInt8]) -> CertificateRequestFault? {
    do throws(CertificateRequestFault) {
      _ = try read(der)
      return nil
    } catch {
      return error
    }
  }

  @Test("A request of OpenSSL's is read, and only its key is used")
  func openssl() throws {
    let request = try read(der(Fixtures.request))
    #expect(request.publicKey.kind == .p256)
    #expect(request.keyFingerprint.hex == Fixtures.requestKeySHA256)
    #expect(CertificateRequest(pem: Fixtures.request)?.der == request.der)
    #expect(CertificateRequest(pem: request.pem)?.der == request.der)

    let authority = try CertificateAuthority.create(
      commonName: "Test", validity: Validity(now: 1_700_000_000, days: 1))
    let certificate = try authority.issueDevice(
      deviceID: DeviceID(42), name: "phone", publicKey: request.publicKey,
      validity: Validity(now: 1_700_000_000, days: 1))
    #expect(certificate.subject.userID == "000000000000002a")
    #expect(certificate.subject.commonName == "phone")
    #expect(!certificate.isAuthority)
    #expect(certificate.values(of: .subjectAlternativeName).isEmpty)
  }

  @Test("OpenSSL accepts our requests as requests of that key", arguments: [0, 2048, 4096])
  func made(rsaBits: Int) throws {
    let key = try rsaBits == 0 ? PrivateKey.generateP256() : .generateRSA(bits: rsaBits)
    let der = try CertificateRequest.make(for: key)
    #expect(der.count < Limits.certificateRequestBytes / 4)
    #expect(try read(der).publicKey.spkiDER == key.publicKey.spkiDER)
    let handle = unsafe OpenSSL.decoded(der.span, free: { X509_REQ_free($0) }) {
      d2i_X509_REQ(nil, $0, $1)
    }
    defer { X509_REQ_free(handle) }
    #expect(X509_REQ_verify(handle, X509_REQ_get0_pubkey(handle)) == 1)
  }

  @Test("A request for an external authority has the content that would be issued here")
  func asked() throws {
    let key = try PrivateKey.generateP256()
    let wanted = ProviderCertificateRequest(
      bundleID: "com.example.app", teamID: "TEAM123456", environments: .production,
      publicKey: key.publicKey, validity: Validity(now: 0, days: 1))
    for (what, oids) in [
      (RequestedCertificate.provider(wanted), [OID.extendedKeyUsage, .pushProduction]),
      (.device(DeviceID(42), name: "phone"), [.extendedKeyUsage]),
      (.server(names: ["a.example", "127.0.0.1"]), [.extendedKeyUsage, .subjectAlternativeName]),
    ] {
      let der = try CertificateRequest.make(what, for: key)
      #expect(try read(der).publicKey.spkiDER == key.publicKey.spkiDER)
      let handle = unsafe OpenSSL.decoded(der.span, free: { X509_REQ_free($0) }) {
        d2i_X509_REQ(nil, $0, $1)
      }
      defer { X509_REQ_free(handle) }
      let extensions = X509_REQ_get_extensions(handle)
      defer { OPENSSL_sk_free(extensions) }
      let count = OPENSSL_sk_num(extensions)
      let found = (0..<count).map { index in
        let entry = OpaquePointer(OPENSSL_sk_value(extensions, index))
        defer { X509_EXTENSION_free(entry) }
        let object = X509_EXTENSION_get_object(entry)
        return OID(
          content: Array(
            UnsafeBufferPointer(start: OBJ_get0_data(object), count: OBJ_length(object))))
      }
      #expect(Set(oids + [.basicConstraints, .keyUsage, .subjectKeyID]) == Set(found))
    }
  }

  @Test("A file may be PEM or DER")
  func file() throws {
    let good = try der(Fixtures.request)
    #expect(try CertificateRequest(file: good).der == good)
    #expect(try CertificateRequest(file: Array(("note\n" + Fixtures.request).utf8)).der == good)
    #expect(throws: CertificateRequestFault.malformed) {
      _ = try CertificateRequest(file: Array("no request".utf8))
    }
  }

  @Test(
    "Unsupported keys and digests are rejected",
    arguments: [
      (Fixtures.requestP384, CertificateRequestFault.key), (Fixtures.requestRSA1024, .key),
      (Fixtures.requestExplicitCurve, .key), (Fixtures.requestCompressedPoint, .key),
      (Fixtures.requestEd25519, .key), (Fixtures.requestSHA384, .algorithm),
    ])
  func refused(pem: String, expected: CertificateRequestFault) throws {
    #expect(try fault(der(pem)) == expected)
    #expect(CertificateRequest(pem: pem) == nil)
  }

  @Test("An RSA key above the limit is rejected")
  func largeRSA() throws {
    let key = try PrivateKey.generateRSA(bits: 4104)
    #expect(try fault(CertificateRequest.make(for: key)) == .key)
  }

  @Test("A request with another's key is rejected")
  func stolen() throws {
    let good = try der(Fixtures.request)
    let own = try CertificateRequest.make(for: .generateP256())
    // The key of one, and the signature of the other.
    var reader = DERReader(good.span)
    var inner = DERReader(good.span, within: try reader.element(DER.Tag.sequence))
    let start = inner.position
    _ = try inner.element(DER.Tag.sequence)
    let body = Array(good[start..<inner.position])
    var ownReader = DERReader(own.span)
    var ownInner = DERReader(own.span, within: try ownReader.element(DER.Tag.sequence))
    _ = try ownInner.element(DER.Tag.sequence)
    let rest = Array(own[ownInner.position...])
    #expect(fault(DER.element(DER.Tag.sequence, body + rest)) == .signature)
  }

  @Test("Trailing bytes, truncated requests and other data are rejected")
  func malformed() throws {
    let good = try der(Fixtures.request)
    #expect(fault(good) == nil)
    #expect(fault(good + [0]) == .malformed)
    #expect(fault([]) == .malformed)
    #expect(fault([0x30, 0]) == .malformed)
    #expect(fault([0x30, 0x80] + good.dropFirst(4) + [0, 0]) == .malformed)
    for count in stride(from: 1, to: good.count, by: 7) {
      #expect(fault(Array(good.prefix(count))) == .malformed, "\(count) bytes")
    }
    #expect(fault([UInt8](repeating: 0x30, count: 1 << 20)) == .tooLong)
    #expect(fault(good + [UInt8](repeating: 0, count: Limits.certificateRequestBytes)) == .tooLong)
    let certificate = try CertificateAuthority.create(
      commonName: "Test", validity: Validity(now: 0, days: 1)
    ).certificate
    #expect(fault(certificate.der) == .malformed)
  }

  @Test("A request with any changed byte is rejected")
  func tampered() throws {
    let good = try der(Fixtures.request)
    for index in good.indices {
      for bit in [UInt8(0x01), 0x80] {
        var bad = good
        bad[index] ^= bit
        #expect(fault(bad) != nil, "byte \(index), bit \(bit)")
      }
    }
  }
}
