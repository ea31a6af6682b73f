import ApusCommand
import ApusCore
import ApusDirectory
import ApusEnrolment
import ApusModel
import ApusTrust
import ApusWire

/// `apus cert` and `apus device` with key and authority in different places: `--request`, `--csr-out`, `--import`.
struct RequestCommand {
  let user: Operator
  private var invocation: Invocation { user.invocation }
  private var directory: DataDirectory { user.directory }

  init(_ user: Operator) { self.user = user }

  // MARK: A key made elsewhere

  /// False where the command is about a key that is made here.
  func provider(
    topic: String, team: ShortID, extraTopics: TopicsExtension?, environments: EnvironmentSet
  ) throws(CommandFailure) -> Bool {
    func wanted(_ key: PublicKey) -> ProviderCertificateRequest {
      ProviderCertificateRequest(
        bundleID: topic, teamID: team.text, commonName: invocation[TrustOptions.commonName],
        environments: environments, topics: extraTopics, publicKey: key,
        validity: Validity(
          now: Process.nowSeconds, days: invocation.value(ApusOptions.certificateDays)))
    }
    if let request = try request(besides: ApusOptions.certificateRSABits) {
      let certificate = try user.attempt {
        try directory.issuer(.service).issueProvider(wanted(request.publicKey))
      }
      try hand(certificate, name: topic, "provider of \(topic)", [("topic", topic)])
      return true
    }
    guard let file = invocation[TrustOptions.requestOut] else { return false }
    let placeholder = try user.attempt { try PrivateKey.generateP256().publicKey }
    try ask(
      .provider(wanted(placeholder)), name: topic, rsaBits: ApusOptions.certificateRSABits,
      file, "a provider of \(topic)")
    return true
  }

  func server(_ names: [String]) throws(CommandFailure) {
    if let file = invocation[TrustOptions.requestOut] {
      return try ask(
        .server(names: names), name: names[0], rsaBits: ApusOptions.certificateRSABits, file,
        "the server \(names[0])")
    }
    guard let request = try request(besides: ApusOptions.certificateRSABits) else {
      throw invocation.failure(
        about: TrustOptions.serverNames, "it needs --request",
        remedy: "Let the server make its key and a request, and give the request.")
    }
    let certificate = try user.attempt {
      try directory.issuer(.service).issueServer(
        names: names, publicKey: request.publicKey,
        validity: Validity(
          now: Process.nowSeconds, days: invocation.value(ApusOptions.certificateDays)))
    }
    try hand(certificate, name: names[0], "server \(names.joined(separator: ", "))", [])
  }

  /// The device's id; nil where the command is about a key that is made here.
  func device(name: String) throws(CommandFailure) -> DeviceID? {
    let device = DeviceID(randomID().high)
    if let request = try request(besides: DeviceOptions.rsaBits) {
      let certificate = try user.attempt {
        _ = try directory.issuer(.devices)
        return try directory.issueDevice(
          device, name: name, to: request.publicKey, nowSeconds: Process.nowSeconds,
          days: invocation.value(DeviceOptions.days))
      }
      try hand(
        certificate, name: "device-\(device.text)", "device \(device.text)",
        [("device_id", device.text)])
      return device
    }
    guard let file = invocation[TrustOptions.requestOut] else { return nil }
    try ask(
      .device(device, name: name), name: "device-\(device.text)", rsaBits: DeviceOptions.rsaBits,
      file, "the device \(device.text)")
    return device
  }

  /// The given request, with its signature checked; nil if none is given.
  ///
  /// - Parameter rsaBits: An option that cannot be combined with it.
  private func request(
    besides rsaBits: Option<Int>
  ) throws(CommandFailure) -> CertificateRequest? {
    guard let path = invocation[TrustOptions.request] else { return nil }
    for (isGiven, flag) in [
      (invocation.isGiven(rsaBits), rsaBits.description.flag),
      (invocation.isGiven(TrustOptions.requestOut), TrustOptions.requestOut.description.flag),
    ] where isGiven {
      throw invocation.failure(
        about: TrustOptions.request, "it cannot be combined with \(flag)",
        remedy: "The request contains the key. Leave one of them out.")
    }
    do {
      return try CertificateRequest(file: Files.read(path))
    } catch {
      throw invocation.failure(.configuration, about: TrustOptions.request, "\(path): \(error)")
    }
  }

  /// Stores the certificate, and prints it.
  private func hand(
    _ certificate: Certificate, name: String, _ subject: String, _ facts: [(String, String)]
  ) throws(CommandFailure) {
    let file = try user.attempt { try directory.save(certificate, name: name) }
    user.record(.certificateIssued, "\(subject), certificate \(certificate.fingerprint.hex)")
    let members =
      [("certificate_file", file)] + facts + [
        ("authority_file", directory.clientAuthorityFile), ("sha256", certificate.fingerprint.hex),
      ]
    guard !invocation.isOn(ApusOptions.json) else {
      return Output.json(
        .object(JSONObject(members.map { .init(key: $0.0, value: .string($0.1)) })))
    }
    Output.diagnostic(
      "Issued a certificate to the \(subject).\n"
        + table(members.map { (key: $0.0.replacing("_", with: " "), value: $0.1) }))
    Output.standard(certificate.pem)
  }

  // MARK: An external authority

  private func ask(
    _ what: RequestedCertificate, name: String, rsaBits: Option<Int>, _ file: String,
    _ subject: String
  ) throws(CommandFailure) {
    let keyFile = try user.attempt {
      let (pem, keyFile) = try directory.requestCertificate(
        what, name: name, rsaBits: invocation[rsaBits])
      try Files.write(pem, to: file, isPrivate: false)
      return keyFile
    }
    Report(
      fields: ["request_file": .string(file), "key_file": .string(keyFile)],
      text:
        "Made a request for \(subject). Have the authority sign it, then: apus cert --import FILE\n"
        + table(["request": file, "key": keyFile])
    ).print(invocation)
  }

  /// False where the command is about something else.
  func importCertificate() throws(CommandFailure) -> Bool {
    guard let path = invocation[TrustOptions.certificateToImport] else { return false }
    let pem = try Process.text(of: path, for: TrustOptions.certificateToImport, invocation)
    let imported = try user.attempt {
      try directory.importCertificate(pem: pem, nowSeconds: Process.nowSeconds)
    }
    let digest = imported.certificate.fingerprint.hex
    user.record(
      .certificateImported,
      imported.isOwn ? "server, certificate \(digest)" : "certificate \(digest)")
    Report(
      fields: [
        "certificate_file": .string(imported.certificateFile),
        "key_file": .string(imported.keyFile), "sha256": .string(digest),
      ],
      text: "Imported the certificate"
        + (imported.isOwn ? "; a running service uses it within a second.\n" : ".\n")
        + table([
          "certificate": imported.certificateFile, "key": imported.keyFile, "SHA-256": digest,
        ])
    ).print(invocation)
    return true
  }
}
