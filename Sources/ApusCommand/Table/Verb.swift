/// The commands of `apus`, in the order of its help.
package enum Verb: String, Sendable, CaseIterable {
  case initialize = "init"
  case serve
  case team
  case app
  case key
  case cert
  case device
  case rotate
  case send
  case listen
  case log
  case help
  case version
  case completions
  case man
}

extension Program {
  package static let apus = Program(
    name: "apus", summary: "a push notification service",
    details: [
      """
      Apus takes notifications from providers, as Apple's push service does, and delivers them to devices, now or \
      once they are there again. One program is the service, a provider and a device.
      """
    ],
    commands: Verb.allCases.map(\.description), options: ApusOptions.all)
}

extension Verb {
  fileprivate var description: CommandDescription {
    switch self {
    case .initialize: Self.initializeDescription
    case .serve: Self.serveDescription
    case .team: Self.teamDescription
    case .app: Self.appDescription
    case .key: Self.keyDescription
    case .rotate: Self.rotateDescription
    case .cert: Self.certDescription
    case .device: Self.deviceDescription
    case .send: Self.sendDescription
    case .listen: Self.listenDescription
    case .log: Self.logDescription
    case .help:
      CommandDescription(
        name: rawValue, summary: "describe a command", operands: "[COMMAND]", operandCount: 0...1,
        examples: [("What `send` can do", "apus help send")])
    case .version: CommandDescription(name: rawValue, summary: "print the version")
    case .completions:
      CommandDescription(
        name: rawValue, summary: "print completions for a shell",
        details: ["SHELL is bash, zsh or fish."], operands: "SHELL", operandCount: 1...1,
        examples: [
          ("For bash, in ~/.bashrc", "source <(apus completions bash)"),
          ("For fish", "apus completions fish > ~/.config/fish/completions/apus.fish"),
        ])
    case .man:
      CommandDescription(
        name: rawValue, summary: "print the manual page",
        examples: [("Read it", "apus man | man -l -")])
    }
  }

  private static let initializeDescription = CommandDescription(
    name: "init", summary: "make a new service: authorities, keys, a team and a first app",
    details: [
      """
      Everything goes into one data directory: the authorities that certificates are checked against, the service's \
      own certificate, a team with a provider key, and an app. Nothing is overwritten: a directory that holds a \
      service is refused.
      """,
      """
      Providers get the key file, its id, the team and the authority file, all printed at the end. The rest never \
      leaves the directory.
      """,
    ],
    examples: [
      ("A service for this machine", "apus init --topic com.example.app"),
      ("One that others reach", "apus init --data /var/lib/apus --name push.example.com"),
    ])

  private static let serveDescription = CommandDescription(
    name: "serve", summary: "run the service",
    details: [
      """
      Opens doors in each environment: for providers (HTTP/2), for devices (courier), and for old senders the binary \
      interface (gateway) and its feedback service. Runs until SIGTERM or SIGINT, which let connected peers finish \
      first. A change of directory.conf is taken up within a second.
      """,
      """
      An ADDRESS is a port (`2197`, on every address of the machine), addresses between commas \
      (`127.0.0.1:2197,[::1]:2197`), or `off`. Port 0 takes a free one: with --json the first line on standard \
      output is {"event":"ready", ...} and has the addresses that were bound.
      """,
      """
      Behind each address of a gateway or feedback door may stand modifiers, for that listener alone: \
      `2195,10.0.0.7:3195+legacy-tls+confirm`.
      """,
    ],
    glossary: .init(
      heading: "Modifiers", group: .doors,
      entries: ListenModifier.allCases.map { (term: $0.text, help: $0.help) }),
    examples: [
      ("The service that `apus init` made here", "apus serve"),
      (
        "Production only, on this machine only, without a door for old senders",
        "apus serve --http2-listen 127.0.0.1:2197 --http2-development-listen off "
          + "--courier-listen 127.0.0.1:5223 --courier-development-listen off "
          + "--gateway-listen off --gateway-development-listen off --feedback-listen off "
          + "--feedback-development-listen off"
      ),
      (
        "A sender that speaks TLS 1.0 only, on an inner network, beside all others",
        "apus serve --gateway-listen 2195,10.0.0.7:3195+legacy-tls "
          + "--feedback-listen 2196,10.0.0.7:3196+legacy-tls"
      ),
      ("For a test: nothing kept, free ports", "apus serve --ephemeral --http2-listen 0 --json"),
    ])

