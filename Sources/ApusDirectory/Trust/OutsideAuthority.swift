import ApusModel
package import ApusTrust

/// An authority that an operator has already, for `apus init`: an intermediate of a company's, say.
package struct OutsideAuthority: Sendable {
  /// Its certificate first, then those that it comes from, as PEM.
  package var certificatesPEM: String
  /// Its key; nil where that is kept elsewhere, and certificates are asked for by requests.
  package var keyPEM: String?

  package init(certificatesPEM: String, keyPEM: String?) {
    self.certificatesPEM = certificatesPEM
    self.keyPEM = keyPEM
  }
}

extension DataDirectory {
  /// What stands above an operator's own authority for servers and providers, its root last. Given to clients, for most
  /// believe in roots alone; no door trusts it, or whatever else that root issues could come in.
  var aboveFile: String { "\(path)/authority/service-above.crt" }

  /// What a client is given to check the service's certificate with.
  package var clientAuthorityFile: String {
    let above = (try? Certificate.all(pem: Files.readText(aboveFile))) ?? []
    return above.contains(where: \.isSelfIssued) ? aboveFile : authorityCertificate(.service)
  }

  /// What the service shows behind its own certificate: the link from an older authority where there is one, and else
  /// the authority itself, so that a client that was given only a fingerprint can see both, and what is above it.
  func serviceChain() throws -> String {
    if Files.exists(linkFile) { return try Files.readText(linkFile) }
    let authority = try issuingCertificate(of: .service).pem
    guard Files.exists(aboveFile) else { return authority }
    // A root proves nothing by being shown.
    let above = try Certificate.all(pem: Files.readText(aboveFile)).filter { !$0.isSelfIssued }
    return authority + above.map(\.pem).joined()
  }

  var linkFile: String { "\(path)/authority/service-link.crt" }

  /// Takes an operator's own authority.
  ///
  /// - Parameter trusted: Authorities that stay trusted beside it.
  func adopt(
    _ outside: OutsideAuthority, as which: Authority, besides trusted: [Certificate] = [],
    nowSeconds: Int64
  ) throws {
    let all = try Certificate.all(pem: outside.certificatesPEM)
    let (own, above) = (all[0], Array(all.dropFirst()))
    guard own.isAuthority, own.keyKind.isStrong else {
      throw DirectoryProblem(
        "\(which.title): the first certificate must be that of an authority (CA:TRUE, keyCertSign) "
          + "with an ECDSA P-256 key or an RSA key of 2048 bits or more")
    }
    guard own.isValid(now: nowSeconds) else {
      throw DirectoryProblem("\(which.title): its certificate is not valid now")
    }
    var lower = own
    for certificate in above {
      guard certificate.isAuthority, lower.leads(to: [certificate], for: .authority) else {
        throw DirectoryProblem(
          "\(which.title): each certificate must be followed by that of its issuer, up "
            + "to the root")
      }
      lower = certificate
    }
    let authority = try outside.keyPEM.map {
      try CertificateAuthority(certificate: own, key: PrivateKey(pem: $0))
    }
    // The certificates first: until the key follows, an older one still has its own among them.
    let others = trusted.filter { $0 != own }
    try Files.write(
      ([own] + others).map(\.pem).joined(), to: authorityCertificate(which), isPrivate: false)
    if which == .service {
      Files.remove(linkFile)
      if above.isEmpty {
        Files.remove(aboveFile)
      } else {
        try Files.write(above.map(\.pem).joined(), to: aboveFile, isPrivate: false)
      }
    }
    if let authority {
      try Files.write(authority.key.pkcs8PEM, to: authorityKey(which), isPrivate: true)
    } else {
      Files.remove(authorityKey(which))
    }
  }

  /// Whether an authority signs here. Otherwise certificates are asked for by requests.
  package func canIssue(as which: Authority) -> Bool { Files.exists(authorityKey(which)) }

  /// The certificate of the authority that issues now: of several that are trusted, the one whose key is here, and else
  /// the first. A key that cannot be read is said where something is to be signed with it: who is trusted does not
  /// depend on it.
  func issuingCertificate(of which: Authority) throws -> Certificate {
    if let own = try? authority(which) { return own.certificate }
    return try certificates(of: which)[0]
  }

  // MARK: Asking for certificates

  /// Makes new keys for the service's own certificates, and a request for each, which `import` waits for.
  ///
  /// - Returns: The files of the requests.
  func requestServerCertificates(names: [String]) throws -> [String] {
    try zip([serverFiles, serverRSAFiles], [nil, 2048]).map { files, rsaBits in
      let key = try Self.newKey(rsaBits: rsaBits)
      let request = try CertificateRequest.make(.server(names: names), for: key)
      try Files.write(key.pkcs8PEM, to: files.nextKey, isPrivate: true)
      try Files.write(CertificateRequest.pem(request), to: files.request, isPrivate: false)
      return files.request
    }
  }

