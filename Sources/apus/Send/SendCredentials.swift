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

  /// The topic, with this suffix if it is not given; nil to use the certificate's.
  func topic(_ suffix: TopicSuffix) throws(CommandFailure) -> String? {
    if let topic = invocation[ApusOptions.topic] { return topic }
    if usesCertificate { return nil }
    let app = try user.only("app", for: ApusOptions.topic).name
    return app + suffix.text.description
  }

  /// - Parameter provider: The listener to send to.
  func credential(
    to provider: HostPort
  ) throws(CommandFailure) -> ClientConfiguration.Credential {
    guard usesCertificate else {
      return try providerToken(
        topic: invocation[ApusOptions.topic], environment: Self.environment(of: provider))
    }
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

  /// - Parameters:
  ///   - topic: The topic to send to; nil for the data directory's only app, if it has only one.
  ///   - environment: The environment to send to; nil if it is not known.
  func providerToken(
    topic: String? = nil, environment: Environment? = nil
  ) throws(CommandFailure) -> ClientConfiguration.Credential {
    let keyID: String
    if let given = invocation[ApusOptions.keyID] {
      keyID = given
    } else {
      let isGiven = invocation.isGiven(ApusOptions.providerKey)
      keyID = try SendKeyChoice(
        user, topic: topic ?? onlyApp, environment: environment,
        givenKey: isGiven ? text(ApusOptions.providerKey) : nil
      ).choose()
    }
    return .providerToken(
      keyPEM: try keyPEM(keyID), keyID: keyID, teamID: try team(of: keyID))
  }

  private var onlyApp: String? {
    let apps = try? user.sections("app")
    return apps?.count == 1 ? apps?.first?.name : nil
  }

  /// The environment of a listener, as far as its address tells: Apple's hosts, and the default ports of a service.
  private static func environment(of provider: HostPort) -> Environment? {
    if provider.isApple {
      return ["sandbox", "development"].contains(where: provider.host.contains)
        ? .development : .production
    }
    return switch provider.port {
    case 2197: .production
    case 2198: .development
    default: nil
    }
  }

  private func keyPEM(_ keyID: String) throws(CommandFailure) -> [UInt8] {
    if invocation.isGiven(ApusOptions.providerKey) {
      return Array(try text(ApusOptions.providerKey).utf8)
    }
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

  private func text(_ option: Option<String>) throws(CommandFailure) -> String {
    try Process.text(of: try invocation.require(option), for: option, invocation)
  }
}
