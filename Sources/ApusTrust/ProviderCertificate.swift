package import ApusModel

/// Why a certificate is not a push certificate.
package enum ProviderCertificateFault: Error, Sendable, Hashable {
  /// It names neither environment: it was issued for another purpose.
  case notForPush
  /// The subject has no UID, hence no topic, or one too long for a topic.
  case noTopic
  /// An extension occurs twice, or its environment marker is not NULL.
  case malformedExtension
  case topics(TopicsExtensionFault)
}

/// What a certificate permits a provider.
///
/// Source: "Sending notification requests to APNs" (`apns-topic`) and "Establishing a certificate-based connection to
/// APNs"; the extensions are those of issued certificates. This only parses; the caller must have verified the chain.
package struct ProviderCertificate: Sendable, Hashable {
  package let certificate: Certificate
  /// The subject's UID: the topic of requests without one, if it is the only one.
  package let defaultTopic: String
  /// The default topic first, then those of 6.3.6 and 6.3.4, without duplicates.
  package let topics: [String]
  /// Both for a universal certificate.
  package let environments: EnvironmentSet
  /// OU.
  package let teamID: String?

  /// Whether a request must name its topic.
  package var listsSeveralTopics: Bool { topics.count > 1 }

  package init(_ certificate: Certificate) throws(ProviderCertificateFault) {
    var environments: EnvironmentSet = []
    if try Self.isMarked(certificate, .pushDevelopment) { environments.insert(.development) }
    if try Self.isMarked(certificate, .pushProduction) { environments.insert(.production) }
    guard !environments.isEmpty else { throw .notForPush }
    guard let topic = certificate.subject.userID,
      (1...Limits.topicBytes).contains(topic.utf8.count)
    else { throw .noTopic }
    var topics = [topic]
    var seen: Set<String> = [topic]
    for oid in [OID.pushTopics, .pushVoIP] {
      for entry in try Self.entries(certificate, oid) where seen.insert(entry.topic).inserted {
        topics.append(entry.topic)
      }
    }
    self.certificate = certificate
    self.environments = environments
    self.topics = topics
    defaultTopic = topic
    teamID = certificate.subject.organizationalUnit
  }

  package func covers(_ topic: String) -> Bool { topics.contains(topic) }

  private static func isMarked(
    _ certificate: Certificate, _ oid: OID
  ) throws(ProviderCertificateFault) -> Bool {
    guard let value = try single(certificate, oid) else { return false }
    guard value == DER.null else { throw .malformedExtension }
    return true
  }

  private static func entries(
    _ certificate: Certificate, _ oid: OID
  ) throws(ProviderCertificateFault) -> [TopicsExtension.Entry] {
    // A bare NULL marks a VoIP certificate whose topic is the UID.
    guard let value = try single(certificate, oid), value != DER.null else { return [] }
    do {
      return try TopicsExtension.parse(value.span).entries
    } catch {
      throw .topics(error)
    }
  }

  private static func single(
    _ certificate: Certificate, _ oid: OID
  ) throws(ProviderCertificateFault) -> [UInt8]? {
    let values = certificate.values(of: oid)
    guard values.count <= 1 else { throw .malformedExtension }
    return values.first
  }
}
