extension Verb {
  static let adminDescription = CommandDescription(
    name: "admin", summary: "make, list or remove tokens for administration from elsewhere",
    details: [
      """
      WHAT is add, list or remove. On the service's own machine, everybody who can use the data directory can \
      administer it without a token, with the other commands or over the socket admin.sock in it. Other machines send \
      a token over TLS (`apus serve --admin-listen`); its scopes say what it permits.
      """,
      """
      read sees status, records, counters, ledger and audit log, and no secret. operate decides about devices: \
      approvals, codes, retirement. trust decides who is trusted: teams, apps, keys, certificates, authorities. Both \
      include read, and neither includes the other. send is for programs that push, and includes nothing else.
      """,
      """
      A token is 256 random bits with the prefix apus_, shown once; the service keeps its SHA-256. A running service \
      applies each change from the next request on. Wrong tokens from an address are answered more and more slowly, \
      then rejected for a while.
      """,
    ], operands: "WHAT [NAME]", operandCount: 1...2, operandWords: ["add", "list", "remove"],
    examples: [
      ("For a dashboard", "apus admin add grafana --scopes read"),
      ("For a colleague, for a month", "apus admin add kim --scopes operate,trust --expires 30"),
      ("One that got lost", "apus admin remove kim"),
    ])

  static let statusDescription = CommandDescription(
    name: "status", summary: "show the status of the running service",
    details: [
      """
      Asks the service over the socket in its data directory or, with --admin, one elsewhere. Exits with 3 when \
      none answers, and with 1 when it is not ready.
      """
    ],
    examples: [
      ("On its machine", "apus status"),
      (
        "From elsewhere",
        "apus status --admin https://push.example.com:2190 --token-file operator.token "
          + "--admin-authority service.crt"
      ),
    ])
}
