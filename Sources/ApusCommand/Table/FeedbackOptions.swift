/// The options of `apus feedback`.
package enum FeedbackOptions {
  package static let service = Option(
    "--to", .hostPort, in: [Verb.feedback], group: .connection, scope: .named("feedback-to"),
    default: "localhost:2196", note: "where the service of --data listens, or localhost:2196",
    help: "The service's feedback listener.")
  package static let authority = Option(
    "--authority", .file, in: [Verb.feedback], group: .connection,
    scope: .named("feedback-authority"),
    note: "authority/service.crt in the data directory; the system's for --server-certificate",
    help:
      "The certificate of the authority that signed the service's, or `system` for the system's authorities."
  )
  package static let timeout = Option(
    "--timeout", .seconds(1...600), in: [Verb.feedback], group: .connection,
    scope: .named("feedback-timeout"), default: "30",
    help: "How long to wait for the connection and for each further entry.")
  package static let certificate = Option(
    "--certificate", .file, in: [Verb.feedback], group: .credentials,
    scope: .named("feedback-certificate"),
    help: "The provider's certificate; its topic decides which list is read.")
  package static let certificateKey = Option(
    "--certificate-key", .file, in: [Verb.feedback], group: .credentials,
    scope: .named("feedback-certificate-key"),
    note: "the certificate's file, if it also has the key",
    help: "The private key of that certificate.")
  package static let follow = Option(
    "--follow", .flag, in: [Verb.feedback], group: .search, scope: .flagOnly,
    help: "Keep reading new lists until interrupted.")
  package static let interval = Option(
    "--interval", .seconds(1...86_400), in: [Verb.feedback], group: .search, scope: .flagOnly,
    default: "3600", help: "With --follow: how long to wait between lists.")

  static let all: [OptionDescription] = [
    service.description, authority.description, timeout.description, certificate.description,
    certificateKey.description, follow.description, interval.description,
  ]
}

extension Verb {
  static let feedbackDescription = CommandDescription(
    name: "feedback", summary: "read the list of invalid device tokens",
    details: [
      """
      For legacy senders on the binary interface: each line is a device token whose app was removed, and the time at \
      which the service noticed. If the app registered the token again later, it is valid.
      """,
      """
      The service returns each entry once. If a list is incomplete, the command prints its entries and exits with 3; \
      Apus then keeps them for the next reader.
      """,
    ],
    examples: [
      ("Read once", "apus feedback --certificate provider.pem"),
      (
        "Keep reading, for a script",
        "apus feedback --certificate provider.crt --certificate-key provider.key "
          + "--to push.example.com:2196 --authority service.crt --follow --json"
      ),
    ])
}
