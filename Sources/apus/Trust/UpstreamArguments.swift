import ApusCommand
import ApusCore
import ApusDirectory
import ApusTrust
import ApusWire

/// What the options of `apus app` say about an app's upstream.
struct UpstreamArguments {
  private let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  /// The first option that is given; nil if none is.
  var first: OptionDescription? { UpstreamOptions.all.first(where: invocation.isFlagged) }

  /// Nil if the upstream stays as it is.
  func edit() throws(CommandFailure) -> Edit<UpstreamChange>? {
    guard first != nil else { return nil }
    let service = invocation[UpstreamOptions.service]
    if service == UpstreamOptions.none {
      let others = UpstreamOptions.all.filter { $0.id != UpstreamOptions.service.description.id }
      if let other = others.first(where: invocation.isFlagged) {
        throw invocation.failure(
          about: UpstreamOptions.service, "it removes the upstream",
          remedy: "Leave \(other.flag) out.")
      }
      return .remove
    }
    var change = UpstreamChange()
    if let service {
      change.service = try attempt(UpstreamOptions.service) { () throws(DirectoryProblem) in
        try Upstream.Service(service)
      }
    }
    try readCredential(into: &change)
    try readWay(into: &change)
    change.spools = invocation[UpstreamOptions.spool]
    change.perSecond = try invocation[UpstreamOptions.perSecond].map {
      text throws(CommandFailure) in
      if text == UpstreamOptions.none { return .remove }
      return .set(
        try attempt(UpstreamOptions.perSecond) { () throws(DirectoryProblem) in
          try UpstreamSettings.rate(text)
        })
    }
    return .set(change)
  }

  /// For a new app; nil if it gets no upstream.
  func addition() throws(CommandFailure) -> UpstreamChange? {
    if case .set(let change)? = try edit() { change } else { nil }
  }

  private func readCredential(into change: inout UpstreamChange) throws(CommandFailure) {
    let isKey =
      invocation.isGiven(UpstreamOptions.key) || invocation.isGiven(UpstreamOptions.keyID)
      || invocation.isGiven(UpstreamOptions.team)
    guard invocation.isGiven(UpstreamOptions.certificate) else {
      for option in [UpstreamOptions.certificateKey, UpstreamOptions.password]
      where invocation.isGiven(option) {
        throw invocation.missing(UpstreamOptions.certificate.description)
      }
      if isKey { try readKey(into: &change) }
      return
    }
    guard !isKey else {
      throw invocation.failure(
        about: UpstreamOptions.certificate, "a key is given as well",
        remedy: "Give a key or a certificate, not both.")
    }
    (change.certificatePEM, change.certificateKeyPEM) = try certificate()
  }

  private func readKey(into change: inout UpstreamChange) throws(CommandFailure) {
    change.team = invocation[UpstreamOptions.team].flatMap(ShortID.init)
    change.keyID = invocation[UpstreamOptions.keyID].flatMap(ShortID.init)
    guard let path = invocation[UpstreamOptions.key] else { return }
    change.keyPEM = try Process.text(of: path, for: UpstreamOptions.key, invocation)
    guard let named = Self.keyID(ofFile: path) else {
      if change.keyID == nil { throw invocation.missing(UpstreamOptions.keyID.description) }
      return
    }
    if let given = change.keyID, given != named {
      throw invocation.failure(
        about: UpstreamOptions.keyID, "\(path) is the key \(named.text) by its name",
        remedy: "Give the id of that key, or rename the file if its name is wrong.")
    }
    change.keyID = named
  }

  /// The id in a name as Apple gives it, `AuthKey_ABC123DEFG.p8`.
  private static func keyID(ofFile path: String) -> ShortID? {
    let name = path.split(separator: "/").last ?? ""
    let (prefix, suffix) = ("AuthKey_", ".p8")
    guard name.hasPrefix(prefix), name.hasSuffix(suffix) else { return nil }
    return ShortID(String(name.dropFirst(prefix.count).dropLast(suffix.count)))
  }

