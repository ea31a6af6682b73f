import ApusCore
import ApusDirectory
import ApusModel

/// The parameter `upstream` of an app: an object with what to change, or null to remove the upstream.
struct AdminUpstream {
  private let input: AdminInput

  /// - Parameter input: The parameters of the app.
  init(_ input: AdminInput) { self.input = input }

  /// Bytes of a key or of certificates in PEM form.
  private static let maximumPEMBytes = 65_536

  /// Nil if the upstream stays as it is.
  func edit() throws(AdminProblem) -> Edit<UpstreamChange>? {
    if input.isNull("upstream") { return .remove }
    guard let input = try input.nested("upstream") else { return nil }
    var change = UpstreamChange()
    change.service = try read(input.text("service")) { text throws(DirectoryProblem) in
      try Upstream.Service(text)
    }
    change.keyPEM = try Self.pem("key_pem", input)
    change.keyID = try input.shortID("key_id")
    change.team = try input.shortID("team")
    change.certificatePEM = try Self.pem("certificate_pem", input)
    change.certificateKeyPEM = try Self.pem("certificate_key_pem", input)
    change.bundleID = try edit("topic", input) { name throws(AdminProblem) in
      try input.text(name, maximumBytes: Limits.topicBytes)
    }
    change.proxy = try proxy(input)
    change.proxyPassword = try input.text("proxy_password")
    change.authorityPEM = try edit("authority_pem", input) { name throws(AdminProblem) in
      try Self.pem(name, input)
    }
    change.spools = input.has("spool") ? try input.bool("spool") : nil
    change.perSecond = try edit("per_second", input) { name throws(AdminProblem) in
      guard input.has(name) else { return nil }
      return Int(try input.integer(name, 1...Int64(Limits.relayPerSecond), default: 1))
    }
    try input.requireAllUsed()
    return .set(change)
  }

  private func proxy(_ input: AdminInput) throws(AdminProblem) -> Edit<Upstream.Proxy>? {
    let user = try input.text("proxy_user")
    let edit: Edit<Upstream.Proxy>? = try edit("proxy", input) { name throws(AdminProblem) in
      try read(input.text(name)) { text throws(DirectoryProblem) in
        try Upstream.Proxy(address: text, user: user)
      }
    }
    guard user == nil || edit?.value != nil else {
      throw AdminProblem(.invalid, "\"upstream.proxy_user\" needs \"proxy\"")
    }
    return edit
  }

  private func edit<Value>(
    _ name: String, _ input: AdminInput, _ read: (String) throws(AdminProblem) -> Value?
  ) throws(AdminProblem) -> Edit<Value>? {
    if input.isNull(name) { return .remove }
    return try read(name).map { .set($0) }
  }

  private func read<Value>(
    _ text: String?, _ body: (String) throws(DirectoryProblem) -> Value
  ) throws(AdminProblem) -> Value? {
    guard let text else { return nil }
    do throws(DirectoryProblem) { return try body(text) } catch {
      throw AdminProblem(.invalid, "\(error)")
    }
  }

  private static func pem(
    _ name: String, _ input: AdminInput
  ) throws(AdminProblem) -> String? {
    try input.value(name, "PEM of at most \(maximumPEMBytes) bytes") {
      $0.utf8.count <= maximumPEMBytes ? $0 : nil
    }
  }
}
