package import ApusModel

// The kinds of end-entity certificates: one template each, whether signed here or requested from an external
// authority.

extension CertificateTemplate {
  /// For a server with these `names`.
  static func server(
    names: [String], publicKey: PublicKey, validity: Validity
  ) throws(TrustFault) -> CertificateTemplate {
    try server(names: names, publicKey: publicKey, validity: validity, isClient: false)
  }

  static func node(
    name: String, publicKey: PublicKey, validity: Validity
  ) throws(TrustFault) -> CertificateTemplate {
    try server(names: [name], publicKey: publicKey, validity: validity, isClient: true)
  }

  private static func server(
    names: [String], publicKey: PublicKey, validity: Validity, isClient: Bool
  ) throws(TrustFault) -> CertificateTemplate {
    guard let first = names.first else { throw .noNames }
    var parts: [[UInt8]] = []
    for name in names { parts.append(try ServerName.generalName(name)) }
    // RFC 5280, appendix A, allows 64 characters in CN; the alternative names are what counts.
    let subject = Certificate.Subject(commonName: first.utf8.count <= 64 ? first : "Apus")
    var template = try leaf(subject: subject, publicKey: publicKey, validity: validity)
    if isClient {
      template.addExtendedKeyUsage(.serverAuth, .clientAuth)
    } else {
      template.addExtendedKeyUsage(.serverAuth)
    }
    template.add(.subjectAlternativeName, DER.sequence(parts))
    return template
  }

  static func provider(
    _ request: ProviderCertificateRequest
  ) throws(TrustFault) -> CertificateTemplate {
    let subject = Certificate.Subject(
      userID: request.bundleID, commonName: request.commonName,
      organization: CertificateAuthority.providerOrganization,
      organizationalUnit: request.teamID, country: request.country)
    var template = try leaf(
      subject: subject, publicKey: request.publicKey, validity: request.validity)
    template.addExtendedKeyUsage(.clientAuth)
    if request.environments.contains(Environment.development) {
      template.add(.pushDevelopment, DER.null)
    }
    if request.environments.contains(Environment.production) {
      template.add(.pushProduction, DER.null)
    }
    if let topics = request.voipTopics { template.add(.pushVoIP, topics.der) }
    if let topics = request.topics { template.add(.pushTopics, topics.der) }
    return template
  }

  static func device(
    deviceID: DeviceID, name: String, publicKey: PublicKey, validity: Validity
  ) throws(TrustFault) -> CertificateTemplate {
    let subject = Certificate.Subject(
      userID: deviceID.text, commonName: name,
      organization: CertificateAuthority.deviceOrganization)
    var template = try leaf(subject: subject, publicKey: publicKey, validity: validity)
    template.addExtendedKeyUsage(.clientAuth)
    return template
  }

  /// The common part of all kinds.
  private static func leaf(
    subject: Certificate.Subject, publicKey: PublicKey, validity: Validity
  ) throws(TrustFault) -> CertificateTemplate {
    var template = try CertificateTemplate(
      subject: subject, validity: validity, publicKey: publicKey)
    template.add(.basicConstraints, critical: true, DER.sequence())
    // TLS 1.2 without Diffie-Hellman uses an RSA key for key encipherment; an ECDSA key only signs.
    template.addKeyUsage(
      publicKey.kind == .p256
        ? CertificateTemplate.KeyUsage.digitalSignature
        : CertificateTemplate.KeyUsage.digitalSignature
          | CertificateTemplate.KeyUsage.keyEncipherment)
    template.add(
      .subjectKeyID,
      DER.element(DER.Tag.octetString, try CertificateTemplate.keyID(of: publicKey)))
    return template
  }
}

/// The certificate to request from an external authority.
package enum RequestedCertificate: Sendable {
  /// For a server with these names.
  case server(names: [String])
  /// Its key and validity are ignored.
  case provider(ProviderCertificateRequest)
  case device(DeviceID, name: String)
}

extension CertificateRequest {
  /// Creates a request (PKCS#10, DER) for an external authority: with the subject, and with the extensions as the
  /// attribute `extensionRequest` (RFC 2985, section 5.4.2), which the authority may copy.
  package static func make(
    _ what: RequestedCertificate, for key: PrivateKey
  ) throws(TrustFault) -> [UInt8] {
    // The authority decides the validity.
    let open = Validity(notBefore: 0, notAfter: 0)
    let template: CertificateTemplate
    switch what {
    case .server(let names):
      template = try .server(names: names, publicKey: key.publicKey, validity: open)
    case .provider(var request):
      request.publicKey = key.publicKey
      template = try .provider(request)
    case .device(let id, let name):
      template = try .device(
        deviceID: id, name: name, publicKey: key.publicKey, validity: open)
    }
    return try signed(
      subject: CertificateTemplate.name(template.subject), extensions: template.extensions, by: key)
  }

  /// Creates a request for a key: with an empty subject and no attributes, because the service ignores them.
  package static func make(for key: PrivateKey) throws(TrustFault) -> [UInt8] {
    try signed(subject: DER.sequence(), extensions: [], by: key)
  }

  private static func signed(
    subject: [UInt8], extensions: [[UInt8]], by key: PrivateKey
  ) throws(TrustFault) -> [UInt8] {
    let algorithm: [UInt8]
    switch key.publicKey.kind {
    case .p256: algorithm = DER.sequence(OID.ecdsaWithSHA256.der)
    case .rsa: algorithm = DER.sequence(OID.sha256WithRSA.der, DER.null)
    case .other: throw .unsupportedKey
    }
    let attributes =
      extensions.isEmpty
      ? []
      : DER.sequence(
        OID.extensionRequest.der, DER.element(DER.Tag.set, DER.sequence(extensions)))
    let body = DER.sequence(
      DER.integer([0]), subject, key.publicKey.spkiDER,
      DER.element(DER.Tag.constructed(0), attributes))
    let signature = try key.signature(over: body.span, digest: .sha256)
    return DER.sequence(body, algorithm, DER.bitString(signature))
  }
}
