/// The options of `apus token`. Those of the credentials are the same as of `apus send`.
package enum TokenOptions {
  package static let issuedAt = Option(
    "--issued-at", .moment, in: [Verb.token], group: .issue, scope: .flagOnly, note: "now",
    help: "When the token says that it was made: a span before now such as 55m, or a time.")

  /// What comes through standard input, as messages name it. No option of the table.
  package static let standardInput = issuedAtText

  private static let issuedAtText = Option(
    "-", .text("TOKEN"), in: [Verb.token], group: .issue, scope: .flagOnly, help: "The token.")

  static let all: [OptionDescription] = [issuedAt.description]
}
