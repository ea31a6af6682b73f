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
  case cluster
  case backup
  case restore
  case check
  case admin
  case webhook
  case status
  case send
  case job
  case channel
  case relay
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
      Apus accepts notifications from providers, as Apple's push service does, and delivers them to devices at once or \
      when they reconnect. This program can act as the service, a provider or a device.
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
    case .cluster: Self.clusterDescription
    case .backup: Self.backupDescription
    case .restore: Self.restoreDescription
    case .check: Self.checkDescription
    case .admin: Self.adminDescription
    case .webhook: Self.webhookDescription
    case .status: Self.statusDescription
    case .cert: Self.certDescription
    case .device: Self.deviceDescription
    case .code: Self.codeDescription
    case .send: Self.sendDescription
    case .job: Self.jobDescription
    case .channel: Self.channelDescription
    case .relay: Self.relayDescription
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
    name: "init", summary: "create a new service: authorities, keys, a team and a first app",
    details: [
      """
      Everything goes into one data directory: the authorities that certificates are checked against, the service's \
      own certificate, a team with a provider key, and an app. If the directory already contains a service, the \
      command fails and overwrites nothing.
      """,
      """
      Give providers the key file, its id, the team and the authority file, all printed at the end. Everything else \
      stays in the directory.
      """,
      """
      You can use your own authority for either purpose. Choose an intermediate that issues for this service only: \
      every provider or device that it certifies can connect. If its key stays elsewhere, the directory contains \
      requests for the service's own certificates: have them signed, and import the certificates with `apus \
      cert --import`.
      """,
    ],
    examples: [
      ("A service for this machine", "apus init --topic com.example.app"),
      ("A service for other machines", "apus init --data /var/lib/apus --name push.example.com"),
      (
        "For legacy senders that check who issued their certificate",
        "apus init --name push.example.com --authority-name 'Apus for Apple'"
      ),
      (
        "With your own authority, whose key stays elsewhere",
        "apus init --name push.example.com --service-authority push-ca.pem"
      ),
    ])

  private static let serveDescription = CommandDescription(
    name: "serve", summary: "run the service",
    details: [
      """
      Opens listeners in each environment: for providers (HTTP/2), for devices (courier), and for legacy senders the \
      binary interface (gateway) and its feedback service. Runs until SIGTERM or SIGINT, then lets connected peers \
      finish. Changes to directory.conf apply within a second.
      """,
      """
      An ADDRESS is a port (`2197`, on every address of the machine), addresses separated by commas \
      (`127.0.0.1:2197,[::1]:2197`), or `off`. Port 0 picks a free port: with --json the first line on standard \
      output is {"event":"ready", ...} and has the bound addresses.
      """,
      """
      An address may end with modifiers, which apply to that address only: \
      `2195,10.0.0.7:3195+legacy-tls+confirm`.
      """,
      """
      Sockets that systemd opened (LISTEN_FDS) replace these addresses. FileDescriptorName= names the listener by its \
      option, such as `http2`, `gateway-development`, `admin` or `console`; without it, the address decides. The \
      sockets stay open during a restart, so that no connection is refused.
      """,
    ],
    glossary: .init(
      heading: "Modifiers", group: .listeners,
      entries: ListenModifier.allCases.map { (term: $0.text, help: $0.help) }),
    examples: [
      ("The service that `apus init` made here", "apus serve"),
      (
        "Production only, on this machine only, without listeners for legacy senders",
        "apus serve --http2-listen 127.0.0.1:2197 --http2-development-listen off "
          + "--courier-listen 127.0.0.1:5223 --courier-development-listen off "
          + "--gateway-listen off --gateway-development-listen off --feedback-listen off "
          + "--feedback-development-listen off"
      ),
      (
        "An extra listener on an internal network for legacy senders that speak only TLS 1.0",
        "apus serve --gateway-listen 2195,10.0.0.7:3195+legacy-tls "
          + "--feedback-listen 2196,10.0.0.7:3196+legacy-tls"
      ),
      ("For a test: nothing stored, a free port", "apus serve --ephemeral --http2-listen 0 --json"),
    ])

  private static let codeDescription = CommandDescription(
    name: "code", summary: "make, list or withdraw enrolment codes for devices",
    details: [
      """
      The device makes its own key, presents the enrolment code to the running service, and gets a certificate. Case, \
      spaces and hyphens are ignored. Only the code's SHA-256 is stored; a running service needs no reload.
      """,
      """
      A code enrols as many devices as it has uses, even across crashes. A device that missed the response asks again \
      with the same key and gets the same certificate.
      """,
    ],
    examples: [
      ("For one device, valid for a day", "apus code --name kitchen-display"),
      (
        "On the device",
        "apus listen --identity device.pem --enroll CODE --to push.example.com:5223 "
          + "--authority service.crt --topic com.example.app"
      ),
      ("For ten devices, valid for an hour", "apus code --uses 10 --expires 1"),
    ])

  private static let listenDescription = CommandDescription(
    name: "listen", summary: "act as a device and show its notifications",
    details: [
      """
      Connects with a device's certificate (--certificate and --key, or --identity), registers each topic, prints its \
      device token (which a provider needs to reach it), and shows and acknowledges every notification. Reconnects \
      after a lost connection; fails only if the first connection fails.
      """,
      """
      An app that is not named counts as uninstalled: its token becomes invalid after the service's grace time. With \
      --json each line is an object whose "event" is connected, token, subscribed, notification, activity, \
      unregistered, disconnected, pending, enrolled or renewed.
      """,
      """
      With --channel the device also registers the app's topic for Live Activities, subscribes to these channels, and \
      shows what is broadcast on them. They are then all its subscriptions, which last until another start changes them.
      """,
      """
      If the file of --identity does not exist yet, the device makes a key and asks the service for a certificate. It \
      presents the code of --enroll, or else waits for the operator's approval. Later starts use the file, and the \
      device renews the certificate in the last third of its lifetime.
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
        "A subscriber of a channel",
        "apus listen --identity device.pem --topic com.example.app "
          + "--channel dHN0LXNyY2gtY2hubA=="
      ),
      (
        "In a script: write the token to a file, then wait for one notification",
        "apus listen --certificate device.crt --key device.key --topic com.example.app "
          + "--token-file token --count 1 --json"
      ),
    ])

  private static let logDescription = CommandDescription(
    name: "log", summary: "show what happened to notifications",
    details: [
      """
      Reads the ledger in the data directory, whether or not the service runs: for each notification the states that \
      it went through, with time and reason, under the labels of Apple's Delivery Log. Without options it shows the \
      newest lines; each option narrows the selection further.
      """,
      """
      TIME is a span before now (30m, 12h, 7d), or a time such as 2026-01-31T12:00:00Z. All times are UTC. Only the \
      first digits of a token are shown.
      """,
      """
      --counts prints, for each topic, how many notifications were accepted, how they ended, and how many are \
      pending; accepted is always the sum of ended and pending. --by groups each topic's notifications by push type or \
      priority; --by reason counts rejected requests, which the other counts exclude. The numbers come from the \
      running service; if none runs, they come from the store, and with --json `live` is false.
      """,
      """
      --export prints CSV: for each day, channel and app the broadcasts that were published and delivered, and the \
      subscriptions. A running service writes them once a minute, and keeps them for half a year.
      """,
    ],
    examples: [
      ("What happened to one notification", "apus log --id 123E4567-E89B-12D3-A456-426614174000"),
      ("Why a device gets nothing", "apus log --token $TOKEN --since 24h"),
      ("Show discarded notifications as they happen", "apus log --state discarded --follow"),
      ("How many notifications were delivered", "apus log --counts"),
      ("Why requests were rejected", "apus log --counts --by reason"),
      ("What was broadcast on channels", "apus log --export --since 30d > channels.csv"),
    ])
}
