/// The options of `apus token`, besides those for credentials, which `apus send` shares.
package enum TokenOptions {
  package static let issuedAt = Option(
    "--issued-at", .moment, in: [Verb.token], group: .issue, scope: .flagOnly, note: "now",
    help: "The issue time in the token: a span before now such as 55m, or a time.")

  /// A token from standard input, for error messages. It is not in the table of options.
  package static let standardInput = issuedAtText

  private static let issuedAtText = Option(
    "-", .text("TOKEN"), in: [Verb.token], group: .issue, scope: .flagOnly, help: "The token.")

  static let all: [OptionDescription] = [issuedAt.description]
}
