/// The options of `apus feedback`.
package enum FeedbackOptions {
  package static let service = Option(
    "--to", .hostPort, in: [Verb.feedback], group: .connection, scope: .named("feedback-to"),
    default: "localhost:2196", help: "The service's feedback listener.")
  package static let authority = Option(
    "--authority", .file, in: [Verb.feedback], group: .connection,
    scope: .named("feedback-authority"), note: "authority/service.crt in the data directory",
    help: "The certificate of the authority that signed the service's.")
  package static let timeout = Option(
    "--timeout", .seconds(1...600), in: [Verb.feedback], group: .connection,
    scope: .named("feedback-timeout"), default: "30",
    help: "How long to wait for the connection, and for each further answer.")
  package static let certificate = Option(
    "--certificate", .file, in: [Verb.feedback], group: .credentials,
    scope: .named("feedback-certificate"),
    help: "The provider's certificate: the list is that of its topic.")
  package static let certificateKey = Option(
    "--certificate-key", .file, in: [Verb.feedback], group: .credentials,
    scope: .named("feedback-certificate-key"),
    note: "the certificate's file, if it has the key as well",
    help: "The private key of that certificate.")
  package static let follow = Option(
    "--follow", .flag, in: [Verb.feedback], group: .search, scope: .flagOnly,
    help: "Go on reading, a list each time, until interrupted.")
  package static let interval = Option(
    "--interval", .seconds(1...86_400), in: [Verb.feedback], group: .search, scope: .flagOnly,
    default: "3600", help: "With --follow: how long to wait from one list to the next.")

  static let all: [OptionDescription] = [
    service.description, authority.description, timeout.description, certificate.description,
    certificateKey.description, follow.description, interval.description,
  ]
}

extension Verb {
  static let feedbackDescription = CommandDescription(
    name: "feedback", summary: "read the list of dead device tokens",
    details: [
      """
      For providers that send over the binary interface: each line is a device token whose app is gone, and the time \
      at which the service found that out. A token that the app registered later than that is alive.
      """,
      """
      The service gives each entry once. An incomplete list ends in exit code 3, after its entries were printed; \
      Apus then keeps them for the next reader.
      """,
    ],
    examples: [
      ("Once", "apus feedback --certificate sender.pem"),
      (
        "All the time, for a script",
        "apus feedback --certificate sender.crt --certificate-key sender.key "
          + "--to push.example.com:2196 --authority service.crt --follow --json"
      ),
    ])
}