  private func certificate() throws(CommandFailure) -> (String, String) {
    let option = UpstreamOptions.certificate
    let path = try invocation.require(option)
    let bytes: [UInt8]
    do throws(FileError) { bytes = try Files.read(path) } catch {
      throw invocation.failure(.configuration, about: option, "\(error)")
    }
    if String(decoding: bytes, as: UTF8.self).contains("-----BEGIN ") {
      guard !invocation.isGiven(UpstreamOptions.password) else {
        throw invocation.failure(
          about: UpstreamOptions.password, "\(path) is PEM, which is not encrypted",
          remedy: "Leave --upstream-password-file out.")
      }
      return try invocation.certificateAndKey(option, UpstreamOptions.certificateKey)
    }
    guard !invocation.isGiven(UpstreamOptions.certificateKey) else {
      throw invocation.failure(
        about: UpstreamOptions.certificateKey, "\(path) is not PEM, and PKCS#12 has its key in it",
        remedy: "Leave --upstream-certificate-key out.")
    }
    let password = try text(UpstreamOptions.password).map(Self.firstLine) ?? ""
    do throws(TrustFault) {
      let file = try PKCS12(bytes.span, password: password)
      return (
        String(decoding: file.certificatePEM, as: UTF8.self),
        String(decoding: file.keyPEM, as: UTF8.self)
      )
    } catch {
      throw invocation.failure(
        .configuration, about: option, "\(path) is not PEM: \(error)",
        remedy: invocation.isGiven(UpstreamOptions.password)
          ? nil : "Give the file's password with --upstream-password-file FILE.")
    }
  }

  private func readWay(into change: inout UpstreamChange) throws(CommandFailure) {
    if let topic = invocation[UpstreamOptions.topic] {
      change.bundleID = topic == UpstreamOptions.none ? .remove : .set(topic)
    }
    if let proxy = invocation[UpstreamOptions.proxy] {
      change.proxy =
        proxy == UpstreamOptions.none
        ? .remove
        : .set(
          try attempt(UpstreamOptions.proxy) { () throws(DirectoryProblem) in
            try Upstream.Proxy(proxy)
          })
    }
    change.proxyPassword = try text(UpstreamOptions.proxyPassword)
    if invocation[UpstreamOptions.authority] == UpstreamOptions.none {
      change.authorityPEM = .remove
    } else {
      change.authorityPEM = try text(UpstreamOptions.authority).map { .set($0) }
    }
  }

  private func text(_ option: Option<String>) throws(CommandFailure) -> String? {
    guard let path = invocation[option] else { return nil }
    return try Process.text(of: path, for: option, invocation)
  }

  private static func firstLine(_ text: String) -> String {
    String(text.prefix { !$0.isNewline })
  }

  private func attempt<Value>(
    _ option: Option<String>, _ body: () throws(DirectoryProblem) -> Value
  ) throws(CommandFailure) -> Value {
    do throws(DirectoryProblem) { return try body() } catch {
      throw invocation.failure(about: option, "\(error)")
    }
  }
}

extension Edit<UpstreamChange> {
  /// As asked of the administration.
  var request: JSONValue {
    guard case .set(let change) = self else { return .null }
    func edit(_ edit: Edit<String>?) -> JSONValue? {
      switch edit {
      case .set(let text)?: .string(text)
      case .remove?: .null
      case nil: nil
      }
    }
    var (proxy, user): (JSONValue?, JSONValue?) = (nil, nil)
    switch change.proxy {
    case .set(let set)?: (proxy, user) = (.string(set.address), set.user.map(JSONValue.string))
    case .remove?: proxy = .null
    case nil: break
    }
    let perSecond: JSONValue? =
      switch change.perSecond {
      case .set(let rate)?: .integer(Int64(rate))
      case .remove?: .null
      case nil: nil
      }
    return .members([
      "service": (change.service?.text).map(JSONValue.string),
      "key_pem": change.keyPEM.map(JSONValue.string),
      "key_id": (change.keyID?.text).map(JSONValue.string),
      "team": (change.team?.text).map(JSONValue.string),
      "certificate_pem": change.certificatePEM.map(JSONValue.string),
      "certificate_key_pem": change.certificateKeyPEM.map(JSONValue.string),
      "topic": edit(change.bundleID), "proxy": proxy, "proxy_user": user,
      "proxy_password": change.proxyPassword.map(JSONValue.string),
      "authority_pem": edit(change.authorityPEM), "spool": change.spools.map(JSONValue.bool),
      "per_second": perSecond,
    ])
  }
}
