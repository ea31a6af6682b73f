import ApusCommand
import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust
import ApusWire

/// `apus cert`
struct CertificateCommand {
  let invocation: Invocation
  let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    if let remote = try AdminRemote(invocation) { return try remote.certificate() }
    if let certificate = invocation[TrustOptions.certificateToRevoke] {
      return try revoke(certificate)
    }
    let requests = RequestCommand(user)
    if try requests.importCertificate() { return }
    if invocation.isGiven(TrustOptions.serverNames) {
      return try requests.server(invocation.all(TrustOptions.serverNames))
    }
    let directory = user.directory
    let topic: String
    if let given = invocation[ApusOptions.certifiedTopic] {
      topic = given
    } else {
      topic = try user.only("app", for: ApusOptions.certifiedTopic).name
    }
    let team = try team(of: topic, in: directory)
    let environments = invocation.value(ApusOptions.environment)
    if try requests.provider(
      topic: topic, team: team, extraTopics: topics(topic), environments: environments)
    {
      return
    }
    let identity = try user.attempt {
      try directory.issueProvider(
        topic: topic, team: team, extraTopics: topics(topic), environments: environments,
        commonName: invocation[TrustOptions.commonName],
        rsaBits: invocation[ApusOptions.certificateRSABits], nowSeconds: Process.nowSeconds,
        days: invocation.value(ApusOptions.certificateDays))
    }
    user.record(
      .certificateIssued,
      "provider of \(topic), certificate \(identity.certificate.fingerprint.hex)")
    Report(
      fields: [
        "certificate_file": .string(identity.certificateFile),
        "key_file": .string(identity.keyFile),
        "pem_file": identity.pemFile.map { .string($0) }, "topic": .string(topic),
        "team": .string(team.text),
        "authority_file": .string(directory.clientAuthorityFile),
        "sha256": .string(identity.certificate.fingerprint.hex),
      ],
      text: "Issued a certificate to a provider of \(topic).\n"
        + table([
          "certificate": identity.certificateFile, "key": identity.keyFile,
          "both in one": identity.pemFile ?? "",
          "authority": directory.clientAuthorityFile,
          "SHA-256": identity.certificate.fingerprint.hex,
        ])
    ).print(invocation)
  }

  /// Revokes a certificate, given as a file or as its SHA-256.
  private func revoke(_ given: String) throws(CommandFailure) {
    let fingerprint: SHA256Digest = try user.attempt {
      if let digest = SHA256Digest(hex: given) { return digest }
      return try Certificate(pem: Files.readText(given)).fingerprint
    }
    try user.attempt { try user.directory.revokeCertificate(fingerprint) }
    user.record(.certificateRevoked, "certificate \(fingerprint.hex)")
    Report(
      fields: ["revoked": .string(fingerprint.hex)],
      text: """
        Revoked the certificate \(fingerprint.hex).
        A running service closes its connections within a second.

        """
    ).print(invocation)
  }

  /// The topics extension, which also lists the certificate's own topic; nil without extra topics.
  private func topics(_ topic: String) -> TopicsExtension? {
    let extra = invocation.all(ApusOptions.extraTopic)
    if extra.isEmpty { return nil }
    var entries = [TopicsExtension.Entry(topic: topic, labels: ["app"])]
    for labelled in extra {
      if let index = entries.firstIndex(where: { $0.topic == labelled.topic }) {
        if !entries[index].labels.contains(labelled.label) {
          entries[index].labels.append(labelled.label)
        }
      } else {
        entries.append(.init(topic: labelled.topic, labels: [labelled.label]))
      }
    }
    return TopicsExtension(entries: entries)
  }

  private func team(
    of topic: String, in directory: DataDirectory
  ) throws(CommandFailure) -> ShortID {
    let apps = try user.sections("app")
    guard let app = apps.first(where: { $0.name == topic }) else {
      let known = apps.map(\.name).joined(separator: ", ")
      throw invocation.failure(
        .configuration, about: ApusOptions.certifiedTopic, "the service has no app \"\(topic)\"",
        remedy: "Its apps are: \(known). \(directory.directoryFile) lists them.")
    }
    guard let team = app["team"].flatMap(ShortID.init) else {
      throw CommandFailure(
        .configuration, "\(directory.directoryFile), line \(app.line): the app has no team")
    }
    return team
  }
}