  /// Makes a key, and a request for a certificate of it from an authority elsewhere.
  ///
  /// - Parameter name: What the key's file is called by.
  /// - Returns: The request as PEM, and the key's file, where ``importCertificate(pem:nowSeconds:)`` finds it.
  package func requestCertificate(
    _ what: RequestedCertificate, name: String, rsaBits: Int?
  ) throws -> (pem: String, keyFile: String) {
    try changing {
      let key = try Self.newKey(rsaBits: rsaBits)
      let request = try CertificateRequest.make(what, for: key)
      try Files.makeDirectory(issuedPath)
      let base = "\(issuedPath)/\(name)-\(key.publicKey.spkiSHA256.hex.prefix(8))"
      try Files.write(key.pkcs8PEM, to: "\(base).key", isPrivate: true)
      return (CertificateRequest.pem(request), "\(base).key")
    }
  }

  static func newKey(rsaBits: Int?) throws -> PrivateKey {
    try rsaBits.map { try PrivateKey.generateRSA(bits: $0) } ?? .generateP256()
  }

  // MARK: Taking certificates

  /// What an imported certificate became.
  package struct ImportedCertificate: Sendable {
    package var certificate: Certificate
    package var certificateFile: String
    package var keyFile: String
    /// Whether it is one of the service's own.
    package var isOwn: Bool
  }

  /// Takes a certificate that an authority elsewhere made of a request from here, and puts it beside its key.
  ///
  /// - Parameter pem: The certificate, and behind it those that lead to the authority, if it did not issue it itself.
  package func importCertificate(pem: String, nowSeconds: Int64) throws -> ImportedCertificate {
    try changing {
      try requireProvisioned()
      let chain = try Certificate.all(pem: pem)
      let certificate = chain[0]
      guard certificate.isValid(now: nowSeconds) else {
        throw DirectoryProblem("the certificate has expired or is not valid yet")
      }
      for files in [serverFiles, serverRSAFiles] {
        guard let key = try key(files.nextKey, of: certificate) else { continue }
        try requireIssued(chain, by: .service, for: .server)
        guard !certificate.serverNames.isEmpty else {
          throw DirectoryProblem("the certificate has no name in its subjectAltName")
        }
        let shown = chain.count > 1 ? chain.filter { !$0.isSelfIssued }.map(\.pem).joined() : nil
        try Files.write(
          try shown ?? certificate.pem + serviceChain(), to: files.certificate, isPrivate: false)
        try Files.write(key.pkcs8PEM, to: files.key, isPrivate: true)
        for file in [files.nextKey, files.request] { Files.remove(file) }
        return ImportedCertificate(
          certificate: certificate, certificateFile: files.certificate, keyFile: files.key,
          isOwn: true)
      }
      for name in try Files.names(in: issuedPath).sorted() where name.hasSuffix(".key") {
        let keyFile = "\(issuedPath)/\(name)"
        guard let key = try key(keyFile, of: certificate) else { continue }
        try requireIssued(chain, by: Self.authority(for: certificate), for: nil)
        let base = String(keyFile.dropLast(".key".count))
        let text = chain.map(\.pem).joined()
        try Files.write(text, to: "\(base).crt", isPrivate: false)
        try Files.write(text + key.pkcs8PEM, to: "\(base).pem", isPrivate: true)
        return ImportedCertificate(
          certificate: certificate, certificateFile: "\(base).crt", keyFile: keyFile, isOwn: false)
      }
      throw DirectoryProblem(
        "no key here matches the certificate: import a certificate issued for a request made here "
          + "(apus cert --csr-out, apus device --csr-out, apus rotate server)")
    }
  }

  private func key(_ file: String, of certificate: Certificate) throws -> PrivateKey? {
    guard Files.exists(file) else { return nil }
    let key = try PrivateKey(pem: Files.readText(file))
    return key.publicKey.spkiDER == certificate.spkiDER ? key : nil
  }

  private static func authority(for certificate: Certificate) -> Authority {
    (try? DeviceCertificate(certificate)) == nil ? .service : .devices
  }

  /// - Parameter purpose: Nil: what its kind is for.
  private func requireIssued(
    _ chain: [Certificate], by which: Authority, for purpose: Certificate.Purpose?
  ) throws {
    let certificate = chain[0]
    let isServer = !certificate.serverNames.isEmpty && which == .service
    guard
      certificate.leads(
        to: try certificates(of: which), through: Array(chain.dropFirst()),
        for: purpose ?? (isServer ? .server : .client))
    else {
      throw DirectoryProblem(
        "\(authorityCertificate(which)) did not issue the certificate, or it is not for "
          + ((purpose ?? (isServer ? .server : .client)) == .server
            ? "servers (extended key usage serverAuth)" : "clients (clientAuth)"))
    }
    // What the doors would refuse must not look as if it were of use.
    guard which == .service, !isServer, purpose == nil else { return }
    do {
      _ = try ProviderCertificate(certificate)
    } catch {
      throw DirectoryProblem("the certificate is not valid for a provider: \(error)")
    }
  }
}

extension IdentityFiles {
  /// A key that waits for its certificate.
  var nextKey: String { "\(certificate.dropLast(".crt".count)).next.key" }
  /// The request for that.
  var request: String { "\(certificate.dropLast(".crt".count)).csr" }
}
