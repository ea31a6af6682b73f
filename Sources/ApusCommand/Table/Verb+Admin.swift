extension Verb {
  static let adminDescription = CommandDescription(
    name: "admin", summary: "create, list or remove tokens for remote administration",
    details: [
      """
      WHAT is add, list or remove. On the service's own machine, everybody who can use the data directory can \
      administer the service without a token, with the other commands or over the socket admin.sock in that directory. \
      Other machines send a token over TLS (`apus serve --admin-listen`); its scopes say what it permits.
      """,
      """
      read sees status, records, counters, ledger and audit log, and no secret. operate decides about devices: \
      approvals, codes, retirement; about channels and the relay; and which node of a cluster serves. trust decides \
      who is trusted: teams, apps, keys, certificates, authorities. Both include read; neither includes the other. \
      send permits test pushes only.
      """,
      """
      A token is 256 random bits with the prefix apus_, shown once; the service keeps its SHA-256. A running service \
      applies each change from the next request on. An address that sends wrong tokens gets slower and slower \
      responses, and is then rejected for a while.
      """,
    ], operands: "WHAT [NAME]", operandCount: 1...2, operandWords: ["add", "list", "remove"],
    examples: [
      ("For a dashboard", "apus admin add grafana --scopes read"),
      ("For a colleague, for a month", "apus admin add kim --scopes operate,trust --expires 30"),
      ("After a token was lost", "apus admin remove kim"),
    ])

  static let webhookDescription = CommandDescription(
    name: "webhook",
    summary: "tell another service what happens: add, list, test or remove webhooks",
    details: [
      """
      WHAT is add URL, list, test NAME, rotate NAME or remove NAME. The service POSTs events to the URL, in batches \
      and in order, until the receiver answers with a status from 200 to 299. A running service applies each change \
      within a second.
      """,
      """
      Events: notification.finished, token.died, device.first-seen, device.connected, device.retired, \
      certificate.expiring, trust.stale and upstream.failing. A webhook also gets `gap` if events are missing, and \
      `test`.
      """,
      """
      Each request is signed with the webhook's secret, which `add` prints once: the header apus-webhook-signature has \
      the time and an HMAC-SHA256 of time and body. `rotate` makes another secret, and both sign until `rotate \
      --finish`.
      """,
    ], operands: "WHAT [URL]", operandCount: 1...2,
    operandWords: ["add", "list", "test", "rotate", "remove"],
    examples: [
      ("Be told about all events", "apus webhook add https://backend.example.com/push-events"),
      (
        "Only about dead tokens",
        "apus webhook add https://backend.example.com/dead --name dead --event token.died"
      ),
      ("Send a test event", "apus webhook test default"),
      ("Replace the secret", "apus webhook rotate default"),
    ])

  static let statusDescription = CommandDescription(
    name: "status", summary: "show the status of the running service",
    details: [
      """
      Asks the service over the socket in its data directory or, with --admin, a remote service. Exits with 3 if no \
      service answers, and with 1 if it is not ready.
      """
    ],
    examples: [
      ("On its machine", "apus status"),
      (
        "From another machine",
        "apus status --admin https://push.example.com:2190 --token-file operator.token "
          + "--admin-authority service.crt"
      ),
    ])
}
