/// The commands of `apus`, in the order of its help.
package enum Verb: String, Sendable, CaseIterable {
  case initialize = "init"
  case serve
  case dev
  case team
  case app
  case key
  case cert
  case device
  case code
  case rotate
  case store
  case admin
  case status
  case send
  case listen
  case log
  case token
  case doctor
  case feedback
  case bench
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
      when they come back. One program is the service, a provider and a device.
      """
    ],
    commands: Verb.allCases.map(\.description), options: ApusOptions.all)
}

extension Verb {
  fileprivate var description: CommandDescription {
    switch self {
    case .initialize: Self.initializeDescription
    case .serve: Self.serveDescription
    case .dev: Self.devDescription
    case .team: Self.teamDescription
    case .app: Self.appDescription
    case .key: Self.keyDescription
    case .rotate: Self.rotateDescription
    case .store: Self.storeDescription
    case .admin: Self.adminDescription
    case .status: Self.statusDescription
    case .cert: Self.certDescription
    case .device: Self.deviceDescription
    case .code: Self.codeDescription
    case .send: Self.sendDescription
    case .listen: Self.listenDescription
    case .log: Self.logDescription
    case .token: Self.tokenDescription
    case .doctor: Self.doctorDescription
    case .feedback: Self.feedbackDescription
    case .bench: Self.benchDescription
    case .help:
      CommandDescription(
        name: rawValue, summary: "describe a command", operands: "[COMMAND]", operandCount: 0...1,
        examples: [("What `send` can do", "apus help send")])
    case .version: CommandDescription(name: rawValue, summary: "print the version")
    case .completions:
      CommandDescription(
        name: rawValue, summary: "print completions for a shell",
        details: ["SHELL is bash, zsh or fish."], operands: "SHELL", operandCount: 1...1,
        operandWords: Shell.allCases.map(\.rawValue),
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
      """
      An authority of your own can take the place of either, best an intermediate that issues for this service only: \
      every provider or device that it certifies can connect. If its key stays elsewhere, the directory contains \
      requests for the service's own certificates: have them signed, and give the certificates with `apus \
      cert --import`.
      """,
    ],
    examples: [
      ("A service for this machine", "apus init --topic com.example.app"),
      ("One that others reach", "apus init --data /var/lib/apus --name push.example.com"),
      (
        "Below your own authority, whose key stays elsewhere",
        "apus init --name push.example.com --service-authority push-ca.pem"
      ),
    ])

  private static let serveDescription = CommandDescription(
    name: "serve", summary: "run the service",
    details: [
      """
      Opens listeners in each environment: for providers (HTTP/2), for devices (courier), and for old senders the \
      binary interface (gateway) and its feedback service. Runs until SIGTERM or SIGINT; connected peers finish first. \
      Changes of directory.conf apply within a second.
      """,
      """
      An ADDRESS is a port (`2197`, on every address of the machine), addresses separated by commas \
      (`127.0.0.1:2197,[::1]:2197`), or `off`. Port 0 takes a free one: with --json the first line on standard \
      output is {"event":"ready", ...} and has the addresses that were bound.
      """,
      """
      An address of a gateway or feedback listener may end with modifiers, which apply to that address only: \
      `2195,10.0.0.7:3195+legacy-tls+confirm`.
      """,
      """
      Sockets that systemd opened (LISTEN_FDS) are used in place of these: each belongs to the listener that \
      FileDescriptorName= calls by its option, such as `http2` or `gateway-development`, `admin` or `console`; else to \
      the one with its address. They stay open over a restart, so that no connection is refused.
      """,
    ],
    glossary: .init(
      heading: "Modifiers", group: .listeners,
      entries: ListenModifier.allCases.map { (term: $0.text, help: $0.help) }),
    examples: [
      ("The service that `apus init` made here", "apus serve"),
      (
        "Production only, on this machine only, without listeners for old senders",
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

  private static let codeDescription = CommandDescription(
    name: "code", summary: "make a one-time code with which a device gets its certificate",
    details: [
      """
      The device makes its own key, presents the code to the running service, and gets a certificate. Case, spaces and \
      hyphens are ignored. Only the code's SHA-256 is stored; a running service needs no signal.
      """,
      """
      A code enrols as many devices as it has uses, even across crashes. A device that missed the answer asks again \
      with the same key and gets the same certificate.
      """,
    ],
    examples: [
      ("For one device, for a day", "apus code --name kitchen-display"),
      (
        "On the device",
        "apus listen --identity device.pem --enroll CODE --to push.example.com:5223 "
          + "--authority service.crt --topic com.example.app"
      ),
      ("For ten of them, for an hour", "apus code --uses 10 --expires 1"),
    ])

  private static let listenDescription = CommandDescription(
    name: "listen", summary: "act as a device and show its notifications",
    details: [
      """
      Connects with a device's certificate (--certificate and --key, or --identity), registers each topic, prints its \
      token (which is what a provider needs to reach it), and shows and acknowledges every notification. A connection \
      that is lost is opened again; only a first one that fails ends the command.
      """,
      """
      An app that is not named counts as uninstalled: its token dies after the service's grace time. With --json each \
      line is an object whose "event" is connected, token, notification, unregistered, disconnected, pending, enrolled \
      or renewed.
      """,
      """
      With --identity and no such file yet, the device makes a key and asks the service for a certificate: with the \
      code of --enroll, or else it waits until the operator approves it. Later starts take the file as it is, and the \
      certificate is renewed in the last third of its life.
      """,
    ],
    examples: [
      (
        "A device on the machine of the service",
        "apus listen --certificate device.crt --key device.key --topic com.example.app"
      ),
      (
        "A new device, with a code from the operator",
        "apus listen --identity device.pem --enroll CODE --topic com.example.app"
      ),
      (
        "In a script: the token into a file, then wait for one notification",
        "apus listen --certificate device.crt --key device.key --topic com.example.app "
          + "--token-file token --count 1 --json"
      ),
    ])

  private static let logDescription = CommandDescription(
    name: "log", summary: "show what happened to notifications",
    details: [
      """
      Reads the ledger in the data directory, whether the service runs or not: for each notification the states that \
      it went through, with time and reason, under the labels of Apple's Delivery Log. Without options it shows the \
      newest lines; each option narrows the selection further.
      """,
      """
      TIME is a span before now (30m, 12h, 7d), or a time such as 2026-01-31T12:00:00Z. All times are UTC. Only the \
      first digits of a token are shown.
      """,
      """
      With --counts it prints, for each topic, how many notifications were accepted, how they ended, and how many are \
      pending; accepted is always the sum of those that ended and those that are pending. --by groups each topic's \
      notifications by push type or priority; --by reason counts rejected requests, which are in none of these. A \
      service that runs is asked through its administration; otherwise the counters are those of the store, and with \
      --json `live` is false.
      """,
    ],
    examples: [
      ("What happened to one notification", "apus log --id 123E4567-E89B-12D3-A456-426614174000"),
      ("Why a device gets nothing", "apus log --token $TOKEN --since 24h"),
      ("What is discarded, as it happens", "apus log --state discarded --follow"),
      ("How much was delivered", "apus log --counts"),
      ("Why requests were refused", "apus log --counts --by reason"),
    ])
}
