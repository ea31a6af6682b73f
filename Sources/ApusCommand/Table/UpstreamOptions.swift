/// The options of `apus app` and `apus dev` about an app's upstream.
package enum UpstreamOptions {
  /// The value that removes what an option is about.
  package static let none = "none"

  package static let service = option(
    "--upstream", .text("WHERE"), note: "none",
    help:
      "Where pushes to device tokens of another service go: apple, apple-sandbox, https://HOST[:PORT], or none."
  )
  package static let key = option(
    "--upstream-key", .file,
    help: "A provider key of the upstream service, as Apple's .p8 file. It replaces a certificate.")
  package static let keyID = option(
    "--upstream-key-id", .keyID, note: "from a name such as AuthKey_ABC123DEFG.p8",
    help: "The key's id there.")
  package static let team = option(
    "--upstream-team", .teamID, help: "The id of the team that the key belongs to there.")
  package static let certificate = option(
    "--upstream-certificate", .file,
    help:
      "A certificate of the upstream service in place of a key: PEM, then those above it, or PKCS#12 with its key."
  )
  package static let certificateKey = option(
    "--upstream-certificate-key", .file, note: "in the certificate's file",
    help: "The key of a certificate in PEM form, not encrypted.")
  package static let password = option(
    "--upstream-password-file", .file, help: "A file with the password of the PKCS#12 file.")
  package static let topic = option(
    "--upstream-topic", .topic, note: "the same as here",
    help: "The app's bundle id there; none for the same as here.")
  package static let proxy = option(
    "--upstream-proxy", .text("[USER@]HOST:PORT"), note: "none",
    help: "An HTTP proxy in front of the upstream service, or none.")
  package static let proxyPassword = option(
    "--upstream-proxy-password-file", .file, help: "A file with the password of the proxy's user.")
  package static let authority = option(
    "--upstream-authority", .file, note: "the system's authorities",
    help:
      "The authorities that the upstream's certificate is checked against (PEM); none for the system's."
  )
  package static let spool = option(
    "--upstream-spool", .choice("WHETHER", [("on", true), ("off", false)]), note: "off",
    help: "Whether pushes are kept and answered with 200 while the upstream cannot take them.")

  package static let perSecond = option(
    "--upstream-per-second", .text("N"), note: "any number",
    help: "How many pushes of the app may go there in a second; none for any number.")

  /// The app whose upstream `apus doctor` checks.
  package static let examined = Option(
    "--upstream", .topic, in: [Verb.doctor], group: .search, scope: .flagOnly,
    help: "Check the way from this service to the upstream of the app with this bundle id.")

  private static func option<Value>(
    _ flag: String, _ syntax: ValueSyntax<Value>, note: String? = nil, help: String
  ) -> Option<Value> {
    Option(
      flag, syntax, in: [Verb.app, .dev], group: .upstream, scope: .flagOnly, note: note, help: help
    )
  }

  package static let all: [OptionDescription] = [
    service.description, key.description, keyID.description, team.description,
    certificate.description, certificateKey.description, password.description, topic.description,
    proxy.description, proxyPassword.description, authority.description, spool.description,
    perSecond.description,
  ]
}
