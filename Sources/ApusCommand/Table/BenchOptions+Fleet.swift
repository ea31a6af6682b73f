// The options of `apus-bench fleet`, which simulates many devices.
extension Program {
  static let fleetDescription = CommandDescription(
    name: BenchVerb.fleet.rawValue, summary: "simulate many devices",
    details: [
      """
      Issues a certificate to each device from the data directory's authority, connects them all, registers the topic, \
      and acknowledges every notification until SIGTERM or SIGINT. A device whose connection ends reconnects after a \
      random wait, with its session ticket. A device's id is derived from its number, so a second run has the same \
      devices with the same tokens.
      """,
      """
      At the end it prints one JSON object: devices, registered, subscribed (to all channels of --channel, which the \
      service confirmed), connected (now), connecting (now), received, \
      acknowledged, duplicates, handshakes (that led to a connection), resumed (handshakes that resumed a session), \
      disconnections (connections that ended), failures (failed attempts), and latency: count, p50_us and so on, from \
      the "sent_ns" in a payload of `push` to its receipt. --status keeps a file with this object up to date. SIGUSR1 \
      prints it at once and resets the latency. SIGHUP breaks all connections, like a network failure.
      """,
      """
      The limit of open descriptors bounds the devices of a process; --processes spreads them over several processes \
      and prints the sums. A source address has room for about 28,000 connections to one port.
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
        "A thousand devices that follow a channel",
        "apus-bench fleet --devices 1000 --connect 127.0.0.1:5223 --channel AQIDBAUGBwgJCgsMDQ4PEA=="
      ),
      (
        "Forty thousand devices, which reconnect within ten seconds of a restart",
        "apus-bench fleet --devices 40000 --processes 3 --source 127.0.0.1 --source 127.0.0.2 "
          + "--reconnect-milliseconds 10000 --status fleet.json"
      ),
    ])
}

/// How a misbehaving device behaves.
package enum Misbehaviour: String, Sendable, CaseIterable {
  case slowReader = "slow-reader"
  case oneByteWriter = "one-byte-writer"
  case halfOpen = "half-open"
  case handshakeStall = "handshake-stall"
  case connectionFlood = "connection-flood"
  case die

  var help: String {
    switch self {
    case .slowReader: "Once connected, it reads one byte per second and acknowledges nothing."
    case .oneByteWriter: "It sends each byte in a separate TLS record and TCP segment."
    case .halfOpen: "It connects and sends nothing."
    case .handshakeStall: "It sends half of its first message (ClientHello), then nothing."
    case .connectionFlood: "It completes the handshake, closes, and connects again at once."
    case .die:
      "It behaves well until SIGUSR2, which prints what SIGUSR1 prints. From then on it acts like a device that lost "
        + "power: it answers nothing and closes nothing while the process lives."
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
    "--devices", .integer("N", 1...1_000_000), isRequired: true, "Number of devices.")
  package static let exitAfterRegistration = ofFleet(
    "--exit-after-registration", .flag, "Disconnect and exit once all tokens are known.")
  package static let fleetSource = ofFleet(
    "--source", .text("ADDRESS"), group: .connection, note: "the system's choice", repeats: true,
    "A local address to connect from. May be repeated; the devices use the addresses in turn.")
  package static let processes = ofFleet(
    "--processes", .integer("N", 1...256), default: "1", "Processes that share the devices.")
  package static let atOnce = ofFleet(
    "--handshakes", .integer("N", 1...100_000), default: "64",
    "Devices per process that may open their first connection at the same time.")
  package static let reconnect = ofFleet(
    "--reconnect-milliseconds", .integer("N", 1...3_600_000),
    note: "the library's: 1 s, doubled up to 5 minutes, less up to a half",
    "The longest wait before a device reconnects; each wait is random, from 0 up to this.")
  package static let keepAlive = ofFleet(
    "--keep-alive-seconds", .integer("N", 0...86_400), default: "900",
    "Silence after which a device sends a keep-alive; each device picks up to a quarter less. 0: never."
  )
  package static let fleetResumes = ofFleet(
    "--resume", .choice("WHETHER", [("on", true), ("off", false)]), default: "on",
    "Whether devices resume their TLS session when they reconnect.")
  package static let status = ofFleet(
    "--status", .file, "A file for the JSON object, replaced every half second.")
  package static let misbehaviour = ofFleet(
    "--misbehave", .choice("HOW", Misbehaviour.allCases.map { ($0.rawValue, $0) }),
    note: "not at all", "How the devices misbehave.")
  package static let liveActivities = ofFleet(
    "--live-activities", .flag,
    "The devices also register the app's topic for Live Activities, on which broadcasts come.")
  package static let subscriptions = ofFleet(
    "--channel", .channelID, repeats: true,
    "Subscribe each device to this channel of the app. May be repeated; implies --live-activities.")

  static let ofFleet: [OptionDescription] = [
    devices.description, fleetSource.description, processes.description,
    exitAfterRegistration.description, atOnce.description, reconnect.description,
    keepAlive.description, fleetResumes.description, status.description,
    misbehaviour.description, liveActivities.description, subscriptions.description,
  ]
}
