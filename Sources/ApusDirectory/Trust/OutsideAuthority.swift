import ApusModel
package import ApusTrust

/// An existing authority that an operator supplies to `apus init`, such as a company's intermediate.
package struct OutsideAuthority: Sendable {
  /// Its certificate, followed by those of its issuers, as PEM.
  package var certificatesPEM: String
  /// Its key; nil if the key is kept elsewhere and the authority signs certificate requests.
  package var keyPEM: String?

  package init(certificatesPEM: String, keyPEM: String?) {
    self.certificatesPEM = certificatesPEM
    self.keyPEM = keyPEM
  }
}

extension DataDirectory {
  /// The issuers of an operator's own authority for servers and providers, up to the root. Clients get the file,
  /// because most trust only roots. No listener trusts it: otherwise everything that the root issues could connect.
  var aboveFile: String { "\(path)/authority/service-above.crt" }

  /// The file that clients need to verify the service's certificate.
  package var clientAuthorityFile: String {
    let above = (try? Certificate.all(pem: Files.readText(aboveFile))) ?? []
    return above.contains(where: \.isSelfIssued) ? aboveFile : authorityCertificate(.service)
  }

  /// What the service presents after its own certificate. During a rotation: the newer authority's certificate, signed
  /// by the older one. Otherwise: the authority's certificate and those of its issuers, for clients that know only a
  /// fingerprint of one.
  func serviceChain() throws -> String {
    if Files.exists(linkFile) { return try Files.readText(linkFile) }
    let authority = try issuingCertificate(of: .service).pem
    guard Files.exists(aboveFile) else { return authority }
    // Clients ignore a root that a server presents.
    let above = try Certificate.all(pem: Files.readText(aboveFile)).filter { !$0.isSelfIssued }
    return authority + above.map(\.pem).joined()
  }

  /// The newer authority's certificate, signed by the older one.
  var linkFile: String { "\(path)/authority/service-link.crt" }

  /// Installs an operator's own authority.
  ///
  /// - Parameter trusted: Authorities that remain trusted.
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
    // Write the certificates first: until the key is replaced, the older key still matches one of them.
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

  /// Whether the authority's key is here. Otherwise it must sign certificate requests elsewhere.
  package func canIssue(as which: Authority) -> Bool { Files.exists(authorityKey(which)) }

  /// The certificate of the issuing authority: of several trusted ones, the one whose key is here, otherwise the first.
  /// An unreadable key is not an error here, because trust does not depend on it; it is reported on signing.
  func issuingCertificate(of which: Authority) throws -> Certificate {
    issuingCertificate(of: which, among: try certificates(of: which))
  }

  func issuingCertificate(of which: Authority, among trusted: [Certificate]) -> Certificate {
    guard trusted.count > 1, let own = try? authority(which) else { return trusted[0] }
    return own.certificate
  }

  // MARK: Requesting certificates

  /// Makes new keys for the service's own certificates, and a request for each. ``importCertificate(pem:nowSeconds:)``
  /// takes the certificates.
  ///
  /// - Returns: The paths of the requests.
  func requestServerCertificates(names: [String]) throws -> [String] {
    try zip([serverFiles, serverRSAFiles], [nil, 2048]).map { files, rsaBits in
      let key = try Self.newKey(rsaBits: rsaBits)
      let request = try CertificateRequest.make(.server(names: names), for: key)
      try Files.write(key.pkcs8PEM, to: files.nextKey, isPrivate: true)
      try Files.write(CertificateRequest.pem(request), to: files.request, isPrivate: false)
      return files.request
    }
  }

  /// Makes a key and a certificate request for an external authority.
  ///
  /// - Parameter name: The first part of the key's file name.
  /// - Returns: The request as PEM, and the path of the key, where ``importCertificate(pem:nowSeconds:)`` finds it.
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

  // MARK: Importing certificates

  /// An imported certificate, and where it was stored.
  package struct ImportedCertificate: Sendable {
    package var certificate: Certificate
    package var certificateFile: String
    package var keyFile: String
    /// Whether it is one of the service's own certificates.
    package var isOwn: Bool
  }

  /// Imports a certificate that an external authority issued for a request made here, and stores it beside its key.
  ///
  /// - Parameter pem: The certificate, followed by any intermediates up to the authority.
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
          + "(apus cert --csr-out, apus device add --csr-out, apus rotate server)")
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

  /// - Parameter purpose: Nil: the purpose that fits the certificate's kind.
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
    // Reject now what the listeners would refuse later.
    guard which == .service, !isServer, purpose == nil else { return }
    do {
      _ = try ProviderCertificate(certificate)
    } catch {
      throw DirectoryProblem("the certificate is not valid for a provider: \(error)")
    }
  }
}

extension IdentityFiles {
  /// A new key whose certificate has not been imported yet.
  var nextKey: String { "\(certificate.dropLast(".crt".count)).next.key" }
  /// The certificate request for ``nextKey``.
  var request: String { "\(certificate.dropLast(".crt".count)).csr" }
}
