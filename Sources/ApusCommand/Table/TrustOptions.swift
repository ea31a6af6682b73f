package import ApusModel

/// The options of the commands that manage trust: teams, apps, keys, certificates and authorities.
package enum TrustOptions {
  package static let teamToAdd = Option(
    "--add", .text("NAME"), in: [Verb.team], group: .change, scope: .flagOnly,
    help: "Add a team with this name.")
  package static let teamID = Option(
    "--id", .teamID, in: [Verb.team], group: .change, scope: .flagOnly,
    note: "drawn at random", help: "The new team's id: ten letters and digits.")

  package static let appToAdd = Option(
    "--add", .topic, in: [Verb.app], group: .change, scope: .flagOnly,
    help: "Add an app with this bundle id.")
  package static let appToRemove = Option(
    "--remove", .topic, in: [Verb.app], group: .change, scope: .flagOnly,
    help: "Remove the app with this bundle id; its device tokens become invalid.")
  package static let appTeam = Option(
    "--team", .teamID, in: [Verb.app], group: .change, scope: .flagOnly,
    note: "the data directory's only team", help: "The team that it belongs to.")

  package static let appToChange = Option(
    "--change", .topic, in: [Verb.app], group: .change, scope: .flagOnly,
    help: "Change the app with this bundle id; see --retain, --broadcast and --upstream.")
  package static let appRetention = Option(
    "--retain", .integer("N", 1...Limits.retainedNotifications), in: [Verb.app], group: .change,
    scope: .flagOnly, note: "1",
    help: "How many of the app's newest notifications are stored for an offline device.")
  package static let appBroadcast = Option(
    "--broadcast", .choice("WHETHER", [("on", true), ("off", false)]), in: [Verb.app],
    group: .change, scope: .flagOnly, note: "off",
    help:
      "Whether the app may have channels for broadcasts. With `off` the service deletes those that it has."
  )
  package static let appConsent = Option(
    "--yes", .flag, in: [Verb.app], group: .change, scope: .flagOnly,
    help: "Confirm that the app's channels are deleted; --broadcast off needs it.")

  package static let acceptLoss = Option(
    "--accept-loss", .flag, in: [Verb.store], group: .change, scope: .flagOnly,
    help:
      "Continue without what cannot be read, of which copies are kept; or with a database that lost what it had."
  )

  package static let keepsTokens = Option(
    "--keep-tokens", .flag, in: [Verb.restore, .store], group: .change, scope: .flagOnly,
    help:
      "Keep the device tokens of the backup. Those that died since are accepted again; those issued since are dead."
  )

  package static let backupToCheck = Option(
    "--backup", .file, in: [Verb.check], group: .change, scope: .flagOnly,
    help: "Check this backup instead of the data directory.")

  package static let keyToAdd = Option(
    "--add", .flag, in: [Verb.key], group: .change, scope: .flagOnly,
    help: "Add a provider key.")
  package static let keyToRevoke = Option(
    "--revoke", .keyID, in: [Verb.key], group: .change, scope: .flagOnly,
    help: "Revoke the key with this id permanently.")
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
    help: "Where the key is valid: production, development or both.")
  package static let keyTopics = Option(
    "--topic", .topic, in: [Verb.key], group: .change, scope: .flagOnly, note: "all of its team",
    repeats: true, help: "An app that the key is limited to. May be repeated.")
  package static let relatedKey = Option(
    "--related", .keyID, in: [Verb.key], group: .change, scope: .flagOnly,
    help:
      "An existing key for single apps that may share connections, so that one can replace the other."
  )
  package static let publicKey = Option(
    "--public-key", .file, in: [Verb.key], group: .change, scope: .flagOnly,
    help: "The public half of a key that the provider made. Without it, a key is made here.")

  package static let certificateToRevoke = Option(
    "--revoke", .text("FILE|SHA-256"), in: [Verb.cert], group: .change, scope: .flagOnly,
    help: "Revoke the certificate of a provider or a device; issue nothing.")

  package static let certificateToImport = Option(
    "--import", .file, in: [Verb.cert], group: .change, scope: .flagOnly,
    help: "Import the certificate that an external authority issued for a request made here.")
  package static let request = Option(
    "--request", .file, in: [Verb.cert, .device], group: .issue, scope: .flagOnly,
    help:
      "Certify the key of this request (PKCS#10). Names in the request are ignored."
  )
  package static let requestOut = Option(
    "--csr-out", .file, in: [Verb.cert, .device], group: .issue, scope: .flagOnly,
    help: "Make a key and write a request for an external authority; issue nothing.")
  package static let serverNames = Option(
    "--server", .text("NAME"), in: [Verb.cert], group: .issue, scope: .flagOnly, repeats: true,
    help: "Certify a server with this name or address instead of a provider. May be repeated.")

  package static let commonName = Option(
    "--common-name", .commonName, in: [Verb.cert], group: .issue, scope: .flagOnly,
    note: "Apus Push Services: TOPIC",
    help: "The certificate's common name, for senders that check it.")
  package static let authorityName = Option(
    "--authority-name", .authorityName, in: [Verb.initialize], group: .issue, scope: .flagOnly,
    note: "Apus service authority",
    help: "The common name of the new service authority, for senders that check it.")

  package static let serviceAuthority = outside(
    "--service-authority", in: .initialize,
    help:
      "Your own authority for servers and providers: its certificate, then those above it.")
  package static let serviceAuthorityKey = outside(
    "--service-authority-key", in: .initialize,
    help: "Its private key; without it, the key stays elsewhere and signs requests.")
  package static let deviceAuthority = outside(
    "--device-authority", in: .initialize, help: "Your own authority for devices.")
  package static let deviceAuthorityKey = outside(
    "--device-authority-key", in: .initialize,
    help: "Its private key; without it, the key stays elsewhere and signs requests.")
  package static let nextAuthority = outside(
    "--authority", in: .rotate,
    help: "Your own authority as the next one: its certificate, then those above it.")
  package static let nextAuthorityKey = outside(
    "--authority-key", in: .rotate,
    help: "Its private key; without it, the key stays elsewhere and signs requests.")
  package static let nextAuthorityName = Option(
    "--authority-name", .authorityName, in: [Verb.rotate], group: .change, scope: .flagOnly,
    note: "the older one's with the next number", help: "The new service authority's common name.")

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
    help: "With --finish: lock out devices that have no certificate of the new authority yet.")

  static let all: [OptionDescription] = [
    teamToAdd.description, teamID.description, appToAdd.description, appToRemove.description,
    appTeam.description, appToChange.description, appRetention.description,
    appBroadcast.description, appConsent.description, keyToAdd.description,
    keyToRevoke.description, keyTeam.description,
    keyID.description, keyEnvironment.description, keyTopics.description, relatedKey.description,
    publicKey.description, certificateToRevoke.description, certificateToImport.description,
    request.description, requestOut.description, serverNames.description,
    commonName.description, authorityName.description, nextAuthorityName.description,
    serviceAuthority.description, serviceAuthorityKey.description, deviceAuthority.description,
    deviceAuthorityKey.description, nextAuthority.description, nextAuthorityKey.description,
    finish.description, force.description, acceptLoss.description,
    keepsTokens.description, backupToCheck.description,
  ]
}
