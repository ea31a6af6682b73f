/// An X.509 certificate, read once into plain values.
package struct Certificate: Sendable, Hashable {
  /// An extension as it stands in the certificate.
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
  /// Unix seconds; the certificate is still valid in this second.
  package let notAfter: Int64
  package let keyKind: KeyKind
  package let spkiDER: [UInt8]
  /// Whether it may issue certificates: CA:TRUE and, where key usage is stated, keyCertSign.
  package let isAuthority: Bool

  /// The issuer's Name, as the certificate spells it.
  let issuerDER: [UInt8]
  /// The serial number's magnitude, big-endian.
  let serialBytes: [UInt8]
  /// The subject's Name, to be copied into what the certificate issues.
  let subjectDER: [UInt8]
  /// The subject key identifier, to be copied likewise.
  let subjectKeyID: [UInt8]?
  /// Whether extended key usage names TLS clients.
  let namesClientAuth: Bool
  let extensions: [Extension]

  /// What a subject names. Where an attribute stands there several times, the first one counts.
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
    let handle = try X509Handle(der: der)
    guard let certificate = handle.read() else { throw .malformedCertificate }
    self = certificate
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

  /// The DNS names and addresses that a server's certificate is for.
  package var serverNames: [String] {
    values(of: .subjectAlternativeName).flatMap(ServerName.texts)
  }

  /// Whether `now` (Unix seconds) lies in the certificate's validity.
  package func isValid(now: Int64) -> Bool { notBefore <= now && now <= notAfter }

  /// The values of an extension; more than one where a certificate repeats it.
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
