package import ApusModel

/// The content of a provider's certificate to be issued.
package struct ProviderCertificateRequest: Sendable {
  package var bundleID: String
  /// OU.
  package var teamID: String
  package var country: String
  package var commonName: String
  /// Where it may push. Both environments make a universal certificate.
  package var environments: EnvironmentSet
  /// The topics of extension 6.3.6; without it the bundle id is the only topic.
  package var topics: TopicsExtension?
  /// The topics of extension 6.3.4.
  package var voipTopics: TopicsExtension?
  package var publicKey: PublicKey
  package var validity: Validity

  /// - Parameter commonName: Defaults to `Apus Push Services: <bundle id>`.
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

/// A certificate authority, which signs with ECDSA or RSA over SHA-256.
///
/// A service has two, one for servers and providers and one for devices, so that each listener accepts only its own
/// kind.
package struct CertificateAuthority: Sendable {
  /// O in certificates for providers and for devices, so that people can distinguish them.
  package static let providerOrganization = "Apus Providers"
  package static let deviceOrganization = "Apus Devices"

  package let certificate: Certificate
  package let key: PrivateKey

  /// Loads an existing authority.
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

  /// A new self-signed authority, for issuing certificates and for cross-signing its successor.
  ///
  /// - Parameter key: Its key; nil for a new one on P-256.
  package static func create(
    commonName: String, key: PrivateKey? = nil, validity: Validity
  ) throws(TrustFault) -> CertificateAuthority {
    let key = if let key { key } else { try PrivateKey.generateP256() }
    let subject = Certificate.Subject(commonName: commonName)
    let keyID = try CertificateTemplate.keyID(of: key.publicKey)
    // One authority may be below it: its successor, while peers that know only this one learn of the other.
    let template = try Self.template(
      subject: subject, publicKey: key.publicKey, pathLength: 1, authorityKeyID: keyID,
      validity: validity)
    let certificate = try template.signed(issuer: CertificateTemplate.name(subject), by: key)
    return try CertificateAuthority(certificate: certificate, key: key)
  }

  /// The certificate of another authority, signed by this one: peers that trust this one then trust certificates of
  /// the other.
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

  /// Issues a certificate for a server with these `names`: DNS names, which may begin with `*.`, and IP addresses.
  package func issueServer(
    names: [String], publicKey: PublicKey, validity: Validity
  ) throws(TrustFault) -> Certificate {
    try issue(.server(names: names, publicKey: publicKey, validity: validity))
  }

  /// Issues a certificate for a node of a cluster, which is a server and a client.
  package func issueNode(
    name: String, publicKey: PublicKey, validity: Validity
  ) throws(TrustFault) -> Certificate {
    try issue(.node(name: name, publicKey: publicKey, validity: validity))
  }

  /// Issues a provider's certificate, with Apple's extensions of push certificates.
  package func issueProvider(
    _ request: ProviderCertificateRequest
  ) throws(TrustFault) -> Certificate {
    try issue(.provider(request))
  }

  /// Issues a device's certificate; its id becomes the subject's UID.
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
