/// An X.509 certificate, parsed once into plain values.
package struct Certificate: Sendable, Hashable {
  /// An extension of a certificate.
  struct Extension: Sendable, Hashable {
    let oid: OID
    let isCritical: Bool
    /// The content of the OCTET STRING.
    let value: [UInt8]
  }

  package let der: [UInt8]
  package let subject: Subject
  /// The serial number's bytes in lower-case hexadecimal digits, without leading zero bytes.
  package let serial: String
  /// Unix seconds.
  package let notBefore: Int64
  /// Unix seconds, inclusive.
  package let notAfter: Int64
  package let keyKind: KeyKind
  package let spkiDER: [UInt8]
  /// Whether it may issue certificates: CA:TRUE and, if key usage is present, keyCertSign.
  package let isAuthority: Bool

  /// The issuer's Name as encoded in the certificate.
  let issuerDER: [UInt8]
  /// The serial number's magnitude, big-endian.
  let serialBytes: [UInt8]
  /// The subject's Name, to copy into certificates issued by this one.
  let subjectDER: [UInt8]
  /// The subject key identifier, likewise.
  let subjectKeyID: [UInt8]?
  /// Whether extended key usage includes TLS client authentication.
  let namesClientAuth: Bool
  let extensions: [Extension]

  /// The attributes of a subject. If an attribute repeats, the first one counts.
  package struct Subject: Sendable, Hashable {
    /// UID (0.9.2342.19200300.100.1.1): a bundle id or a device id.
    package var userID: String?
    /// CN.
    package var commonName: String?
    /// O.
    package var organization: String?
    /// OU: a team id.
    package var organizationalUnit: String?
    /// C.
    package var country: String?
  }

  package init(der: Span<UInt8>) throws(TrustFault) {
    do { self = try CertificateReader(der).certificate() } catch { throw .malformedCertificate }
  }

  /// Reads the first `CERTIFICATE` block.
  package init(pem: String) throws(TrustFault) {
    guard let block = PEM.blocks(of: pem).first(where: { $0.label == "CERTIFICATE" }) else {
      throw .noPEM("CERTIFICATE")
    }
    try self.init(der: block.der.span)
  }

  /// Reads all `CERTIFICATE` blocks, at least one.
  package static func all(pem: String) throws(TrustFault) -> [Certificate] {
    let certificates = try PEM.blocks(of: pem).filter { $0.label == "CERTIFICATE" }
      .map { block throws(TrustFault) in try Certificate(der: block.der.span) }
    guard !certificates.isEmpty else { throw .noPEM("CERTIFICATE") }
    return certificates
  }

  package var pem: String { PEM.text(label: "CERTIFICATE", der: der) }

  /// SHA-256 of the whole certificate.
  package var fingerprint: SHA256Digest { SHA256Digest(of: der.span) }

  /// SHA-256 of the public key.
  package var spkiSHA256: SHA256Digest { SHA256Digest(of: spkiDER.span) }

  package func publicKey() throws(TrustFault) -> PublicKey {
    try PublicKey(spkiDER: spkiDER.span)
  }

  /// The DNS names and addresses in a server's certificate.
  package var serverNames: [String] {
    values(of: .subjectAlternativeName).flatMap(ServerName.texts)
  }

  /// Whether `now` (Unix seconds) is within the certificate's validity.
  package func isValid(now: Int64) -> Bool { notBefore <= now && now <= notAfter }

  /// The values of an extension; more than one if a certificate repeats it.
  func values(of oid: OID) -> [[UInt8]] {
    extensions.filter { $0.oid == oid }.map(\.value)
  }

  package static func == (left: Certificate, right: Certificate) -> Bool {
    left.der == right.der
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(der) }

  init(
    der: [UInt8], subject: Subject, serial: String, notBefore: Int64, notAfter: Int64,
    keyKind: KeyKind, spkiDER: [UInt8], isAuthority: Bool, issuerDER: [UInt8],
    serialBytes: [UInt8], subjectDER: [UInt8], subjectKeyID: [UInt8]?, namesClientAuth: Bool,
    extensions: [Extension]
  ) {
    self.der = der
    self.subject = subject
    self.serial = serial
    self.notBefore = notBefore
    self.notAfter = notAfter
    self.keyKind = keyKind
    self.spkiDER = spkiDER
    self.isAuthority = isAuthority
    self.issuerDER = issuerDER
    self.serialBytes = serialBytes
    self.subjectDER = subjectDER
    self.subjectKeyID = subjectKeyID
    self.namesClientAuth = namesClientAuth
    self.extensions = extensions
  }
}
