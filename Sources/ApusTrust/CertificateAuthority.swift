package import ApusModel

/// What a provider's certificate is to allow.
package struct ProviderCertificateRequest: Sendable {
  package var bundleID: String
  /// OU.
  package var teamID: String
  package var country: String
  package var commonName: String
  /// Where it may push. Both make a universal certificate.
  package var environments: EnvironmentSet
  /// What extension 6.3.6 lists; without it the bundle id is the only topic.
  package var topics: TopicsExtension?
  /// What extension 6.3.4 lists.
  package var voipTopics: TopicsExtension?
  package var publicKey: PublicKey
  package var validity: Validity

  /// - Parameter commonName: `Apus Push Services: <bundle id>` where none is given.
  package init(
    bundleID: String, teamID: String, country: String = "US", commonName: String? = nil,
    environments: EnvironmentSet = .both, topics: TopicsExtension? = nil,
    voipTopics: TopicsExtension? = nil, publicKey: PublicKey, validity: Validity
  ) {
    self.bundleID = bundleID
    self.teamID = teamID
    self.country = country
    self.commonName = commonName ?? "Apus Push Services: \(bundleID)"
    self.environments = environments
    self.topics = topics
    self.voipTopics = voipTopics
    self.publicKey = publicKey
    self.validity = validity
  }
}

/// A certificate authority: it issues, with ECDSA or RSA over SHA-256.
///
/// A service has two, one for servers and providers and one for devices, so that each door asks for its own kind.
package struct CertificateAuthority: Sendable {
  /// O in what it issues to providers and to devices, which tells the two apart for a human reader.
  package static let providerOrganization = "Apus Providers"
  package static let deviceOrganization = "Apus Devices"

  package let certificate: Certificate
  package let key: PrivateKey

  /// Takes an authority that exists.
  package init(certificate: Certificate, key: PrivateKey) throws(TrustFault) {
    guard certificate.isAuthority else { throw .notAnAuthority }
    guard certificate.spkiDER == key.publicKey.spkiDER else { throw .keyMismatch }
    guard certificate.keyKind.isStrong else { throw .unsupportedKey }
    self.certificate = certificate
    self.key = key
  }

  package init(certificatePEM: String, keyPEM: String) throws(TrustFault) {
    try self.init(certificate: Certificate(pem: certificatePEM), key: PrivateKey(pem: keyPEM))
  }

  /// A new authority with a new P-256 key, signed by itself, for certificates below it and for its successor.
  package static func create(
    commonName: String, validity: Validity
  ) throws(TrustFault) -> CertificateAuthority {
    let key = try PrivateKey.generateP256()
    let subject = Certificate.Subject(commonName: commonName)
    let keyID = try CertificateTemplate.keyID(of: key.publicKey)
    // One authority may stand below: the successor, while those that know only this one learn the other.
    let template = try Self.template(
      subject: subject, publicKey: key.publicKey, pathLength: 1, authorityKeyID: keyID,
      validity: validity)
    let certificate = try template.signed(issuer: CertificateTemplate.name(subject), by: key)
    return try CertificateAuthority(certificate: certificate, key: key)
  }

  /// The certificate of another authority, signed by this one: who trusts this one trusts what the other issues.
  package func crossSign(
    _ other: CertificateAuthority, validity: Validity
  ) throws(TrustFault) -> Certificate {
    let template = try Self.template(
      subject: other.certificate.subject, publicKey: other.key.publicKey, pathLength: 0,
      authorityKeyID: certificate.subjectKeyID, validity: validity)
    return try sign(template)
  }

  private static func template(
    subject: Certificate.Subject, publicKey: PublicKey, pathLength: UInt8,
    authorityKeyID: [UInt8]?, validity: Validity
  ) throws(TrustFault) -> CertificateTemplate {
    var template = try CertificateTemplate(
      subject: subject, validity: validity, publicKey: publicKey)
    template.add(
      .basicConstraints, critical: true, DER.sequence(DER.boolean(true), DER.integer([pathLength])))
    template.addKeyUsage(
      CertificateTemplate.KeyUsage.keyCertSign | CertificateTemplate.KeyUsage.crlSign)
    template.add(
      .subjectKeyID,
      DER.element(DER.Tag.octetString, try CertificateTemplate.keyID(of: publicKey)))
    if let authorityKeyID {
      template.add(.authorityKeyID, DER.sequence(DER.element(DER.Tag.context(0), authorityKeyID)))
    }
    return template
  }

  /// For a server that is reached under `names`: DNS names, a `*.` in front allowed, and IP addresses.
  package func issueServer(
    names: [String], publicKey: PublicKey, validity: Validity
  ) throws(TrustFault) -> Certificate {
    try issue(.server(names: names, publicKey: publicKey, validity: validity))
  }

  /// For a provider, with Apple's extensions of push certificates.
  package func issueProvider(
    _ request: ProviderCertificateRequest
  ) throws(TrustFault) -> Certificate {
    try issue(.provider(request))
  }

  /// For a device, whose id becomes the subject's UID.
  package func issueDevice(
    deviceID: DeviceID, name: String, publicKey: PublicKey, validity: Validity
  ) throws(TrustFault) -> Certificate {
    try issue(
      .device(deviceID: deviceID, name: name, publicKey: publicKey, validity: validity))
  }

  private func issue(_ leaf: CertificateTemplate) throws(TrustFault) -> Certificate {
    var template = leaf
    if let keyID = certificate.subjectKeyID {
      template.add(.authorityKeyID, DER.sequence(DER.element(DER.Tag.context(0), keyID)))
    }
    return try sign(template)
  }

  private func sign(_ template: CertificateTemplate) throws(TrustFault) -> Certificate {
    try template.signed(issuer: certificate.subjectDER, by: key)
  }
}
