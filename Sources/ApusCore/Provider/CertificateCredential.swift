package import ApusModel

/// What a provider's certificate permits, as read from it at the handshake.
///
/// Topics are kept as text and resolved again in each ``Directory``.
package struct CertificateCredential: Sendable {
  /// The UID of the subject: the topic of requests without one.
  package var defaultTopic: [UInt8]
  /// The UID, and the topics of extensions 1.2.840.113635.100.6.3.6 and 6.3.4.
  package var topics: [[UInt8]]
  /// Whether extension 6.3.6 names more than one topic: then every request must name its own.
  package var listsSeveralTopics: Bool
  /// Extensions 6.3.1 (development) and 6.3.2 (production).
  package var environments: EnvironmentSet
  /// The OU of the subject.
  package var team: ShortID
  package var fingerprint: CertificateFingerprint
  /// The SHA-256 of issuer and serial number, as revocation lists identify it.
  package var place: CertificateFingerprint
  /// The authorities that may have issued it: the one that did, or all trusted ones if unknown. As in
  /// ``Directory/authorities``.
  package var authorities: [UInt64]
  /// The last Unix second in which it is valid.
  package var notAfterSeconds: Int64

  /// `listedTopics` are those of the extensions; the default topic is always allowed.
  package init(
    defaultTopic: [UInt8], listedTopics: [[UInt8]], listsSeveralTopics: Bool,
    environments: EnvironmentSet, team: ShortID, fingerprint: CertificateFingerprint,
    place: CertificateFingerprint, authorities: [UInt64], notAfterSeconds: Int64
  ) {
    self.defaultTopic = defaultTopic
    topics = listedTopics.contains(defaultTopic) ? listedTopics : [defaultTopic] + listedTopics
    self.listsSeveralTopics = listsSeveralTopics
    self.environments = environments
    self.team = team
    self.fingerprint = fingerprint
    self.place = place
    self.authorities = authorities
    self.notAfterSeconds = notAfterSeconds
  }
}
