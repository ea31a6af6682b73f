package import ApusModel

/// The options of the commands that say who may do what.
package enum TrustOptions {
  package static let teamToAdd = Option(
    "--add", .text("NAME"), in: [Verb.team], group: .change, scope: .flagOnly,
    help: "Add a team of that name.")
  package static let teamID = Option(
    "--id", .shortID("ID"), in: [Verb.team], group: .change, scope: .flagOnly,
    note: "drawn at random", help: "The new team's id: ten letters and digits.")

  package static let appToAdd = Option(
    "--add", .topic, in: [Verb.app], group: .change, scope: .flagOnly,
    help: "Add the app of that bundle id.")
  package static let appToRemove = Option(
    "--remove", .topic, in: [Verb.app], group: .change, scope: .flagOnly,
    help: "Take the app out: its tokens lead nowhere from then on.")
  package static let appTeam = Option(
    "--team", .shortID("ID"), in: [Verb.app], group: .change, scope: .flagOnly,
    note: "the data directory's only team", help: "The team that it belongs to.")

  package static let keyToAdd = Option(
    "--add", .flag, in: [Verb.key], group: .change, scope: .flagOnly,
    help: "Add a provider key.")
  package static let keyToRevoke = Option(
    "--revoke", .shortID("ID"), in: [Verb.key], group: .change, scope: .flagOnly,
    help: "Revoke a key, for good.")
  package static let keyTeam = Option(
    "--team", .shortID("ID"), in: [Verb.key], group: .change, scope: .flagOnly,
    note: "the data directory's only team", help: "The team that it is of.")
  package static let keyID = Option(
    "--id", .shortID("ID"), in: [Verb.key], group: .change, scope: .flagOnly,
    note: "drawn at random", help: "The key's id: ten letters and digits.")
  package static let keyEnvironment = Option(
    "--environment",
    .choice(
      "WHICH",
      [
        ("production", EnvironmentSet.production), ("development", .development), ("both", .both),
      ]), in: [Verb.key], group: .change, scope: .flagOnly, default: "both",
    help: "Where it is good: production, development or both.")
  package static let keyTopics = Option(
    "--topic", .topic, in: [Verb.key], group: .change, scope: .flagOnly, note: "all of its team",
    repeats: true, help: "An app that it is for, and no others. May be repeated.")
  package static let relatedKey = Option(
    "--related", .shortID("ID"), in: [Verb.key], group: .change, scope: .flagOnly,
    help: "A key for single apps that may share a connection with it, to replace it later.")
  package static let publicKey = Option(
    "--public-key", .file, in: [Verb.key], group: .change, scope: .flagOnly,
    help: "The public half of a key that the provider made. Without it one is made here.")

  package static let certificateToRevoke = Option(
    "--revoke", .text("FILE|SHA-256"), in: [Verb.cert], group: .change, scope: .flagOnly,
    help: "Revoke a certificate, of a provider or a device, and issue nothing.")

  package static let finish = Option(
    "--finish", .flag, in: [Verb.rotate], group: .change, scope: .flagOnly,
    help: "Drop the trust in the authorities that came before.")

  static let all: [OptionDescription] = [
    teamToAdd.description, teamID.description, appToAdd.description, appToRemove.description,
    appTeam.description, keyToAdd.description, keyToRevoke.description, keyTeam.description,
    keyID.description, keyEnvironment.description, keyTopics.description, relatedKey.description,
    publicKey.description, certificateToRevoke.description, finish.description,
  ]
}
