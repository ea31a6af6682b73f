// Of `apus-bench fleet`, which is many devices.
extension Program {
  static let fleetDescription = CommandDescription(
    name: BenchVerb.fleet.rawValue, summary: "simulate many devices",
    details: [
      """
      Issues a certificate to each device from the data directory's authority, connects them all, registers the topic, \
      and acknowledges every notification until SIGTERM or SIGINT. A device whose connection ends comes back after a \
      random wait, with its session ticket. A device's id follows from its number, so that a second run has the same \
      devices with the same tokens.
      """,
      """
      At the end it prints one JSON object: devices, registered, connected (now), connecting (now), received, \
      acknowledged, duplicates, handshakes (all that led to a connection), resumed (those of them that resumed a \
      session), disconnections (connections that ended), failures (attempts that came to none), and latency: count, \
      p50_us and so on, from the "sent_ns" of a payload that `push` sent to its receipt. --status keeps a file of it \
      up to date. SIGUSR1 prints it at once and begins the latency anew. SIGHUP breaks all connections, as when a \
      network goes and comes.
      """,
      """
      A process has as many devices as it may open descriptors; --processes spreads them over several, whose sums are \
      printed. A source address has room for about 28,000 connections to one port.
      """,
    ],
    glossary: .init(
      heading: "Ways to misbehave", group: .load,
      entries: Misbehaviour.allCases.map { (term: $0.rawValue, help: $0.help) }),
    examples: [
      (
        "A thousand devices",
        "apus-bench fleet --devices 1000 --connect 127.0.0.1:5223 --print-tokens tokens"
      ),
      (
        "Forty thousand, which come back within ten seconds of a restart",
        "apus-bench fleet --devices 40000 --processes 3 --source 127.0.0.1 --source 127.0.0.2 "
          + "--reconnect-milliseconds 10000 --status fleet.json"
      ),
    ])
}

/// What a device does that no good one does.
package enum Misbehaviour: String, Sendable, CaseIterable {
  case slowReader = "slow-reader"
  case oneByteWriter = "one-byte-writer"
  case halfOpen = "half-open"
  case handshakeStall = "handshake-stall"
  case connectionFlood = "connection-flood"
  case die

  var help: String {
    switch self {
    case .slowReader: "Once connected, it reads a byte a second and acknowledges nothing."
    case .oneByteWriter: "Each byte that it says has a TLS record and a segment of its own."
    case .halfOpen: "It connects and says nothing at all."
    case .handshakeStall: "It sends half of its first message (ClientHello), then nothing."
    case .connectionFlood: "It shakes hands, closes, and connects again at once."
    case .die:
      "A good device until SIGUSR2, which prints what SIGUSR1 does; from then on it is gone like one whose power "
        + "failed: it answers nothing and closes nothing while the process lives."
    }
  }
}

extension BenchOptions {
  private static func ofFleet<Value>(
    _ flag: String, _ syntax: ValueSyntax<Value>, group: OptionGroup = .load,
    default defaultText: String? = nil, note: String? = nil, isRequired: Bool = false,
    repeats: Bool = false, _ help: String
  ) -> Option<Value> {
    Option(
      flag, syntax, in: [BenchVerb.fleet], group: group, scope: .flagOnly, default: defaultText,
      note: note, isRequired: isRequired, repeats: repeats, help: help)
  }

  package static let devices = ofFleet(
    "--devices", .integer("N", 1...1_000_000), isRequired: true, "How many devices.")
  package static let exitAfterRegistration = ofFleet(
    "--exit-after-registration", .flag, "Disconnect and end once all tokens are known.")
  package static let fleetSource = ofFleet(
    "--source", .text("ADDRESS"), group: .connection, note: "the system's choice", repeats: true,
    "An address of this machine to connect from. May be repeated: the devices take turns.")
  package static let processes = ofFleet(
    "--processes", .integer("N", 1...256), default: "1", "Processes that share the devices.")
  package static let atOnce = ofFleet(
    "--handshakes", .integer("N", 1...100_000), default: "64",
    "Devices of a process that are on their way to their first connection at a time.")
  package static let reconnect = ofFleet(
    "--reconnect-milliseconds", .integer("N", 1...3_600_000),
    note: "the library's: 1 s, doubled up to 5 minutes, less up to a half",
    "The longest wait before a device comes back; each is drawn from none to all of it.")
  package static let keepAlive = ofFleet(
    "--keep-alive-seconds", .integer("N", 0...86_400), default: "900",
    "Silence after which a device asks for a sign of life: up to a quarter less, its own for each device. 0: never."
  )
  package static let fleetResumes = ofFleet(
    "--resume", .choice("WHETHER", [("on", true), ("off", false)]), default: "on",
    "Whether devices that come back resume their TLS session.")
  package static let status = ofFleet(
    "--status", .file, "A file with the JSON object, in place anew every half second.")
  package static let misbehaviour = ofFleet(
    "--misbehave", .choice("HOW", Misbehaviour.allCases.map { ($0.rawValue, $0) }),
    note: "not at all", "How the devices misbehave.")

  static let ofFleet: [OptionDescription] = [
    devices.description, fleetSource.description, processes.description,
    exitAfterRegistration.description, atOnce.description, reconnect.description,
    keepAlive.description, fleetResumes.description, status.description,
    misbehaviour.description,
  ]
}
