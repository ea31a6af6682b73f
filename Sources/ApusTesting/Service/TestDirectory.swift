package import ApusCore
package import ApusDirectory
import ApusLoop
package import ApusModel
package import ApusTLS
package import ApusTrust
import ApusWire

/// A temporary data directory with credentials for both sides of each rule.
///
/// Two teams. The first has the apps `topic` and `otherTopic`, a key for each environment, and keys for single topics;
/// the second has `foreignTopic` and a key.
package final class TestDirectory: Sendable {
  package static let topic = "com.example.app"
  package static let otherTopic = "com.example.other"
  package static let foreignTopic = "com.example.foreign"
  /// Belongs to no app of the service.
  package static let unknownTopic = "com.example.unknown"

  package let data: DataDirectory
  package let team: ShortID
  package let foreignTeam: ShortID
  /// Team-scoped, of `team`, valid in both environments.
  package let key: ProviderKeyPair
  package let productionKey: ProviderKeyPair
  package let developmentKey: ProviderKeyPair
  /// For `topic` only; `relatedKey` may share a connection with it.
  package let topicKey: ProviderKeyPair
  package let relatedKey: ProviderKeyPair
  /// For `otherTopic` only, not related to the other keys.
  package let unrelatedKey: ProviderKeyPair
  package let revokedKey: ProviderKeyPair
  package let foreignKey: ProviderKeyPair
  /// In no directory.
  package let unknownKey: ProviderKeyPair

  /// Issues certificates for servers and providers.
  package let serviceAuthority: CertificateAuthority
  package let deviceAuthority: CertificateAuthority
  /// An authority that the service does not know.
  package let foreignAuthority: CertificateAuthority
  package let sealingKeys: TokenSealingKeys
  private let temporary: TemporaryDirectory

  package init() throws {
    let temporary = TemporaryDirectory()
    let data = DataDirectory(path: "\(temporary.path)/data")
    let now = Self.nowSeconds
    try Files.makeDirectory(data.path)
    let made = try data.initialize(
      names: ["localhost", "127.0.0.1", "::1"], topic: Self.topic, teamName: "Example",
      nowSeconds: now, rsaKey: { try Self.rsaKey.get() })
    let key = ProviderKeyPair(
      id: made.keyID, team: made.teamID,
      key: try PrivateKey(pem: Files.readText(data.privateKey(made.keyID))))
    let foreignTeam = Self.id("FOREIGN001")
    func pair(_ id: String, _ team: ShortID = made.teamID) throws -> ProviderKeyPair {
      ProviderKeyPair(id: Self.id(id), team: team, key: try .generateP256())
    }
    productionKey = try pair("PRODUCTION")
    developmentKey = try pair("DEVELOPMEN")
    topicKey = try pair("TOPICKEY01")
    relatedKey = try pair("TOPICKEY02")
    unrelatedKey = try pair("TOPICKEY03")
    revokedKey = try pair("REVOKED001")
    foreignKey = try pair("FOREIGNKEY", foreignTeam)
    unknownKey = try pair("UNKNOWNKEY")
    (self.temporary, self.data, self.key) = (temporary, data, key)
    (team, self.foreignTeam) = (made.teamID, foreignTeam)
    serviceAuthority = try data.authority(.service)
    deviceAuthority = try data.authority(.devices)
    foreignAuthority = try .create(
      commonName: "Somebody else", validity: Validity(now: now, days: 10))
    sealingKeys = try data.sealingKeys()
    try addRecords()
    _ = try data.trust(generation: 1, allowsES512: false)
  }

  /// Shared by all directories, because generating one takes up to a second.
  private static let rsaKey = Result { try DataDirectory.makeRSAKey() }

  private func addRecords() throws {
    var records = try data.records()
    let team = ("team", team.text)
    records.sections += [
      .init(kind: "team", name: foreignTeam.text, values: [("name", "Foreign")]),
      .init(kind: "app", name: Self.otherTopic, values: [("id", "2"), team]),
      .init(
        kind: "app", name: Self.foreignTopic, values: [("id", "3"), ("team", foreignTeam.text)]),
    ]
    let keys: [(ProviderKeyPair, [(String, String)])] = [
      (productionKey, [("environments", "production")]),
      (developmentKey, [("environments", "development")]),
      (topicKey, [("topics", Self.topic), ("related", relatedKey.id.text)]),
      (relatedKey, [("topics", Self.topic)]),
      (unrelatedKey, [("topics", Self.otherTopic)]),
      (revokedKey, [("revoked", "yes")]),
      (foreignKey, []),
    ]
    for (pair, values) in keys {
      records.sections.append(
        .init(kind: "key", name: pair.id.text, values: [("team", pair.team.text)] + values))
      try Files.write(
        pair.key.publicKey.spkiPEM, to: data.publicKey(pair.id), isPrivate: false)
    }
    try data.save(records)
  }

  private static func id(_ text: String) -> ShortID {
    guard let id = ShortID(text) else { preconditionFailure("\(text) does not have ten letters") }
    return id
  }

  package static var nowSeconds: Int64 { EventLoop.wallClockMilliseconds() / 1000 }

  // MARK: Certificates

  /// A provider's certificate with its key. `validity` nil: one day.
  package func providerIdentity(
    topic: String = topic, topics: TopicsExtension? = nil, environments: EnvironmentSet = .both,
    validity: Validity? = nil, authority: CertificateAuthority? = nil
  ) throws -> TLSIdentity {
    let key = try PrivateKey.generateP256()
    let certificate = try (authority ?? serviceAuthority).issueProvider(
      ProviderCertificateRequest(
        bundleID: topic, teamID: team.text, environments: environments, topics: topics,
        publicKey: key.publicKey, validity: validity ?? Validity(now: Self.nowSeconds, days: 1)))
    return TLSIdentity(certificate, key)
  }

  /// Longer than any topic: a certificate with it has no topic.
  package static let unusableTopic = String(repeating: "a", count: Limits.topicBytes + 1)

  /// Adds the certificate to the revocation list; a running service must reload.
  package func revoke(_ identity: TLSIdentity) throws {
    let pem = String(decoding: identity.certificateChainPEM, as: UTF8.self)
    let fingerprint = try Certificate(pem: pem).fingerprint.bytes
    var records = try data.records()
    records.sections.append(
      .init(
        kind: "revoked", name: String(decoding: Hex.encode(fingerprint.span), as: UTF8.self)))
    try data.save(records)
  }

  /// From two days ago to one day ago.
  package static var expired: Validity {
    Validity(notBefore: nowSeconds - 2 * 86_400, notAfter: nowSeconds - 86_400)
  }

  /// A list of topics without labels, which violates the form of the extension.
  package static let brokenTopics = TopicsExtension(entries: [.init(topic: topic, labels: [])])

  /// A device with a P-256 key, or an RSA key of `rsaBits`.
  package func device(
    rsaBits: Int? = nil, validity: Validity? = nil, authority: CertificateAuthority? = nil
  ) throws -> TestDevice {
    let key = try rsaBits.map { try PrivateKey.generateRSA(bits: $0) } ?? .generateP256()
    return try device(key: key, validity: validity, authority: authority)
  }

  /// A device with an existing key, since generating RSA keys is slow.
  package func device(
    key: PrivateKey, validity: Validity? = nil, authority: CertificateAuthority? = nil
  ) throws -> TestDevice {
    let id = DeviceID(randomID().high)
    let certificate = try (authority ?? deviceAuthority).issueDevice(
      deviceID: id, name: "test device", publicKey: key.publicKey,
      validity: validity ?? Validity(now: Self.nowSeconds, days: 1))
    return TestDevice(id: id, key: key, certificate: certificate)
  }

  // MARK: Device tokens

  /// The token for an app on a device as the service issues it, even if the device never requested it.
  package func deviceToken(
    _ device: DeviceID, app: UInt32 = 1, suffix: TopicSuffix = .none,
    environment: Environment = .production, generation: UInt16 = 1
  ) -> DeviceToken {
    TokenSealer(sealingKeys).seal(
      TokenClaims(
        device: device, topic: TopicKey(app: AppID(app), suffix: suffix),
        environment: environment, generation: generation))
  }

  /// The token of the device itself.
  package func baseToken(
    _ device: DeviceID, environment: Environment = .production
  ) -> DeviceToken {
    deviceToken(device, app: AppID.base.rawValue, environment: environment, generation: 0)
  }
}

/// A device with an issued certificate.
package struct TestDevice: Sendable {
  package var id: DeviceID
  package var key: PrivateKey
  package var certificate: Certificate

  package init(id: DeviceID, key: PrivateKey, certificate: Certificate) {
    self.id = id
    self.key = key
    self.certificate = certificate
  }

  package var identity: TLSIdentity { TLSIdentity(certificate, key) }
}

extension TLSIdentity {
  package init(_ certificate: Certificate, _ key: PrivateKey) {
    self.init(
      certificateChainPEM: Array(certificate.pem.utf8), privateKeyPEM: Array(key.pkcs8PEM.utf8))
  }
}
