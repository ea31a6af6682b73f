// The options of `apus-bench push`, a provider that sends at a constant rate.
extension Program {
  static let pushDescription = CommandDescription(
    name: BenchVerb.push.rawValue, summary: "send at a constant rate",
    details: [
      """
      Sends to the tokens in turn through the client library, at a fixed rate that does not wait for responses. Each \
      payload contains its due time ("sent_ns", nanoseconds of the monotonic clock), from which the devices of `fleet` \
      measure latency, so a push that is sent late also counts as late.
      """,
      """
      At the end, or on SIGTERM or SIGINT, it prints one JSON object: sent, accepted, rejected, unknown, seconds, rate \
      (notifications per second), and request_latency: p50_us and so on, from a request's due time to its response.
      """,
    ],
    examples: [
      (
        "Ten thousand per second for half a minute",
        "apus-bench push --data DIR --connect 127.0.0.1:2197 --tokens tokens --rate 10000 --seconds 30"
      )
    ])
}

extension BenchOptions {
  private static func ofPush<Value>(
    _ flag: String, _ syntax: ValueSyntax<Value>, group: OptionGroup = .load,
    default defaultText: String? = nil, note: String? = nil, isRequired: Bool = false,
    _ help: String
  ) -> Option<Value> {
    Option(
      flag, syntax, in: [BenchVerb.push], group: group, scope: .flagOnly, default: defaultText,
      note: note, isRequired: isRequired, help: help)
  }

  package static let pushTarget = ofPush(
    "--connect", .hostPort, group: .connection, default: "127.0.0.1:2197",
    "The service's listener for providers, as a numeric address.")
  package static let pushConnections = ofPush(
    "--connections", .integer("N", 1...1000), group: .connection, default: "4",
    "Maximum number of connections.")
  package static let pushAuthority = ofPush(
    "--authority", .file, group: .connection, note: "authority/service.crt in the data directory",
    "The authority that issued the service's certificate for \"localhost\".")
  package static let pushKey = ofPush(
    "--key", .file, group: .credentials, note: "keys/KEY-ID.p8 in the data directory",
    "The provider key that signs tokens.")
  package static let pushKeyID = ofPush(
    "--key-id", .keyID, group: .credentials, note: "the data directory's first key",
    "The key's id, 10 letters and digits, which the name of its file contains (ID.p8).")
  package static let pushTeam = ofPush(
    "--team", .teamID, group: .credentials, note: "the key's team",
    "The team that the key belongs to.")
  package static let rate = ofPush(
    "--rate", .integer("N", 0...10_000_000), isRequired: true,
    "Notifications per second. 0: as fast as responses arrive.")
  package static let pushSeconds = ofPush(
    "--seconds", .integer("N", 1...86_400), isRequired: true, "Duration in seconds.")
  package static let pushPayloadBytes = ofPush(
    "--payload-bytes", .integer("N", 64...4096), default: "400", "Bytes per payload.")
  package static let pushPriority = ofPush(
    "--priority", .priority, default: "10",
    "10 delivers at once, 5 saves battery, 1 does not wake the device.")
  package static let pushChannel = ofPush(
    "--channel", .channelID, note: "the devices of --tokens",
    "Send broadcasts to this channel of the app instead of pushes to devices.")
  package static let openPushes = ofPush(
    "--capacity", .integer("N", 1...1_000_000),
    note: "8192, or the pushes of 10 seconds if that is more",
    "Maximum number of open pushes. At the limit, sending waits; pushes due meanwhile count as late."
  )
  package static let pushJSON = ofPush(
    "--json", .flag, group: .general,
    "Accepted for uniformity; the output is always JSON.")

  static let ofPush: [OptionDescription] = [
    pushTarget.description, pushConnections.description, pushAuthority.description,
    pushKey.description, pushKeyID.description, pushTeam.description, rate.description,
    pushSeconds.description, pushPayloadBytes.description, pushPriority.description,
    pushChannel.description, openPushes.description, pushJSON.description,
  ]
}
