/// The validity of a certificate.
package struct Validity: Sendable, Hashable {
  /// Unix seconds.
  package var notBefore: Int64
  /// Unix seconds.
  package var notAfter: Int64

  package init(notBefore: Int64, notAfter: Int64) {
    self.notBefore = notBefore
    self.notAfter = notAfter
  }

  /// From an hour before `now` (Unix seconds), for peers whose clocks are behind, to `days` after it.
  package init(now: Int64, days: Int) {
    self.init(notBefore: now - 3600, notAfter: now + Int64(days) * 86400)
  }
}

extension OID {
  static let userID = OID(0, 9, 2342, 19_200_300, 100, 1, 1)
  static let commonName = OID(2, 5, 4, 3)
  static let country = OID(2, 5, 4, 6)
  static let organization = OID(2, 5, 4, 10)
  static let organizationalUnit = OID(2, 5, 4, 11)

  static let subjectKeyID = OID(2, 5, 29, 14)
  static let keyUsage = OID(2, 5, 29, 15)
  static let subjectAlternativeName = OID(2, 5, 29, 17)
  static let basicConstraints = OID(2, 5, 29, 19)
  static let authorityKeyID = OID(2, 5, 29, 35)
  static let extendedKeyUsage = OID(2, 5, 29, 37)
  static let serverAuth = OID(1, 3, 6, 1, 5, 5, 7, 3, 1)
  static let clientAuth = OID(1, 3, 6, 1, 5, 5, 7, 3, 2)

  static let ecPublicKey = OID(1, 2, 840, 10045, 2, 1)
  static let p256 = OID(1, 2, 840, 10045, 3, 1, 7)
  static let rsaEncryption = OID(1, 2, 840, 113_549, 1, 1, 1)
  static let ecdsaWithSHA256 = OID(1, 2, 840, 10045, 4, 3, 2)
  static let extensionRequest = OID(1, 2, 840, 113_549, 1, 9, 14)
  static let sha256WithRSA = OID(1, 2, 840, 113_549, 1, 1, 11)

  /// Apple's extensions of push certificates, with the meanings seen in issued ones.
  static let pushDevelopment = OID(1, 2, 840, 113_635, 100, 6, 3, 1)
  static let pushProduction = OID(1, 2, 840, 113_635, 100, 6, 3, 2)
  static let pushVoIP = OID(1, 2, 840, 113_635, 100, 6, 3, 4)
  static let pushTopics = OID(1, 2, 840, 113_635, 100, 6, 3, 6)
}

/// The content of a certificate to be signed. RFC 5280, section 4.1.
///
/// Written as bytes and not through OpenSSL's builders: the form is fixed and small, each extension is explicit, and
/// OpenSSL, which parses the result, checks it independently.
struct CertificateTemplate {
  /// Bits of key usage. RFC 5280, section 4.2.1.3.
  enum KeyUsage {
    static let digitalSignature: UInt8 = 0x80
    static let keyEncipherment: UInt8 = 0x20
    static let keyCertSign: UInt8 = 0x04
    static let crlSign: UInt8 = 0x02
  }

  var subject: Certificate.Subject
  var validity: Validity
  var publicKey: PublicKey
  /// Each is a whole `Extension` element.
  private(set) var extensions: [[UInt8]] = []

  /// The most bytes of one text in a subject: a bundle id with the text around it.
  static let subjectTextBytes = 320

