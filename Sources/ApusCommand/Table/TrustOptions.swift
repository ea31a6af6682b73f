package import ApusModel

/// The options of the commands that say who may do what.
package enum TrustOptions {
  package static let teamToAdd = Option(
    "--add", .text("NAME"), in: [Verb.team], group: .change, scope: .flagOnly,
    help: "Add a team of that name.")
  package static let teamID = Option(
    "--id", .teamID, in: [Verb.team], group: .change, scope: .flagOnly,
    note: "drawn at random", help: "The new team's id: ten letters and digits.")

  package static let appToAdd = Option(
    "--add", .topic, in: [Verb.app], group: .change, scope: .flagOnly,
    help: "Add the app of that bundle id.")
  package static let appToRemove = Option(
    "--remove", .topic, in: [Verb.app], group: .change, scope: .flagOnly,
    help: "Remove the app: its tokens become invalid.")
  package static let appTeam = Option(
    "--team", .teamID, in: [Verb.app], group: .change, scope: .flagOnly,
    note: "the data directory's only team", help: "The team that it belongs to.")

  package static let appToChange = Option(
    "--change", .topic, in: [Verb.app], group: .change, scope: .flagOnly,
    help: "Change the app: see --retain.")
  package static let appRetention = Option(
    "--retain", .integer("N", 1...Limits.retainedNotifications), in: [Verb.app], group: .change,
    scope: .flagOnly, note: "1",
    help: "How many of its newest notifications are kept for an offline device.")

  package static let acceptLoss = Option(
    "--accept-loss", .flag, in: [Verb.store], group: .change, scope: .flagOnly,
    help: "Go on without what cannot be read; the damaged files are kept beside the store.")

  package static let keyToAdd = Option(
    "--add", .flag, in: [Verb.key], group: .change, scope: .flagOnly,
    help: "Add a provider key.")
  package static let keyToRevoke = Option(
    "--revoke", .keyID, in: [Verb.key], group: .change, scope: .flagOnly,
    help: "Revoke a key permanently.")
  package static let keyTeam = Option(
    "--team", .teamID, in: [Verb.key], group: .change, scope: .flagOnly,
    note: "the data directory's only team", help: "The team that it belongs to.")
  package static let keyID = Option(
    "--id", .keyID, in: [Verb.key], group: .change, scope: .flagOnly,
    note: "drawn at random", help: "The key's id: ten letters and digits.")
  package static let keyEnvironment = Option(
    "--environment",
    .choice(
      "WHICH",
      [
        ("production", EnvironmentSet.production), ("development", .development), ("both", .both),
      ]), in: [Verb.key], group: .change, scope: .flagOnly, default: "both",
    help: "Where it is valid: production, development or both.")
  package static let keyTopics = Option(
    "--topic", .topic, in: [Verb.key], group: .change, scope: .flagOnly, note: "all of its team",
    repeats: true, help: "An app that the key is limited to. May be repeated.")
  package static let relatedKey = Option(
    "--related", .keyID, in: [Verb.key], group: .change, scope: .flagOnly,
    help: "A key for single apps that may share a connection with it, to replace it later.")
  package static let publicKey = Option(
    "--public-key", .file, in: [Verb.key], group: .change, scope: .flagOnly,
    help: "The public half of a key that the provider made. Without it one is made here.")

  package static let certificateToRevoke = Option(
    "--revoke", .text("FILE|SHA-256"), in: [Verb.cert], group: .change, scope: .flagOnly,
    help: "Revoke a certificate, of a provider or a device, and issue nothing.")

  package static let certificateToImport = Option(
    "--import", .file, in: [Verb.cert], group: .change, scope: .flagOnly,
    help: "Take the certificate that an authority elsewhere made of a request from here.")
  package static let request = Option(
    "--request", .file, in: [Verb.cert, .device], group: .issue, scope: .flagOnly,
    help:
      "Certify the key of this request (PKCS#10); the private key stays where it is. Names in the request are ignored."
  )
  package static let requestOut = Option(
    "--csr-out", .file, in: [Verb.cert, .device], group: .issue, scope: .flagOnly,
    help: "Issue nothing; make a key, and write a request for an authority elsewhere.")
  package static let serverNames = Option(
    "--server", .text("NAME"), in: [Verb.cert], group: .issue, scope: .flagOnly, repeats: true,
    help: "Certify a server of that name or address instead of a provider. May be repeated.")

  package static let serviceAuthority = outside(
    "--service-authority", in: .initialize,
    help:
      "An authority of your own for servers and providers: its certificate, then those above it.")
  package static let serviceAuthorityKey = outside(
    "--service-authority-key", in: .initialize,
    help: "Its private key; without it, the key stays elsewhere and signs requests.")
  package static let deviceAuthority = outside(
    "--device-authority", in: .initialize, help: "An authority of your own for devices.")
  package static let deviceAuthorityKey = outside(
    "--device-authority-key", in: .initialize,
    help: "Its private key; without it, the key stays elsewhere and signs requests.")
  package static let nextAuthority = outside(
    "--authority", in: .rotate,
    help: "The next authority, of your own: its certificate, then those above it.")
  package static let nextAuthorityKey = outside(
    "--authority-key", in: .rotate,
    help: "Its private key; without it, the key stays elsewhere and signs requests.")

  private static func outside(_ flag: String, in verb: Verb, help: String) -> Option<String> {
    Option(
      flag, .file, in: [verb], group: verb == .rotate ? .change : .issue, scope: .flagOnly,
      help: help)
  }

  package static let finish = Option(
    "--finish", .flag, in: [Verb.rotate], group: .change, scope: .flagOnly,
    help: "Stop trusting the previous authorities.")

  package static let force = Option(
    "--force", .flag, in: [Verb.rotate], group: .change, scope: .flagOnly,
    help: "With --finish: lock out the devices that have no certificate of the new authority yet.")

  static let all: [OptionDescription] = [
    teamToAdd.description, teamID.description, appToAdd.description, appToRemove.description,
    appTeam.description, appToChange.description, appRetention.description, keyToAdd.description,
    keyToRevoke.description, keyTeam.description,
    keyID.description, keyEnvironment.description, keyTopics.description, relatedKey.description,
    publicKey.description, certificateToRevoke.description, certificateToImport.description,
    request.description, requestOut.description, serverNames.description,
    serviceAuthority.description, serviceAuthorityKey.description, deviceAuthority.description,
    deviceAuthorityKey.description, nextAuthority.description, nextAuthorityKey.description,
    finish.description, force.description, acceptLoss.description,
  ]
}
