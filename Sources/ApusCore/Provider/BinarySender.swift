package import ApusModel
package import ApusWire

/// The peer of a binary connection: one certificate, and through it one environment and one topic.
///
/// A connection serves the topic of its certificate only. For a certificate with several topics the UID counts,
/// because the interface has no field to name another.
package struct BinarySender: Sendable {
  package let environment: Environment
  package let rules: BinaryRules
  /// Nil for a certificate without a topic.
  private let certificate: CertificateCredential?
  private var topic: ResolvedTopic?
  /// Why the last examination of the certificate found no topic.
  private var topicExplanation = Explanation.certificateTopicMissing
  /// The limits on frames: the rules, and the size of VoIP pushes.
  package let frameLimits: BinaryFrameLimits
  private var generation: UInt64 = 0

  /// - Throws: why to close the connection at once, without a packet. As with APNs, a certificate for the other
  ///   environment passes the handshake, and then the server closes. A certificate without a usable topic is rejected
  ///   with status 3 at the first notification.
  package init(
    certificate: CertificateCredential?, environment: Environment, rules: BinaryRules,
    directory: Directory
  ) throws(Refusal) {
    self.init(unexamined: certificate, environment: environment, rules: rules)
    try examine(directory: directory)
  }

  /// A provider whose certificate is not examined, for the development service, which accepts any.
  package init(
    unexamined certificate: CertificateCredential?, environment: Environment, rules: BinaryRules
  ) {
    self.environment = environment
    self.rules = rules
    self.certificate = certificate
    let isVoIP = certificate?.defaultTopic.span.endsWith(TopicSuffix.voip.text) ?? false
    frameLimits = BinaryFrameLimits(
      simplePayloadBytes: isVoIP ? rules.voipPayloadBytes : rules.simplePayloadBytes,
      framedPayloadBytes: isVoIP ? rules.voipPayloadBytes : rules.framedPayloadBytes,
      skipsUnknownItems: rules.skipsUnknownItems)
  }

  /// Identifies the sender: its certificate, and the environment.
  package var digest: RelayDigest {
    guard let certificate else { return RelayDigest(high: 0, low: UInt64(environment.rawValue)) }
    let bytes = certificate.fingerprint.bytes
    let (high, low) = (bytes.span.eightBytes(at: 0), bytes.span.eightBytes(at: 8))
    return RelayDigest(high: high, low: low ^ UInt64(environment.rawValue))
  }

  /// The topic that the certificate names, registered or not.
  package var topicText: [UInt8]? { certificate?.defaultTopic }

  /// The same resolved in a directory, for the development service; nil if it has no such app.
  package func namedTopic(in directory: Directory) -> TopicKey? {
    topicText.flatMap { directory.resolve($0.span)?.key }
  }

  /// The topic of everything on the connection.
  package func requiredTopic() throws(Refusal) -> ResolvedTopic {
    guard let topic else { throw Refusal(topicExplanation) }
    return topic
  }

  /// The last Unix second in which the certificate is valid; nil without a certificate that names a topic.
  package var notAfterSeconds: Int64? { certificate?.notAfterSeconds }

  /// Examines the certificate again, after a change of the directory or of the time. Use the clock by which handshakes
  /// judge certificates.
  package mutating func reexamine(directory: Directory, nowSeconds: Int64) throws(Refusal) {
    try examine(directory: directory)
    if let certificate, nowSeconds > certificate.notAfterSeconds {
      throw Refusal(.certificateExpired)
    }
  }

  private mutating func examine(directory: Directory) throws(Refusal) {
    guard let certificate else { return }
    if let fault = directory.fault(of: certificate, in: environment) { throw Refusal(fault) }
    guard generation != directory.generation else { return }
    generation = directory.generation
    topic = directory.resolve(certificate.defaultTopic.span)
    if let topic, topic.team != certificate.team {
      topicExplanation = .topicOfOtherTeam(
        topic: topic.key, owner: topic.team, team: certificate.team)
      self.topic = nil
    } else if topic == nil {
      topicExplanation = .topicUnknown
    }
  }
}
