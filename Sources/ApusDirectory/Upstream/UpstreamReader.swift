import ApusCore
import ApusModel
import ApusTrust

/// Reads the upstreams of apps: values of `directory.conf`, and the files that they need.
struct UpstreamReader {
  let directory: DataDirectory

  /// - Throws: The line and the section of the first mistake, what is wrong, and what to do.
  func read(_ file: SectionFile) throws(DirectoryProblem) -> [AppID: Upstream] {
    var upstreams: [AppID: Upstream] = [:]
    for section in file.sections where section.kind == "app" {
      // DirectoryReader reports a missing id.
      guard let number = section["id"].flatMap({ UInt32($0) }) else { continue }
      do throws(DirectoryProblem) {
        upstreams[AppID(number)] = try upstream(section)
      } catch {
        throw DirectoryReader(directory: directory).problem(section, "\(error)")
      }
    }
    return upstreams
  }

  private func upstream(_ section: SectionFile.Section) throws(DirectoryProblem) -> Upstream? {
    guard let settings = try UpstreamSettings(section) else { return nil }
    let files = try UpstreamFiles(directory, section.name)
    var proxy = settings.proxy
    if proxy?.user != nil, let text = try files.read(.proxyPassword) {
      proxy?.password = try UpstreamCheck.password(text, called: files.path(.proxyPassword))
    }
    let authority = try files.read(.authority)
    if let authority {
      try UpstreamCheck.certificates(authority, called: files.path(.authority))
    }
    let credential =
      if let name = settings.key { try key(name, files, section.name) } else {
        try certificate(files, section.name)
      }
    return Upstream(
      service: settings.service, credential: credential,
      bundleID: settings.bundleID, proxy: proxy, authorityPEM: authority, spools: settings.spools,
      perSecond: settings.perSecond)
  }

  private func key(
    _ name: UpstreamSettings.KeyName, _ files: UpstreamFiles, _ topic: String
  ) throws(DirectoryProblem) -> Upstream.Credential {
    let path = files.path(.key)
    guard let pem = try files.read(.key) else {
      throw DirectoryProblem(
        "\(path) does not exist: put the provider key \(name.id.text) there, or run "
          + "apus app --change \(topic) --upstream-key FILE")
    }
    try UpstreamCheck.key(pem, called: path)
    return .key(pem: pem, id: name.id.text, team: name.team.text)
  }

  private func certificate(
    _ files: UpstreamFiles, _ topic: String
  ) throws(DirectoryProblem) -> Upstream.Credential {
    let (path, keyPath) = (files.path(.certificate), files.path(.certificateKey))
    guard let pem = try files.read(.certificate) else {
      throw DirectoryProblem(
        "the upstream has neither a key nor a certificate: run apus app --change \(topic) with "
          + "--upstream-key FILE --upstream-key-id ID --upstream-team ID, or with "
          + "--upstream-certificate FILE (\(path) does not exist)")
    }
    guard let keyPEM = try files.read(.certificateKey) else {
      throw DirectoryProblem("\(keyPath) does not exist: put the key of \(path) there")
    }
    try UpstreamCheck.identity(pem, called: path, key: keyPEM, called: keyPath)
    return .certificate(pem: pem, keyPEM: keyPEM)
  }
}

extension DataDirectory {
  /// The certificates that this service shows upstream, by bundle id; those that cannot be read are left out.
  package func upstreamCertificates() -> [NamedCertificate] {
    let sections = (try? records().sections.filter { $0.kind == "app" }) ?? []
    return sections.compactMap { section in
      guard let settings = try? UpstreamSettings(section), settings.key == nil,
        let files = try? UpstreamFiles(self, section.name),
        let pem = try? files.read(.certificate), let certificate = try? Certificate(pem: pem)
      else { return nil }
      return NamedCertificate(kind: .upstream, name: section.name, certificate: certificate)
    }
  }
}
