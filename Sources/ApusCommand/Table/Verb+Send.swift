extension Verb {
  static let sendDescription = CommandDescription(
    name: "send", summary: "send a notification to a device, or to many",
    details: [
      """
      The data directory supplies what is not given: the authority, and the key, team and topic if there is only one \
      of them. Otherwise give --authority, a topic, and either a key (--key, --key-id, --team) or a \
      certificate (--certificate, --certificate-key).
      """,
      """
      A notification that the service rejects ends in exit code 1, with the reason. TIME is a span such as +1h, \
      seconds since 1970, or 0 for "now or never". A warning on standard error names what a service \
      accepts although it has no effect; --dry-run only prints it, --strict does not send such notifications.
      """,
      """
      A list has a device token on each line, or is a table with names in its first line (RFC 4180), or has a JSON \
      object on each line. Of a row's fields `token` is the recipient; `topic`, `push-type`, `priority`, `expiration`, \
      `collapse-id`, `id` and `payload` replace the option of that name; all others can be used in texts as \
      {{name}}, or as {{name|default}}. A text that is {{name:json}} alone becomes a number, or whatever JSON it is.
      """,
      """
      With --results each row's outcome is written down as it comes. Rows are marked on the disk before they are sent, \
      so that --resume, after whatever has ended the run, sends those that were certainly not sent and none twice. \
      Rows in between are in doubt: they are listed, and sent again with the same id where --retry-doubtful is given. \
      Answers 403, 429 and 5xx count as not sent. With --json the lines of the results come on standard output too, \
      and a summary at the end.
      """,
    ],
    examples: [
      (
        "From the machine of the service",
        "apus send --token $TOKEN --title Doorbell --alert 'It rang.'"
      ),
      (
        "From another one",
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
        "To everybody in a table of tokens and names, at most 5,000 a second",
        "apus send --tokens users.csv --alert 'Hello {{name}}' --rate 5000 "
          + "--results sent.jsonl"
      ),
      (
        "The same again, after it was interrupted",
        "apus send --tokens users.csv --alert 'Hello {{name}}' --rate 5000 "
          + "--results sent.jsonl --resume"
      ),
      (
        "The tokens that are dead, from the results",
        "jq -r 'select(.status == 410) | .token' sent.jsonl"
      ),
    ])

  static let tokenDescription = CommandDescription(
    name: "token", summary: "make a provider token, or say what is wrong with one",
    details: [
      """
      A provider token is what a request's authorization field has behind `bearer`: a JWT that a provider key has \
      signed, good for an hour. WHAT is make, which prints one, from --key, --key-id and --team or from the data \
      directory; or check.
      """,
      """
      `check` reads JWT, or standard input for -, and says what is in it, how old it is, and for which reason a \
      service would refuse it (exit code 1). With --key, either half of the key, it checks the signature too; a \
      data directory that knows the key does as well. --key-id and --team say which ones there should be.
      """,
    ], operands: "WHAT [JWT]", operandCount: 1...2, operandWords: ["make", "check"],
    examples: [
      (
        "Send with curl",
        "curl --http2 --header \"authorization: bearer $(apus token make)\" "
          + "--data '{\"aps\":{\"alert\":\"Hi\"}}' https://localhost:2197/3/device/$TOKEN"
      ),
      ("Why is it refused?", "apus token check - --key AuthKey_ABC123DEFG.p8 < token"),
    ])

  static let doctorDescription = CommandDescription(
    name: "doctor", summary: "diagnose pushes that fail or are slow",
    details: [
      """
      Checks the path of a push step by step: the name, the connection, TLS and the service's certificate, the \
      credential, and requests with a device token of zeros, which a working service rejects. Explains the first step \
      that fails and what to do about it; when all steps work, it says what limits the rate. A service of Apus counts \
      none of these requests, and writes one line about them into its audit log.
      """,
      """
      Without HOST it goes to --to. Credentials are found as by `apus send`. A name, a connection or a TLS handshake \
      that fails ends in exit code 3, a credential that cannot be read in 4, one that is refused in 1.
      """,
    ], operands: "[HOST:PORT]", operandCount: 0...1,
    operandWords: HostPort.appleNames.map(\.name),
    examples: [
      ("The service of this machine", "apus doctor"),
      (
        "Apple's, with your own key",
        "apus doctor apple --key AuthKey_ABC123DEFG.p8 --key-id ABC123DEFG --team TEAM123456 "
          + "--topic com.example.app"
      ),
    ])
}
