package import ApusCore
import ApusTrust

/// The change of a part that may be missing.
package enum Edit<Value: Sendable>: Sendable {
  case set(Value)
  case remove

  /// The value afterwards.
  package var value: Value? {
    if case .set(let value) = self { value } else { nil }
  }
}

/// A change of an app's upstream; what is nil stays as it is.
package struct UpstreamChange: Sendable {
  package var service: Upstream.Service?
  /// A provider key in PEM form, which needs `keyID`. It replaces a certificate.
  package var keyPEM: String?
  package var keyID: ShortID?
  package var team: ShortID?
  /// A certificate, followed by those up to its authority, which needs `certificateKeyPEM`. It replaces a key.
  package var certificatePEM: String?
  package var certificateKeyPEM: String?
  package var bundleID: Edit<String>?
  /// Another proxy does not get the password of the one before.
  package var proxy: Edit<Upstream.Proxy>?
  package var proxyPassword: String?
  package var authorityPEM: Edit<String>?
  package var spools: Bool?
  package var perSecond: Edit<Int>?

  package init() {}

  private var namesKey: Bool { keyPEM != nil || keyID != nil || team != nil }
  private var namesCertificate: Bool { certificatePEM != nil || certificateKeyPEM != nil }

  /// The settings afterwards.
  ///
  /// - Throws: What the change lacks, or which parts of it exclude each other.
  func settings(after old: UpstreamSettings?) throws(DirectoryProblem) -> UpstreamSettings {
    guard let service = service ?? old?.service else {
      throw DirectoryProblem(
        "the app has no upstream yet: say which service it is, \(Upstream.Service.form)")
    }
    var new = old ?? UpstreamSettings(service: service)
    new.service = service
    new.key = try key(after: old?.key)
    if let bundleID {
      new.bundleID = try bundleID.value.map { text throws(DirectoryProblem) in
        try UpstreamSettings.bundleID(text)
      }
    }
    if let proxy { new.proxy = proxy.value }
    guard proxyPassword == nil || new.proxy?.user != nil else {
      throw DirectoryProblem("a password needs a proxy with a user")
    }
    new.spools = spools ?? new.spools
    if let perSecond { new.perSecond = perSecond.value }
    return new
  }

  private func key(
    after old: UpstreamSettings.KeyName?
  ) throws(DirectoryProblem) -> UpstreamSettings.KeyName? {
    guard !namesKey || !namesCertificate else {
      throw DirectoryProblem("an upstream takes a key or a certificate, not both")
    }
    if namesCertificate {
      guard certificatePEM != nil, certificateKeyPEM != nil else {
        throw DirectoryProblem("an upstream's certificate and its key are changed together")
      }
      return nil
    }
    guard namesKey else { return old }
    guard let id = keyID ?? (keyPEM == nil ? old?.id : nil) else {
      throw DirectoryProblem("an upstream's key needs its id, ten letters and digits")
    }
    guard let team = team ?? old?.team else {
      throw DirectoryProblem("an upstream's key needs the id of its team")
    }
    return UpstreamSettings.KeyName(id: id, team: team)
  }

  /// The files to write, with nothing in them but keys and certificates: a given text may have both, and only keys are
  /// private.
  ///
  /// - Throws: What is wrong with which content.
  func content() throws(DirectoryProblem) -> [(part: UpstreamFiles.Part, text: String)] {
    var content: [(part: UpstreamFiles.Part, text: String)] = []
    if let keyPEM {
      let key = try UpstreamCheck.key(keyPEM, called: "the upstream's key")
      content.append((.key, key.pkcs8PEM))
    }
    if let certificatePEM, let certificateKeyPEM {
      let identity = try UpstreamCheck.identity(
        certificatePEM, called: "the upstream's certificate", key: certificateKeyPEM,
        called: "the given key")
      content += [
        (.certificate, identity.certificates.map(\.pem).joined()),
        (.certificateKey, identity.key.pkcs8PEM),
      ]
    }
    if let proxyPassword {
      content.append(
        (
          .proxyPassword,
          try UpstreamCheck.password(proxyPassword, called: "the proxy's password") + "\n"
        ))
    }
    if let authority = authorityPEM?.value {
      let trusted = try UpstreamCheck.certificates(authority, called: "the upstream's authority")
      content.append((.authority, trusted.map(\.pem).joined()))
    }
    return content
  }

  /// The files of the former upstream that stay in use, unless they are written.
  func kept(by settings: UpstreamSettings) -> Set<UpstreamFiles.Part> {
    var kept: Set<UpstreamFiles.Part> =
      settings.key == nil ? [.certificate, .certificateKey] : [.key]
    if authorityPEM == nil { kept.insert(.authority) }
    if proxy == nil { kept.insert(.proxyPassword) }
    return kept
  }
}
