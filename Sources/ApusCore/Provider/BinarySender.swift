package import ApusModel
package import ApusWire

/// Who is at the other end of a binary connection: one certificate, and by it one environment and one topic.
///
/// "One connection serves exactly one topic: the one in the certificate." A certificate for several topics counts by
/// its UID here, as the interface has no place to name another.
package struct BinarySender: Sendable {
  package let environment: Environment
  package let rules: BinaryRules
  /// Nil for a certificate that names no topic.
  private let certificate: CertificateCredential?
  private var topic: ResolvedTopic?
  /// Where the first look at the certificate went wrong, or the last one.
  private var topicExplanation = Explanation.certificateTopicMissing
  /// What frames are held to: the rules, and the size that VoIP pushes may have.
  package let frameLimits: BinaryFrameLimits
  private var generation: UInt64 = 0

  /// - Throws: why the connection is to be closed at once, without a packet: "Wrong-environment certificate: the
  ///   handshake succeeds, then the server closes." A certificate without a usable topic is refused with status 3 at
  ///   the first notification.
  package init(
    certificate: CertificateCredential?, environment: Environment, rules: BinaryRules,
    directory: Directory
  ) throws(Refusal) {
    self.init(unexamined: certificate, environment: environment, rules: rules)
    try examine(directory: directory)
  }

  /// A sender whose certificate is not looked at, for a stand-in that takes any.
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

  /// The topic that the certificate names, whoever has it.
  package var topicText: [UInt8]? { certificate?.defaultTopic }

  /// The same as a directory has it, for a stand-in; nil where no app there is meant.
  package func namedTopic(in directory: Directory) -> TopicKey? {
    topicText.flatMap { directory.resolve($0.span)?.key }
  }

  /// The topic that everything on the connection is about.
  package func requiredTopic() throws(Refusal) -> ResolvedTopic {
    guard let topic else { throw Refusal(topicExplanation) }
    return topic
  }

  /// The last second in which the certificate is valid, Unix seconds; nil where there is none that names a topic.
  package var notAfterSeconds: Int64? { certificate?.notAfterSeconds }

  /// Looks at the certificate again, under another directory or at a later time: that by which handshakes judge
  /// certificates.
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