  private static let certDescription = CommandDescription(
    name: "cert", summary: "issue a certificate to a provider, or revoke one",
    details: [
      """
      For providers that prove themselves with a certificate instead of a key. It covers TOPIC and each extra topic; \
      the label says what the extra one is for, such as voip or complication.
      """,
      """
      Certificate and key are written to files of their own and, for software that wants both in one, as a .pem file. \
      All three stay in the data directory; keys are readable by their owner alone.
      """,
      """
      A certificate that is revoked, a provider's or a device's, is refused within a second, and the connections end \
      that were opened with it.
      """,
    ],
    examples: [
      ("A sender that speaks the binary interface", "apus cert --rsa 2048 --topic com.example.app"),
      (
        "An app and its calls",
        "apus cert --topic com.example.app --extra-topic com.example.app.voip:voip"
      ),
      ("One that got lost", "apus cert --revoke sender.crt"),
    ])

  private static let deviceDescription = CommandDescription(
    name: "device", summary: "issue a certificate to a device, or retire one",
    details: [
      "The device shows the certificate when it connects; its id, drawn here, is what tokens lead to.",
      """
      A device that is retired is let in no more. Its tokens are dead from that time on: providers are told, by \
      answers and by the feedback service, and what waits for it is thrown away. The entry stands in directory.conf, \
      which a running service reads again when it changes.
      """,
    ],
    examples: [
      ("A device", "apus device --name kitchen-display"),
      ("One whose software wants RSA", "apus device --rsa 2048"),
      ("One that was lost", "apus device --retire 0123456789abcdef"),
    ])

  private static let sendDescription = CommandDescription(
    name: "send", summary: "send a notification to a device",
    details: [
      """
      What can be found in the data directory need not be given: the authority, and the key, team and topic where \
      there is one of them. Otherwise give --authority, a topic, and either a key (--key, --key-id, --team) or a \
      certificate (--certificate, --certificate-key).
      """,
      """
      A notification that the service rejects ends in exit code 1, with the reason. TIME is a span such as +1h, \
      seconds since 1970, or 0 for "now or never".
      """,
    ],
    examples: [
      (
        "From the machine of the service",
        "apus send --token $TOKEN --title Door --alert 'It rang.'"
      ),
      (
        "From another one",
        "apus send --to push.example.com:2197 --authority service.crt --key ABC123DEFG.p8 "
          + "--key-id ABC123DEFG --team TEAM123456 --topic com.example.app --token $TOKEN --alert Hi"
      ),
      (
        "A payload of your own",
        "jq -n '{aps:{badge:3}}' | apus send --token $TOKEN --payload-file -"
      ),
    ])

  private static let listenDescription = CommandDescription(
    name: "listen", summary: "be a device: show notifications as they come",
    details: [
      """
      Connects with a device's certificate, registers each topic, prints its token (which is what a provider needs \
      to reach it), and shows and acknowledges every notification. A connection that is lost comes back by itself; \
      only a first one that fails ends the command.
      """,
      """
      An app that is not named counts as uninstalled: its token dies after the service's grace time. With --json each \
      line is an object whose "event" is connected, token, notification, unregistered or disconnected.
      """,
    ],
    examples: [
      (
        "A device on the machine of the service",
        "apus listen --certificate device.crt --key device.key --topic com.example.app"
      ),
      (
        "In a script: the token into a file, then wait for one notification",
        "apus listen --certificate device.crt --key device.key --topic com.example.app "
          + "--token-file token --count 1 --json"
      ),
    ])

  private static let logDescription = CommandDescription(
    name: "log", summary: "tell what became of notifications",
    details: [
      """
      Reads the ledger in the data directory, whether the service runs or not: for each notification the states that \
      it went through, with time and reason, under the labels of Apple's Delivery Log. Without options it shows the \
      newest lines; options narrow that down, each further.
      """,
      """
      TIME is a span before now (30m, 12h, 7d), or a time such as 2026-01-31T12:00:00Z. All times are UTC. A token is \
      shown by its first digits alone.
      """,
      """
      With --counts it prints, for each topic, how many notifications were accepted, what became of them, and how many \
      are pending: accepted is always all that ended and all that are pending. --by parts each topic's further, by \
      push type or priority; --by reason counts requests that were refused, which are in none of these.
      """,
    ],
    examples: [
      ("What became of one notification", "apus log --id 123E4567-E89B-12D3-A456-426614174000"),
      ("Why a device gets nothing", "apus log --token $TOKEN --since 24h"),
      ("What was thrown away, as it happens", "apus log --state discarded --follow"),
      ("How much was delivered", "apus log --counts"),
      ("Why requests were refused", "apus log --counts --by reason"),
    ])
}
