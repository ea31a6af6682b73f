import ApusModel

extension Verb {
  static let sendDescription = CommandDescription(
    name: "send", summary: "send a notification to a device, or to many",
    details: [
      """
      The data directory supplies what you leave out: the authority, and the key, team and topic if it has only one \
      of them. Otherwise give --authority, a topic, and either a key (--key, --key-id, --team) or a \
      certificate (--certificate, --certificate-key).
      """,
      """
      If the service rejects the notification, the command prints the reason and exits with 1. TIME is a span such as \
      +1h, seconds since 1970, or 0 for "now or never". Warnings on standard error name what a service accepts \
      although it has no effect; --dry-run only prints them, --strict does not send such notifications.
      """,
      """
      --channel sends one broadcast to all devices that are subscribed to a channel. It updates or ends Live \
      Activities (--payload has `event` and `content-state`), cannot start one, and needs --expiration: 0 is the only \
      value for a channel without storage.
      """,
      """
      A list has a device token on each line, or a JSON object on each line, or is a CSV table with column names in \
      its first line (RFC 4180). The field `token`, or `channel` for a broadcast, is the recipient; `topic`, \
      `push-type`, `priority`, `expiration`, `collapse-id`, `id` and `payload` replace the option of that name; use \
      all other fields in texts as {{name}}, or as {{name|default}}. A text that consists of {{name:json}} alone \
      becomes that JSON value, such as a number.
      """,
      """
      --results writes the outcome of each row as it arrives. Rows are marked on the disk before they are sent, so \
      after any interruption --resume sends only the rows that were certainly not sent. Rows whose outcome is unknown \
      are listed; --retry-doubtful sends them again with the same id. Responses 403, 429 and 5xx count as not sent. \
      With --json the results also go to standard output, followed by a summary.
      """,
    ],
    examples: [
      (
        "On the machine of the service",
        "apus send --token $TOKEN --title Doorbell --alert 'It rang.'"
      ),
      (
        "From another machine",
        "apus send --to push.example.com:2197 --authority service.crt --key ABC123DEFG.p8 "
          + "--key-id ABC123DEFG --team TEAM123456 --topic com.example.app --token $TOKEN --alert Hi"
      ),
      (
        "Through Apple's service",
        "apus send --to apple --key AuthKey_ABC123DEFG.p8 --key-id ABC123DEFG --team TEAM123456 "
          + "--topic com.example.app --token $TOKEN --alert Hi --set aps.thread-id=chat"
      ),
      (
        "A payload of your own",
        "jq -n '{aps:{badge:3}}' | apus send --token $TOKEN --payload-file -"
      ),
      (
        "To everyone who follows a game",
        "apus send --channel $CHANNEL --topic com.example.app --expiration 0 "
          + "--set aps.event=update --set aps.timestamp=$NOW --set aps.content-state.home=1"
      ),
      (
        "To a table of tokens and names, at most 5,000 a second",
        "apus send --tokens users.csv --alert 'Hello {{name}}' --rate 5000 "
          + "--results sent.jsonl"
      ),
      (
        "Resume it after an interruption",
        "apus send --tokens users.csv --alert 'Hello {{name}}' --rate 5000 "
          + "--results sent.jsonl --resume"
      ),
      (
        "The invalid tokens, from the results",
        "jq -r 'select(.status == 410) | .token' sent.jsonl"
      ),
    ])

  static let tokenDescription = CommandDescription(
    name: "token", summary: "make or check a provider token",
    details: [
      """
      A provider token is a JWT, signed with a provider key and valid for an hour. Requests carry it in the \
      authorization header after `bearer`. WHAT is make or check. `make` prints a token, from --key, --key-id and \
      --team or from the data directory.
      """,
      """
      `check` reads JWT, or standard input for -, and prints its contents, its age, and the reason for which a service \
      would reject it (exit code 1). It also checks the signature if --key gives the private or public key, or if the \
      data directory contains it. --key-id and --team give the expected values.
      """,
    ], operands: "WHAT [JWT]", operandCount: 1...2, operandWords: ["make", "check"],
    examples: [
      (
        "Send with curl",
        "curl --http2 --header \"authorization: bearer $(apus token make)\" "
          + "--data '{\"aps\":{\"alert\":\"Hi\"}}' https://localhost:2197/3/device/$TOKEN"
      ),
      ("Why is it rejected?", "apus token check - --key AuthKey_ABC123DEFG.p8 < token"),
    ])

  static let doctorDescription = CommandDescription(
    name: "doctor", summary: "diagnose pushes that fail or are slow",
    details: [
      """
      Checks the path of a push step by step: name resolution, connection, TLS and the service's certificate, the \
      credential, and requests with a device token of zeros, which a working service rejects. Explains the first step \
      that fails and how to fix it; if all steps work, it says what limits the rate. Apus does not count these \
      requests, and writes one line about them to its audit log.
      """,
      """
      Without HOST it checks --to. Credentials are found as by `apus send`. Exits with 3 if name resolution, \
      connection or TLS handshake fails, with 4 if the credential cannot be read, and with 1 if it is rejected.
      """,
      """
      With --device it asks the running service, or the one of --admin, and names the first of the likely causes: the \
      device is unknown, retired, refused, offline, has not registered the app or does not want it now, or \
      acknowledges nothing; its token is dead, requests for it are refused, or nothing is sent to it. Exits with 1 if \
      there is a cause.
      """,
      """
      With --upstream it checks the way from this service to the upstream of an app, with the credential that the \
      service has for it. Where there is a proxy, only the request is tried.
      """,
    ], operands: "[HOST:PORT]", operandCount: 0...1,
    operandWords: HostPort.appleNames.map(\.name),
    examples: [
      ("The service on this machine", "apus doctor"),
      ("The upstream of an app", "apus doctor --upstream com.example.app"),
      ("Why a device gets nothing", "apus doctor --device kitchen"),
      (
        "Apple's, with your own key",
        "apus doctor apple --key AuthKey_ABC123DEFG.p8 --key-id ABC123DEFG --team TEAM123456 "
          + "--topic com.example.app"
      ),
    ])
}
