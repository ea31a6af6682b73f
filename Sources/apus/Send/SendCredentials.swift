import ApusClient
import ApusCommand
import ApusCore
import ApusDirectory
import ApusModel

/// A provider's credentials, from the options or else from the data directory.
struct SendCredentials {
  private let invocation: Invocation
  private let user: Operator
  private var directory: DataDirectory { user.directory }

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  /// Whether the provider authenticates with a certificate.
  private var usesCertificate: Bool { invocation.isGiven(ApusOptions.providerCertificate) }

  /// The topic; nil to use the certificate's.
  func topic(for type: PushType) throws(CommandFailure) -> String? {
    if let topic = invocation[ApusOptions.topic] { return topic }
    if usesCertificate { return nil }
    let app = try user.only("app", for: ApusOptions.topic).name
    return app + type.topicSuffix.text.description
  }

  func credential() throws(CommandFailure) -> ClientConfiguration.Credential {
    guard usesCertificate else { return try providerToken() }
    if invocation.isGiven(ApusOptions.providerKey) {
      throw invocation.failure(
        about: ApusOptions.providerKey, "a certificate is already given",
        remedy: "Give a key or a certificate, not both.")
    }
    let pem = try invocation.certificateAndKey(
      ApusOptions.providerCertificate, ApusOptions.providerCertificateKey)
    return .certificate(
      certificatePEM: Array(pem.certificate.utf8), keyPEM: Array(pem.key.utf8))
  }

  func providerToken() throws(CommandFailure) -> ClientConfiguration.Credential {
    let keyID: String
    if let given = invocation[ApusOptions.keyID] {
      keyID = given
    } else {
      keyID = try ownKey()
    }
    return .providerToken(
      keyPEM: try keyPEM(keyID), keyID: keyID, teamID: try team(of: keyID))
  }

  /// The key to sign with: the first that covers all apps and environments of its team and whose private half is here.
  /// There may be several, for example after the console added one; with several teams, one must be named.
  private func ownKey() throws(CommandFailure) -> String {
    let team = invocation[ApusOptions.team]
    let usable = try user.attempt {
      try user.directory.isProvisioned ? user.sections("key") : []
    }.filter { section in
      let environments = section["environments"].map { $0.split(separator: " ").count } ?? 2
      return section["revoked"] != "yes" && section["topics"] == nil && environments == 2
        && (team == nil || section["team"] == team)
        && ShortID(section.name).map { Files.exists(directory.privateKey($0)) } == true
    }
    if let first = usable.first, usable.allSatisfy({ $0["team"] == first["team"] }) {
      return first.name
    }
    return try user.only("key", for: ApusOptions.keyID).name
  }

  private func keyPEM(_ keyID: String) throws(CommandFailure) -> [UInt8] {
    if invocation.isGiven(ApusOptions.providerKey) { return try pem(ApusOptions.providerKey) }
    let path = ShortID(keyID).map { directory.privateKey($0) } ?? ""
    guard let text = try Process.textIfPresent(path) else {
      var failure = invocation.missing(ApusOptions.providerKey.description)
      failure.problem = "--key is missing, and \(path) does not exist"
      throw failure
    }
    return Array(text.utf8)
  }

  private func team(of keyID: String) throws(CommandFailure) -> String {
    if let given = invocation[ApusOptions.team] { return given }
    guard directory.isProvisioned,
      let team = try user.sections("key").first(where: { $0.name == keyID })?["team"]
    else { throw invocation.missing(ApusOptions.team.description) }
    return team
  }

  private func pem(_ option: Option<String>) throws(CommandFailure) -> [UInt8] {
    Array(try Process.text(of: try invocation.require(option), for: option, invocation).utf8)
  }
}
