import ApusCommand
import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust

/// The choice of a key in the data directory, for a command that names none with --key-id.
///
/// Possible keys are those that can sign here, are not revoked, belong to the team of the app (or to --team), and are
/// not limited to other apps. Those for the environment are preferred, and of these the oldest is chosen, so that a key
/// added later, such as in the console, changes nothing for a provider that already has one.
struct SendKeyChoice {
  private let user: Operator
  private let topic: String?
  private let environment: Environment?
  /// The bundle id in the topic; nil if there is no topic.
  private let app: String?
  private let team: String?
  /// The public half of the key of --key; nil if it is not given.
  private let givenKey: String?

  /// - Parameters:
  ///   - topic: The topic to send to; nil if it is not known.
  ///   - environment: The environment to send to; nil if it is not known.
  ///   - givenKey: The private key of --key as PEM; nil to sign with a key of the data directory.
  init(
    _ user: Operator, topic: String?, environment: Environment?, givenKey: String?
  ) throws(CommandFailure) {
    guard user.directory.isProvisioned else {
      throw user.invocation.missing(ApusOptions.keyID.description)
    }
    self.user = user
    self.topic = topic
    self.environment = environment
    self.givenKey = try givenKey.map { (pem) throws(CommandFailure) in
      do throws(TrustFault) {
        return try PrivateKey(pem: pem).publicKey.spkiPEM
      } catch {
        throw user.invocation.failure(
          .configuration, about: ApusOptions.providerKey, "the key cannot be read: \(error)",
          remedy: "A provider key is a P-256 key in PEM form, as in Apple's .p8 files.")
      }
    }
    let apps = try user.sections("app")
    let names = topic.map { [$0, Self.bundleID($0)] } ?? []
    let record = names.lazy.compactMap { name in apps.first { $0.name == name } }.first
    app = record?.name ?? names.last
    team = user.invocation[ApusOptions.team] ?? record?["team"]
  }

  /// The topic without its suffix.
  private static func bundleID(_ topic: String) -> String {
    let bytes = Array(topic.utf8)
    let suffix = TopicSuffix(of: bytes.span).text
    return String(decoding: bytes.dropLast(suffix.utf8CodeUnitCount), as: UTF8.self)
  }

  /// The id of the key.
  func choose() throws(CommandFailure) -> String {
    let keys = try user.sections("key")
    var possible = keys.filter { obstacle(to: $0) == nil }
    // For an unknown app, a key of the whole team.
    if app == nil, possible.contains(where: Self.isForAllApps) {
      possible = possible.filter(Self.isForAllApps)
    }
    guard let oldest = possible.first else { throw noKey(of: keys) }
    guard possible.allSatisfy({ $0["team"] == oldest["team"] }) else {
      throw severalTeams(possible)
    }
    return (preferred(of: possible) ?? oldest).name
  }

  /// The oldest key for the environment; if that is unknown, for both, or else for production. Other keys are not left
  /// out, because the address of a service does not always tell its environment.
  private func preferred(of keys: [SectionFile.Section]) -> SectionFile.Section? {
    let wanted: [EnvironmentSet] = environment.map { [EnvironmentSet($0)] } ?? [.both, .production]
    return wanted.lazy.compactMap { set in
      keys.first { Self.environments($0).isSuperset(of: set) }
    }.first
  }

  private static func environments(_ key: SectionFile.Section) -> EnvironmentSet {
    let names = key.words("environments").compactMap { Environment(name: $0) }
    return names.isEmpty ? .both : EnvironmentSet(names.map { EnvironmentSet($0) })
  }

  private static func isForAllApps(_ key: SectionFile.Section) -> Bool { key["topics"] == nil }

  /// Why a key cannot be used; nil if it can.
  private func obstacle(to key: SectionFile.Section) -> String? {
    if key["revoked"] == "yes" { return "is revoked" }
    if let team, let other = key["team"], other != team { return "belongs to the team \(other)" }
    if let app, key["topics"] != nil, !key.words("topics").contains(app) {
      return "is only for \(key.words("topics").joined(separator: ", "))"
    }
    guard let id = ShortID(key.name) else { return "has no valid id" }
    if let givenKey {
      let half = try? PublicKey(spkiPEM: Files.readText(user.directory.publicKey(id)))
      return half?.spkiPEM == givenKey ? nil : "is another key than --key"
    }
    let file = user.directory.privateKey(id)
    return Files.exists(file) ? nil : "has no private half here (\(file))"
  }

  // MARK: Failures

  private func noKey(of keys: [SectionFile.Section]) -> CommandFailure {
    guard !keys.isEmpty else {
      var failure = user.invocation.missing(ApusOptions.keyID.description)
      failure.problem += ", and \(user.directory.path) has no key"
      return failure
    }
    let reasons = keys.map { "\($0.name) \(obstacle(to: $0) ?? "")" }.joined(separator: "; ")
    let use = topic.map { "for \($0)" } ?? "here"
    let add = "`apus key --add\(team.map { " --team \($0)" } ?? "")`"
    return CommandFailure(
      .configuration, "\(user.directory.path) has no key that can be used \(use): \(reasons)",
      remedy: "Add one with \(add) on the machine of the service, "
        + "or give another with --key, --key-id and --team.")
  }

  private func severalTeams(_ keys: [SectionFile.Section]) -> CommandFailure {
    let names = keys.map { "\($0.name) (\($0["team"] ?? "no team"))" }.joined(separator: ", ")
    return CommandFailure(
      .usage, "\(user.directory.path) has keys of several teams: \(names)",
      remedy: "Name the team with --team, or the key with --key-id.")
  }
}
