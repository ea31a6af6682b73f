// Of `apus-bench push`, a provider that sends at a constant rate.
extension Program {
  static let pushDescription = CommandDescription(
    name: BenchVerb.push.rawValue, summary: "send at a constant rate",
    details: [
      """
      Sends to the tokens in turn through the client library, by a timetable that does not wait for answers: each \
      millisecond has its share. Each payload says when it was due ("sent_ns", nanoseconds of the monotonic clock), so \
      that what comes late counts as late, also where it was sent late; the devices of `fleet` measure by it.
      """,
      """
      Then, or on SIGTERM or SIGINT, it prints one JSON object: sent, accepted, rejected, unknown, seconds, rate \
      (notifications a second), and request_latency: p50_us and so on, from when a request was due to its answer.
      """,
    ],
    examples: [
      (
        "Ten thousand a second for half a minute",
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
    "--connections", .integer("N", 1...1000), group: .connection, default: "4", "How many at most.")
  package static let pushAuthority = ofPush(
    "--authority", .file, group: .connection, note: "authority/service.crt in the data directory",
    "The authority that its certificate for \"localhost\" comes from.")
  package static let pushKey = ofPush(
    "--key", .file, group: .credentials, note: "keys/KEY-ID.p8 in the data directory",
    "The provider key that signs tokens.")
  package static let pushKeyID = ofPush(
    "--key-id", .keyID, group: .credentials, note: "the data directory's first key",
    "Its id.")
  package static let pushTeam = ofPush(
    "--team", .teamID, group: .credentials, note: "the key's team",
    "The team that it belongs to.")
  package static let rate = ofPush(
    "--rate", .integer("N", 0...10_000_000), isRequired: true,
    "Notifications a second. 0: as fast as they are answered.")
  package static let pushSeconds = ofPush(
    "--seconds", .integer("N", 1...86_400), isRequired: true, "For how long.")
  package static let pushPayloadBytes = ofPush(
    "--payload-bytes", .integer("N", 64...4096), default: "400", "Bytes of each payload.")
  package static let pushPriority = ofPush(
    "--priority", .priority, default: "10",
    "10 at once, 5 with regard to the battery, 1 when active.")
  package static let openPushes = ofPush(
    "--capacity", .integer("N", 1...1_000_000),
    note: "8192, or all of 10 seconds where that is more",
    "Pushes without an answer, beyond which the timetable waits; what was due then still counts as late."
  )
  package static let pushJSON = ofPush(
    "--json", .flag, group: .general,
    "Print JSON, which is what it prints anyway.")

  static let ofPush: [OptionDescription] = [
    pushTarget.description, pushConnections.description, pushAuthority.description,
    pushKey.description, pushKeyID.description, pushTeam.description, rate.description,
    pushSeconds.description, pushPayloadBytes.description, pushPriority.description,
    openPushes.description, pushJSON.description,
  ]
}