  init(
    subject: Certificate.Subject, validity: Validity, publicKey: PublicKey
  ) throws(TrustFault) {
    for text in [
      subject.userID, subject.commonName, subject.organization, subject.organizationalUnit,
      subject.country,
    ] {
      guard let text else { continue }
      guard (1...Self.subjectTextBytes).contains(text.utf8.count),
        text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f })
      else { throw .badSubject(text) }
    }
    if let country = subject.country {
      guard country.utf8.count == 2,
        country.utf8.allSatisfy({ ($0 | 0x20) &- 0x61 < 26 })
      else { throw .badSubject(country) }
    }
    self.subject = subject
    self.validity = validity
    self.publicKey = publicKey
  }

  mutating func add(_ oid: OID, critical: Bool = false, _ value: [UInt8]) {
    let flag = critical ? DER.boolean(true) : []
    extensions.append(
      DER.sequence(oid.der, flag, DER.element(DER.Tag.octetString, value)))
  }

  mutating func addKeyUsage(_ bits: UInt8) {
    add(.keyUsage, critical: true, DER.namedBits(bits))
  }

  mutating func addExtendedKeyUsage(_ purposes: OID...) {
    add(.extendedKeyUsage, DER.sequence(purposes.map(\.der)))
  }

  /// RFC 5280, section 4.2.1.2, method 1: SHA-1 of the key's BIT STRING without its first byte.
  static func keyID(of key: PublicKey) throws(TrustFault) -> [UInt8] {
    let der = key.spkiDER
    do {
      var outer = DERReader(der.span)
      var reader = DERReader(der.span, within: try outer.element(DER.Tag.sequence))
      _ = try reader.element(DER.Tag.sequence)
      let bits = try reader.element(DER.Tag.bitString)
      return SHA1Digest.of(der.span.extracting(bits.dropFirst()))
    } catch {
      throw .malformedKey
    }
  }

  /// The certificate, signed with `key` by `issuer` (the DER of a Name).
  func signed(
    issuer: [UInt8], by key: PrivateKey
  ) throws(TrustFault) -> Certificate {
    let der = try signedDER(issuer: issuer, by: key)
    return try Certificate(der: der.span)
  }

  /// The same as DER, whether or not it can be parsed.
  func signedDER(issuer: [UInt8], by key: PrivateKey) throws(TrustFault) -> [UInt8] {
    let algorithm: [UInt8]
    switch key.publicKey.kind {
    case .p256: algorithm = DER.sequence(OID.ecdsaWithSHA256.der)
    case .rsa(let bits) where bits >= 2048:
      algorithm = DER.sequence(OID.sha256WithRSA.der, DER.null)
    default: throw .unsupportedKey
    }
    guard publicKey.kind.isStrong else { throw .unsupportedKey }
    let body = DER.sequence(
      DER.element(DER.Tag.constructed(0), DER.integer([2])),
      // 128 random bits; the set bit ensures the positive number that RFC 5280 requires.
      DER.integer([randomBytes(1)[0] & 0x7f | 0x40] + randomBytes(15)),
      algorithm,
      issuer,
      DER.sequence(DER.time(validity.notBefore), DER.time(validity.notAfter)),
      Self.name(subject),
      publicKey.spkiDER,
      DER.element(DER.Tag.constructed(3), DER.sequence(extensions)))
    let signature = try key.signature(over: body.span, digest: .sha256)
    return DER.sequence(body, algorithm, DER.bitString(signature))
  }

  /// A Name in the order of Apple's certificates: UID, CN, OU, O, C.
  static func name(_ subject: Certificate.Subject) -> [UInt8] {
    func attribute(_ oid: OID, _ value: [UInt8]) -> [UInt8] {
      DER.element(DER.Tag.set, DER.sequence(oid.der, value))
    }
    var parts: [[UInt8]] = []
    if let text = subject.userID { parts.append(attribute(.userID, DER.utf8(text))) }
    if let text = subject.commonName { parts.append(attribute(.commonName, DER.utf8(text))) }
    if let text = subject.organizationalUnit {
      parts.append(attribute(.organizationalUnit, DER.utf8(text)))
    }
    if let text = subject.organization { parts.append(attribute(.organization, DER.utf8(text))) }
    if let text = subject.country {
      parts.append(attribute(.country, DER.element(DER.Tag.printableString, Array(text.utf8))))
    }
    return DER.sequence(parts)
  }
}
