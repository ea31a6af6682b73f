package import ApusCore
package import ApusModel
package import ApusTrust

/// The result of `apus init`, for printing.
package struct ProvisionedService: Sendable {
  package var teamID: ShortID
  package var keyID: ShortID
  package var keyFile: String
  package var topic: String
  package var authorityFile: String
  package var deviceAuthorityFile: String
  package var names: [String]
  /// Requests for the service's own certificates, if the authority's key is kept elsewhere.
  package var requestFiles: [String]
}

/// A certificate with its key, as `apus cert` and `apus device add` write them.
package struct IssuedIdentity: Sendable {
  package var certificate: Certificate
  package var key: PrivateKey
  package var certificateFile: String
  package var keyFile: String
  /// Certificate and key in one file, which software for the binary interface expects; only for providers.
  package var pemFile: String?
}

extension DataDirectory {
  /// Days for which issued certificates are valid.
  ///
  /// Providers: one year, as in Apple's document Establishing a certificate-based connection to APNs. Servers and
  /// devices get longer, because they are renewed less often.
  package enum ValidityDays {
    package static let authority = 3650
    package static let server = 825
    package static let provider = 365
    package static let device = 730
  }

  /// Creates a service: authorities, server certificates, a sealing key, a team with a key, and an app.
  ///
  /// Throws if the directory already contains a service. `directory.conf` is written last, so an interrupted attempt
  /// leaves the directory unprovisioned.
  ///
  /// - Parameters:
  ///   - service, devices: Existing authorities to use instead of new ones.
  ///   - authorityName: The common name of a new service authority, at most 64 characters (RFC 5280, appendix A.1);
  ///     nil for the usual one.
  ///   - authorityRSABits: Size of the RSA key of new authorities; nil for ECDSA.
  ///   - rsaKey: Makes the key of the server certificate for old clients, which takes a tenth of a second and more; nil
  ///     for no such certificate.
  package func initialize(
    names: [String], topic: String, teamName: String, service: OutsideAuthority? = nil,
    devices: OutsideAuthority? = nil, authorityName: String? = nil, authorityRSABits: Int? = nil,
    nowSeconds: Int64, rsaKey: (() throws -> PrivateKey)? = makeRSAKey
  ) throws -> ProvisionedService {
    try Files.makeDirectory(path)
    return try changing {
      guard !isProvisioned else {
        throw DirectoryProblem("\(path) already contains a service; choose another --data")
      }
      if let interruptedRestore { throw DirectoryProblem(interruptedRestore) }
      for part in ["authority", "server", "keys", "certificates"] {
        try Files.makeDirectory("\(path)/\(part)")
      }
      try makeRevocationFolder()
      try writeFormat()
      for (which, outside) in [(Authority.service, service), (.devices, devices)] {
        if let outside {
          try adopt(outside, as: which, nowSeconds: nowSeconds)
        } else {
          let name = which == .service ? authorityName : nil
          try save(
            .create(
              commonName: name ?? which.title, key: Self.newKey(rsaBits: authorityRSABits),
              validity: Validity(now: nowSeconds, days: ValidityDays.authority)), as: which)
        }
      }
      var requests: [String] = []
      if canIssue(as: .service) {
        try issueServerCertificates(
          names: names, by: authority(.service), chain: serviceChain(), nowSeconds: nowSeconds,
          rsaKey: rsaKey)
      } else {
        requests = try requestServerCertificates(names: names)
      }
      try save(TokenSealingKeys([.random(id: 1)]))

      let team = Self.randomShortID()
      let keyID = Self.randomShortID()
      try savePrivateKey(PrivateKey.generateP256(), as: keyID)
      try save(
        SectionFile(sections: [
          .init(kind: "team", name: team.text, values: [("name", teamName)]),
          .init(
            kind: "key", name: keyID.text,
            values: [("team", team.text), ("environments", "production development")]),
          .init(kind: "app", name: topic, values: [("id", "1"), ("team", team.text)]),
        ]))
      // Check that everything written can be read.
      _ = try trust(generation: 1, allowsES512: false)
      return ProvisionedService(
        teamID: team, keyID: keyID, keyFile: privateKey(keyID), topic: topic,
        authorityFile: clientAuthorityFile,
        deviceAuthorityFile: authorityCertificate(.devices), names: names, requestFiles: requests)
    }
  }

