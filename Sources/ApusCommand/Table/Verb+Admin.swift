extension Verb {
  static let adminDescription = CommandDescription(
    name: "admin", summary: "make, list or remove tokens for administration from elsewhere",
    details: [
      """
      WHAT is add, list or remove. On the machine of the service whoever may use the data directory administers it, \
      with the other commands or over the socket admin.sock in it, and needs no token. From elsewhere a token is shown \
      over TLS (`apus serve --admin-listen`), and its scopes say what for.
      """,
      """
      read sees status, records, counters, ledger and audit log, and no secret. operate decides about devices: \
      approvals, codes, retirement. trust decides who is trusted: teams, apps, keys, certificates, authorities. Both \
      bring read along, and neither brings the other. send is for programs that push, and brings nothing.
      """,
      """
      A token is 256 random bits behind apus_, shown this once; the service keeps its SHA-256. A running service goes \
      by each change from the next request on. An address that shows wrong tokens is answered slower and slower, and \
      then not heard for a while.
      """,
    ], operands: "WHAT [NAME]", operandCount: 1...2,
    examples: [
      ("For a dashboard", "apus admin add grafana --scopes read"),
      ("For a colleague, for a month", "apus admin add kim --scopes operate,trust --expires 30"),
      ("One that got lost", "apus admin remove kim"),
    ])

  static let statusDescription = CommandDescription(
    name: "status", summary: "show the status of the running service",
    details: [
      """
      Asks the service over the socket in its data directory or, with --admin, one elsewhere. Ends with 3 where none \
      answers, and with 1 where it is not ready for work.
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
