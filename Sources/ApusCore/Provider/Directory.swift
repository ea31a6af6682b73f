package import ApusModel
package import ApusWire

/// Who may push what: teams, provider keys, apps and revocations at one moment.
///
/// Immutable: a change builds a new directory of a higher generation, which replaces the old one as a whole
/// (``DirectoryBuilder``). Decisions made under an older generation are made again.
package final class Directory: Sendable {
  /// Rises with every snapshot.
  package let generation: UInt64
  package let teams: [Team]
  package let keys: [ProviderKey]
  package let apps: [App]
  /// The authorities whose certificates providers may use, each as a number derived from its name and key.
  package let authorities: Set<UInt64>

  private let keyPlaces: [ShortID: Int]
  private let appPlaces: [AppID: Int]
  private let bundles: BundleTable
  private let topics: [TopicHash: TopicKey]
  private let topicHashes: [TopicKey: TopicHash]
  private let revokedCertificates: Set<CertificateFingerprint>
  /// The apps that may have more than one notification stored per device, and how many.
  package let retentions: [AppID: Int]
  /// Retired devices, each with its time of retirement in Unix milliseconds.
  package let retirements: [DeviceID: Int64]

  /// Takes records that ``DirectoryBuilder`` has checked for contradictions.
  init(
    checked records: DirectoryBuilder, generation: UInt64, sha1: (Span<UInt8>) -> TopicHash
  ) {
    self.generation = generation
    teams = records.teams
    keys = records.keys.map { key in
      var key = key
      key.topics?.sort { $0.rawValue < $1.rawValue }
      return key
    }
    apps = records.apps
    keyPlaces = Dictionary(
      uniqueKeysWithValues: records.keys.enumerated().map { ($1.id, $0) })
    appPlaces = Dictionary(
      uniqueKeysWithValues: records.apps.enumerated().map { ($1.id, $0) })
    bundles = BundleTable(records.apps.map(\.bundleID))
    revokedCertificates = Set(records.revokedCertificates)
    authorities = Set(records.authorities)
    retirements = Dictionary(
      uniqueKeysWithValues: records.retiredDevices.map { ($0.id, $0.sinceSeconds * 1000) })
    retentions = Dictionary(
      uniqueKeysWithValues: records.apps.filter { $0.retention > 1 }.map { ($0.id, $0.retention) })
    var topics: [TopicHash: TopicKey] = [:]
    var topicHashes: [TopicKey: TopicHash] = [:]
    for app in records.apps {
      for suffix in TopicSuffix.allCases {
        let text = app.bundleID + suffix.text.bytes
        // A bundle id may end in a suffix: the registered bundle id has precedence.
        if suffix != .none && bundles.place(of: text.span) != nil { continue }
        let key = TopicKey(app: app.id, suffix: suffix)
        let hash = sha1(text.span)
        topics[hash] = key
        topicHashes[key] = hash
      }
    }
    self.topics = topics
    self.topicHashes = topicHashes
  }

  /// The key with that id, revoked or not.
  package func key(_ id: ShortID) -> ProviderKey? {
    keyPlaces[id].map { keys[$0] }
  }

  /// The key to verify a token's signature with: registered, the issuer's, not revoked.
  ///
  /// Checked before the signature, which is the expensive part.
  package func verificationKey(
    _ id: ShortID, issuer: ShortID
  ) throws(Refusal) -> ProviderKey {
    guard let key = key(id) else { throw Refusal(.unknownKey(id)) }
    guard key.team == issuer else {
      throw Refusal(.keyOfOtherTeam(key: id, owner: key.team, issuer: issuer))
    }
    guard !key.isRevoked else { throw Refusal(.revokedKey(id)) }
    return key
  }

  /// Whether the key covers the app. A team-scoped key covers every app of its team.
  func covers(_ app: AppID, key id: ShortID) -> Bool {
    guard let place = keyPlaces[id] else { return false }
    guard let topics = keys[place].topics else { return true }
    var low = 0
    var high = topics.count
    while low < high {
      let middle = (low + high) / 2
      if topics[middle].rawValue < app.rawValue { low = middle + 1 } else { high = middle }
    }
    return low < topics.count && topics[low] == app
  }

  /// The app with that bundle id. Allocates nothing.
  package func app(bundleID: Span<UInt8>) -> App? {
    bundles.place(of: bundleID).map { apps[$0] }
  }

  package func app(_ id: AppID) -> App? {
    appPlaces[id].map { apps[$0] }
  }

  /// The topic whose text has that SHA-1, as in a device's filter.
  package func topic(_ hash: TopicHash) -> TopicKey? { topics[hash] }

  /// The SHA-1 of the topic's text; nil for an unregistered app, and for a topic whose text is the bundle id of
  /// another app.
  package func topicHash(of topic: TopicKey) -> TopicHash? { topicHashes[topic] }

  /// The topic as in a header field: bundle id and suffix.
  package func topicText(_ topic: TopicKey) -> [UInt8]? {
    app(topic.app).map { $0.bundleID + topic.suffix.text.bytes }
  }

  /// The number of revoked certificates.
  package var revokedCount: Int { revokedCertificates.count }

  /// Whether a certificate with that fingerprint was revoked.
  package func isRevoked(_ certificate: CertificateFingerprint) -> Bool {
    revokedCertificates.contains(certificate)
  }

  package func isRevoked(_ certificate: CertificateCredential) -> Bool {
    isRevoked(certificate.fingerprint) || isRevoked(certificate.place)
  }

  /// Whether it revokes a certificate that `previous` did not.
  package func revokesMore(than previous: Directory) -> Bool {
    !revokedCertificates.isSubset(of: previous.revokedCertificates)
  }

  /// Why a certificate that passed the handshake is no longer valid, or not for that environment; nil if it is. The
  /// caller checks its expiry.
  func fault(
    of certificate: CertificateCredential, in environment: Environment
  ) -> Explanation? {
    if isRevoked(certificate) { return .certificateRevoked }
    if !authorities.isSuperset(of: certificate.authorities) { return .certificateAuthority }
    return certificate.environments.contains(environment)
      ? nil : .certificateEnvironment(listener: environment)
  }

  /// The time of the device's retirement in Unix milliseconds; nil if it is not retired.
  package func retiredMilliseconds(of device: DeviceID) -> Int64? {
    retirements.isEmpty ? nil : retirements[device]
  }

  /// Resolves a topic's text; nil if no registered app has it.
  ///
  /// A registered bundle id has precedence over a shorter one with a suffix: `com.example.voip` is the app of that
  /// name if there is one, and else the VoIP topic of `com.example`.
  package func resolve(_ topic: Span<UInt8>) -> ResolvedTopic? {
    if let place = bundles.place(of: topic) { return resolved(place, suffix: .none) }
    let suffix = TopicSuffix(of: topic)
    guard suffix != .none else { return nil }
    let base = topic.extracting(0..<topic.count - suffix.text.utf8CodeUnitCount)
    return bundles.place(of: base).map { resolved($0, suffix: suffix) }
  }

  private func resolved(_ place: Int, suffix: TopicSuffix) -> ResolvedTopic {
    ResolvedTopic(
      key: TopicKey(app: apps[place].id, suffix: suffix), team: apps[place].team)
  }
}

/// A registered topic, and the team that owns its app.
package struct ResolvedTopic: Sendable, Hashable {
  package var key: TopicKey
  package var team: ShortID

  package init(key: TopicKey, team: ShortID) {
    self.key = key
    self.team = team
  }
}