  /// Issues an ECDSA certificate, and an RSA certificate for old clients that do not support ECDSA.
  ///
  /// - Parameters:
  ///   - chain: The certificates that lead to an authority known to clients, as PEM.
  ///   - rsaKey: Makes the key of the second; nil for none.
  func issueServerCertificates(
    names: [String], by authority: CertificateAuthority, chain: String, nowSeconds: Int64,
    rsaKey: (() throws -> PrivateKey)? = makeRSAKey
  ) throws {
    var keys = [(serverFiles, try PrivateKey.generateP256())]
    if let rsaKey { keys.append((serverRSAFiles, try rsaKey())) }
    for (files, key) in keys {
      let certificate = try authority.issueServer(
        names: names, publicKey: key.publicKey,
        validity: Validity(now: nowSeconds, days: ValidityDays.server))
      try Files.write(certificate.pem + chain, to: files.certificate, isPrivate: false)
      try Files.write(key.pkcs8PEM, to: files.key, isPrivate: true)
    }
  }

  package static func makeRSAKey() throws -> PrivateKey { try .generateRSA(bits: 2048) }

  func savePrivateKey(_ key: PrivateKey, as id: ShortID) throws {
    try Files.write(key.pkcs8PEM, to: privateKey(id), isPrivate: true)
    try Files.write(key.publicKey.spkiPEM, to: publicKey(id), isPrivate: false)
  }

  /// Ten upper-case letters and digits, like Apple's ids, without those that are easily confused (I, O, 0, 1).
  static func randomShortID() -> ShortID {
    let letters = Array("ABCDEFGHJKLMNPQRSTUVWXYZ23456789".utf8)
    let text = randomBytes(ShortID.characterCount).map { letters[Int($0) % letters.count] }
    guard let id = ShortID(text.span) else { preconditionFailure("ten letters make an id") }
    return id
  }

  /// Issues a certificate for a provider, with the topics extension.
  ///
  /// - Parameter commonName: Nil for `Apus Push Services: <topic>`.
  package func issueProvider(
    topic: String, team: ShortID, extraTopics: TopicsExtension?, environments: EnvironmentSet,
    commonName: String? = nil, rsaBits: Int? = nil, nowSeconds: Int64,
    days: Int = ValidityDays.provider
  ) throws -> IssuedIdentity {
    try changing {
      let key = try Self.newKey(rsaBits: rsaBits)
      let certificate = try issuer(.service).issueProvider(
        ProviderCertificateRequest(
          bundleID: topic, teamID: team.text, commonName: commonName, environments: environments,
          topics: extraTopics, publicKey: key.publicKey,
          validity: Validity(now: nowSeconds, days: days)))
      var identity = try save(certificate, key, name: topic)
      let pemFile = String(identity.keyFile.dropLast(".key".count)) + ".pem"
      // The certificate comes first: software that reads one PEM block takes the first.
      try Files.write(certificate.pem + key.pkcs8PEM, to: pemFile, isPrivate: true)
      identity.pemFile = pemFile
      return identity
    }
  }

  /// Issues a certificate for a device, with a random device id.
  package func issueDevice(
    name: String, rsaBits: Int? = nil, nowSeconds: Int64, days: Int = ValidityDays.device
  ) throws -> (identity: IssuedIdentity, device: DeviceID) {
    try changing {
      let key = try Self.newKey(rsaBits: rsaBits)
      let device = DeviceID(randomID().high)
      let certificate = try issuer(.devices).issueDevice(
        deviceID: device, name: name, publicKey: key.publicKey,
        validity: Validity(now: nowSeconds, days: days))
      return (try save(certificate, key, name: "device-\(device.text)"), device)
    }
  }

  /// Retires a device permanently. A running service applies it within a second.
  package func retire(_ device: DeviceID, nowSeconds: Int64) throws {
    try edit { text, records in
      for section in records.sections
      where section.kind == "retired" && DeviceID(text: section.name) == device {
        throw DirectoryProblem(
          "the device \(device.text) is already retired (\(directoryFile), line \(section.line))")
      }
      text.append(
        .init(kind: "retired", name: device.text, values: [("since", String(nowSeconds))]))
    }
  }

  private func save(
    _ certificate: Certificate, _ key: PrivateKey, name: String
  ) throws -> IssuedIdentity {
    let base = String(try save(certificate, name: name).dropLast(".crt".count))
    try Files.write(key.pkcs8PEM, to: "\(base).key", isPrivate: true)
    return IssuedIdentity(
      certificate: certificate, key: key, certificateFile: "\(base).crt",
      keyFile: "\(base).key")
  }

  /// Saves a certificate without its key, which its owner keeps, and returns the path.
  package func save(_ certificate: Certificate, name: String) throws -> String {
    try changing {
      try Files.makeDirectory(issuedPath)
      // The serial distinguishes certificates with the same name.
      let file = "\(issuedPath)/\(name)-\(certificate.serial.prefix(8)).crt"
      try Files.write(certificate.pem, to: file, isPrivate: false)
      return file
    }
  }
}
